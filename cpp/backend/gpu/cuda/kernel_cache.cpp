#include "backend/gpu/cuda/kernel_cache.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <sstream>

namespace swiftlet::gpu::cuda {
namespace {

namespace fs = std::filesystem;

// FNV-1a, once from each end: 128 bits.
std::string hash(const std::string& text) {
  constexpr uint64_t kBasis = 14695981039346656037u, kPrime = 1099511628211u;
  uint64_t forwards = kBasis, backwards = kBasis;
  for (size_t i = 0; i < text.size(); ++i) {
    forwards = (forwards ^ uint8_t(text[i])) * kPrime;
    backwards = (backwards ^ uint8_t(text[text.size() - 1 - i])) * kPrime;
  }
  std::ostringstream out;
  out << std::hex << std::setfill('0') << std::setw(16) << forwards << std::setw(16) << backwards;
  return out.str();
}

fs::path folder() {
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) return fs::path(cache) / "swiftlet";
  if (const char* home = std::getenv("HOME"); home && *home) return fs::path(home) / ".cache" / "swiftlet";
  return {};
}

}  // namespace

std::optional<std::string> load_kernel(const std::string& key) {
  if (folder().empty()) return std::nullopt;
  std::ifstream file(folder() / (hash(key) + ".cubin"), std::ios::binary);
  std::ostringstream code;
  if (!file || !(code << file.rdbuf())) return std::nullopt;
  return code.str();
}

void store_kernel(const std::string& key, const std::string& code) {
  if (folder().empty()) return;
  std::error_code error;
  fs::create_directories(folder(), error);
  // Renamed when it is whole: another process may be reading.
  const fs::path target = folder() / (hash(key) + ".cubin");
  const fs::path temporary = fs::path(target).concat(".").concat(std::to_string(getpid()));
  std::ofstream file(temporary, std::ios::binary);
  file << code;
  file.close();
  if (file)
    fs::rename(temporary, target, error);
  else
    fs::remove(temporary, error);
}

}  // namespace swiftlet::gpu::cuda
