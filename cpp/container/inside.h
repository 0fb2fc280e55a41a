// Paths that a container names itself must stay inside it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace swiftlet {

// The size of the regular file `relative` of `folder`, or nothing if there is none. Symbolic links are followed where
// they stay inside the folder or, if the folder belongs to a Hugging Face cache (models--*/snapshots/*), lead to the
// "blobs" of that cache. Throws ErrorKind::Container for absolute paths, "..", backslashes, and links to elsewhere.
std::optional<uint64_t> size_inside(const std::string& folder, const std::string& relative);

}  // namespace swiftlet
