#include "container/safetensors.h"

#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "container/json.h"

namespace swiftlet {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kMaxHeaderBytes = uint64_t(100) << 20;
constexpr const char* kRemedy = "the file is damaged or incomplete: fetch or make it again";

uint64_t little_endian(const unsigned char (&bytes)[kLengthBytes]) {
  uint64_t value = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) value |= uint64_t(bytes[i]) << (8 * i);
  return value;
}

std::string read_header(const File& file) {
  if (file.size() < kLengthBytes)
    fail(ErrorKind::Container, file.path(), " has ", file.size(), " bytes, too few for a safetensors file; ", kRemedy);
  unsigned char prefix[kLengthBytes];
  file.read_at(0, prefix, sizeof prefix);
  const uint64_t length = little_endian(prefix);
  if (length > file.size() - kLengthBytes)
    fail(ErrorKind::Container, file.path(), " is not a safetensors file or was cut off: it announces a header of ",
         length, " bytes, but has ", file.size(), " bytes; ", kRemedy);
  if (length > kMaxHeaderBytes)
    fail(ErrorKind::Container, file.path(), " has a header of ", length, " bytes, more than the ", kMaxHeaderBytes,
         " that are read; ", kRemedy);
  std::string header(length, '\0');
  file.read_at(kLengthBytes, header.data(), header.size());
  if (!header.starts_with('{'))
    fail(ErrorKind::Container, file.path(), " is not a safetensors file: its header does not begin with '{'; ",
         kRemedy);
  return header;
}

// `data` bytes follow the header, which ends at `data_start`.
TensorInfo parse_tensor(const std::string& name, const JsonRef& entry, uint64_t data_start, uint64_t data) {
  const JsonRef dtype_name = entry.at("dtype");
  const auto dtype = parse_dtype(dtype_name.as_string());
  if (!dtype) dtype_name.refuse("an element type that is known here, such as F32, F16, BF16, U32 or U8");

  std::vector<int64_t> shape = entry.at("shape").as_shape();
  const auto bytes = tensor_bytes(shape, *dtype);
  if (!bytes) entry.at("shape").complain("describes a tensor of more than 2^64 bytes");

  const JsonRef span = entry.at("data_offsets");
  const auto ends = span.elements();
  if (ends.size() != 2) span.refuse("two numbers, begin and end");
  const uint64_t begin = ends[0].as_uint(data);
  const uint64_t end = ends[1].as_uint(data);
  if (begin > end || end - begin != *bytes)
    span.complain("go from " + std::to_string(begin) + " to " + std::to_string(end) + ", but dtype and shape take " +
                  std::to_string(*bytes) + " bytes");
  return {name, *dtype, std::move(shape), data_start + begin, *bytes};
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) : file_(path) {
  const std::string header = read_header(file_);
  const JsonFile json = parse_json(header, path, kRemedy);
  const uint64_t data_start = kLengthBytes + header.size();
  for (const auto& [name, entry] : JsonRef(json).members())
    if (name != "__metadata__")
      tensors_.emplace(name, parse_tensor(name, entry, data_start, file_.size() - data_start));

  std::vector<Extent> extents;
  for (const auto& [name, tensor] : tensors_) extents.push_back({tensor.offset, tensor.bytes, name});
  if (const auto overlap = find_overlap(std::move(extents)))
    fail(ErrorKind::Container, path, ": the data_offsets of ", in_quotes(overlap->first), " and ",
         in_quotes(overlap->second), " overlap; ", kRemedy);
}

const TensorInfo* SafetensorsFile::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

void SafetensorsFile::read(const TensorInfo& tensor, uint64_t begin, void* dst, uint64_t bytes) const {
  if (!lies_within(begin, bytes, tensor.bytes))
    fail(ErrorKind::Io, path(), ": bytes ", begin, " to ", begin, " + ", bytes, " are not inside ",
         in_quotes(tensor.name), ", which has ", tensor.bytes, " bytes");
  file_.read_at(tensor.offset + begin, dst, bytes);
}

}  // namespace swiftlet
