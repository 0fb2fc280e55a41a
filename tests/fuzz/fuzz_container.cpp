// libFuzzer target for the three texts of a container that are parsed. The first byte of the input says which one
// follows: L packed_experts/layout.json, M manifest.json, S model.safetensors. Whatever comes, swiftlet::Error is
// thrown or every size and offset that was taken over is in bounds. The last two go through files: set TMPDIR to a
// folder in memory. The seeds lie one step from the edges: a byte at the very end of the stride, neighbours that touch.
//
//   CXX=clang++ cmake -S . -B build/fuzz -DSWIFTLET_FUZZ=ON && cmake --build build/fuzz --target fuzz_container
//   mkdir -p build/found
//   build/fuzz/fuzz_container -dict=tests/fuzz/container.dict build/found tests/fuzz/seeds/layout
//
// One kind at a time (layout, manifest, safetensors): in a common corpus the other two crowd the layouts out.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "../cpp/temp_folder.h"
#include "base/checked.h"
#include "container/layout.h"
#include "container/qpack.h"

using namespace swiftlet;

namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void write(const std::string& path, std::string_view bytes) {
  std::FILE* file = std::fopen(path.c_str(), "wb");
  require(file && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size() && std::fclose(file) == 0);
}

void fuzz_layout(std::string_view input) {
  Qpack qpack;
  parse_layout(input, "layout.json", qpack);
  require(qpack.layouts.size() == static_cast<size_t>(qpack.layer_count));
  require(qpack.linear_layers.size() == qpack.layouts.size());
  for (const ExpertLayout& layout : qpack.layouts) {
    require(layout.stride <= qpack.max_stride);
    require(checked_product(layout.stride, static_cast<uint64_t>(qpack.expert_count)).has_value());
    for (const Section& section : layout.sections) {
      require(lies_within(section.offset, section.bytes, layout.stride));
      require(section.offset % size_of(section.dtype) == 0);
      require(tensor_bytes(section.shape, section.dtype) == section.bytes);
      for (const Section& other : layout.sections)
        require(&other == &section || section.offset + section.bytes <= other.offset ||
                other.offset + other.bytes <= section.offset || section.bytes == 0 || other.bytes == 0);
    }
  }
}

// A container that is good but for its manifest.
void fuzz_manifest(std::string_view input) {
  static const TempFolder folder;
  static const bool written = [] {
    write_file(folder / "config.json", "{}");
    write_file(folder / "model.safetensors", std::string("\x02\0\0\0\0\0\0\0{}", 10));
    write_file(folder / "packed_experts/layer_00.bin", std::string(32768, '\0'));
    write_file(folder / "packed_experts/layout.json",
               R"({"expertCount":2,"layerCount":1,"expertStride":16384,"linearLayers":[true],"sections":[]})");
    return true;
  }();
  require(written);
  write(folder / "manifest.json", input);
  open_qpack(folder.path());
}

void fuzz_safetensors(std::string_view input) {
  static const TempFolder folder;
  write(folder / "model.safetensors", input);
  const SafetensorsFile file(folder / "model.safetensors");
  for (const auto& [name, tensor] : file.tensors()) {
    require(tensor_bytes(tensor.shape, tensor.dtype) == tensor.bytes);
    require(lies_within(tensor.offset, tensor.bytes, input.size()));
    std::vector<char> bytes(tensor.bytes);
    file.read(tensor, 0, bytes.data(), bytes.size());
  }
}

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

// Random bytes seldom make a layout that is wrong in one number only: half of the time, move one number by one.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  std::minstd_rand random(seed);
  std::string text(reinterpret_cast<const char*>(data), size);
  const size_t begin = text.find_first_of("0123456789", random() % (size + 1));
  if (random() % 2 == 0 || begin == text.npos) return LLVMFuzzerMutate(data, size, max_size);
  const size_t end = std::min(text.find_first_not_of("0123456789", begin), size);
  const uint64_t number = std::strtoull(text.substr(begin, end - begin).c_str(), nullptr, 10);
  text.replace(begin, end - begin, std::to_string(random() % 2 == 0 ? number + 1 : number - 1));
  if (text.size() > max_size) return size;
  std::copy(text.begin(), text.end(), data);
  return text.size();
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view input(reinterpret_cast<const char*>(data) + 1, size - 1);
  try {
    if (data[0] == 'L') fuzz_layout(input);
    if (data[0] == 'M') fuzz_manifest(input);
    if (data[0] == 'S') fuzz_safetensors(input);
  } catch (const Error&) {
  }
  return 0;
}
