// What tells one model from another, for states that outlive the process.
#pragma once

#include <cstdint>
#include <string>

#include "backend/backend.h"
#include "container/qpack.h"

namespace swiftlet {

// A hash of what a state depends on besides the tokens: the config, names, shapes and places of the resident tensors,
// samples of the weights, hashes.json if there is one, the type of the KV rows and the backend's arithmetic. Reads a
// few hundred kilobytes. Throws ErrorKind::Container or ErrorKind::Io.
uint64_t model_identity(const Qpack& qpack, const Backend& backend, KvType kv);

}  // namespace swiftlet
