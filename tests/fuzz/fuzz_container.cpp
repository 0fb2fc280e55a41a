// libFuzzer target: one file of a good container is replaced by the input, and the container is opened.
// The first byte says which: M manifest.json, L packed_experts/layout.json, S model.safetensors.
// Whatever comes, opening throws swiftlet::Error or gives a container in which every size and offset is in bounds.
//
//   CXX=clang++ cmake -S . -B build/fuzz -DSWIFTLET_FUZZ=ON && cmake --build build/fuzz --target fuzz_container
//   mkdir -p build/corpus && build/fuzz/fuzz_container -dict=tests/fuzz/container.dict build/corpus tests/fuzz/corpus
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "../cpp/temp_folder.h"
#include "base/checked.h"
#include "container/qpack.h"

using namespace swiftlet;

namespace {

constexpr std::string_view kManifest = R"({"magic":"QPACK","version":1,"modelName":"m","files":{}})";
constexpr std::string_view kLayout =
    R"({"expertCount":2,"layerCount":1,"expertStride":16384,"linearLayers":[true],"sections":[]})";
constexpr std::string_view kTensors{"\x02\0\0\0\0\0\0\0{}", 10};

void require(bool condition) {
  if (!condition) std::abort();
}

void write(const std::string& path, std::string_view bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  require(file && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size() && std::fclose(file) == 0);
}

void check(const Qpack& qpack) {
  require(qpack.layouts.size() == static_cast<size_t>(qpack.layer_count));
  require(qpack.linear_layers.size() == qpack.layouts.size());
  for (const ExpertLayout& layout : qpack.layouts) {
    require(layout.stride <= qpack.max_stride);
    for (const Section& section : layout.sections) {
      require(lies_within(section.offset, section.bytes, layout.stride));
      require(tensor_bytes(section.shape, section.dtype) == section.bytes);
    }
  }
  for (const auto& [name, tensor] : qpack.resident.tensors()) {
    std::vector<char> bytes(tensor.bytes);
    qpack.resident.read(tensor, 0, bytes.data(), bytes.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const TempFolder folder;
  static const bool prepared = [] {
    write_file(folder / "config.json", "{}");
    write_file(folder / "packed_experts/layer_00.bin", std::string(32768, '\0'));
    return true;
  }();
  require(prepared);
  if (size == 0) return 0;

  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  write(folder / "manifest.json", data[0] == 'M' ? input : kManifest);
  write(folder / "packed_experts/layout.json", data[0] == 'L' ? input : kLayout);
  write(folder / "model.safetensors", data[0] == 'S' ? input : kTensors);
  try {
    check(open_qpack(folder.path()));
  } catch (const Error& error) {
    require(std::string_view(error.what()).find(folder.path()) != std::string_view::npos);
  }
  return 0;
}
