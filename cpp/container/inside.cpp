#include "container/inside.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "base/error.h"
#include "container/json.h"

namespace swiftlet {
namespace {

namespace fs = std::filesystem;

bool is_plain(std::string_view relative) {
  using namespace std::string_view_literals;
  if (relative.find_first_of("\\\0"sv) != relative.npos) return false;
  size_t begin = 0;
  while (true) {
    const size_t end = std::min(relative.find('/', begin), relative.size());
    const std::string_view part = relative.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return false;
    if (end == relative.size()) return true;
    begin = end + 1;
  }
}

bool is_below(const fs::path& path, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

// The "blobs" folder beside .../models--NAME/snapshots/REVISION[/...], or nothing outside a Hugging Face cache.
std::optional<fs::path> cache_blobs(const fs::path& folder) {
  for (fs::path at = folder; at.has_relative_path(); at = at.parent_path()) {
    const fs::path model = at.parent_path();
    if (at.filename() == "snapshots" && model.filename().string().starts_with("models--")) return model / "blobs";
  }
  return std::nullopt;
}

}  // namespace

std::optional<uint64_t> size_inside(const std::string& folder, const std::string& relative) {
  if (!is_plain(relative))
    fail(ErrorKind::Container, folder, " names a file ", in_quotes(relative),
         " that may lie outside of it; don't use this container");
  try {
    const fs::path path = fs::path(folder) / relative;
    if (!fs::exists(path)) return std::nullopt;
    const fs::path home = fs::canonical(folder);
    const fs::path target = fs::canonical(path);
    const auto blobs = cache_blobs(home);
    if (!is_below(target, home) && !(blobs && is_below(target, *blobs)))
      fail(ErrorKind::Container, path.string(), " is a link that leaves the container; put the file itself there");
    if (!fs::is_regular_file(target)) fail(ErrorKind::Container, path.string(), " is not a regular file");
    return fs::file_size(target);
  } catch (const fs::filesystem_error& error) {
    fail(ErrorKind::Container, "cannot look at ", in_quotes(relative), " in ", folder, ": ", error.code().message());
  }
}

}  // namespace swiftlet
