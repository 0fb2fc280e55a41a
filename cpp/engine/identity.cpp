#include "engine/identity.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "base/file.h"
#include "base/xxhash.h"

namespace swiftlet {
namespace {

constexpr uint64_t kSample = 4096;
constexpr int kResidentSamples = 64;

void add(Xxh64& hash, const std::string& text) {
  const uint64_t length = text.size();  // so that no two lists of texts look alike
  hash.update(&length, sizeof length);
  hash.update(text.data(), text.size());
}

// Its size, and pieces at even distances.
void add_samples(Xxh64& hash, const File& file, int samples) {
  const uint64_t size = file.size();
  hash.update(&size, sizeof size);
  std::vector<char> piece(std::min(kSample, size));
  for (int i = 0; i < samples; i++) {
    file.read_at((size - piece.size()) / uint64_t(samples) * uint64_t(i), piece.data(), piece.size());
    hash.update(piece.data(), piece.size());
  }
}

void add_whole(Xxh64& hash, const std::string& path) {
  const File file(path);
  std::string text(file.size(), '\0');
  file.read_at(0, text.data(), text.size());
  add(hash, text);
}

}  // namespace

uint64_t model_identity(const Qpack& qpack, const Backend& backend, KvType kv) {
  Xxh64 hash;
  add(hash, qpack.config_json);
  add(hash, backend.arithmetic());
  hash.update(&kv, sizeof kv);
  for (const auto& [name, tensor] : qpack.resident.tensors()) {
    add(hash, name);
    hash.update(&tensor.offset, sizeof tensor.offset);
    hash.update(tensor.shape.data(), tensor.shape.size() * sizeof tensor.shape[0]);
  }
  add_samples(hash, File(qpack.resident.path()), kResidentSamples);
  for (int layer = 0; layer < qpack.layer_count; layer++)
    if (qpack.layouts[layer].stride) add_samples(hash, File(qpack.layer_path(layer)), 2);
  const std::string hashes = qpack.path + "/hashes.json";
  if (std::error_code ignored; std::filesystem::is_regular_file(hashes, ignored)) add_whole(hash, hashes);
  return hash.digest();
}

}  // namespace swiftlet
