// The header of a .safetensors file, and bounded reads of its tensors.
//
// Layout: u64 little-endian header length, that many bytes of JSON {name: {dtype, shape, data_offsets}}, then data.
// Every size is checked (no overflow, inside the file, offsets agree with dtype and shape, no overlap) before use.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/file.h"

namespace swiftlet {

struct TensorInfo {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  uint64_t offset;  // of the first byte, from the start of the file
  uint64_t bytes;
};

class SafetensorsFile {
 public:
  SafetensorsFile() = default;
  explicit SafetensorsFile(const std::string& path);  // throws ErrorKind::Container

  const TensorInfo* find(const std::string& name) const;  // nullptr: no such tensor
  const std::map<std::string, TensorInfo>& tensors() const { return tensors_; }
  const std::string& path() const { return file_.path(); }

  // Reads `bytes` of the tensor from its byte `begin` on.
  void read(const TensorInfo& tensor, uint64_t begin, void* dst, uint64_t bytes) const;

 private:
  File file_;
  std::map<std::string, TensorInfo> tensors_;
};

}  // namespace swiftlet
