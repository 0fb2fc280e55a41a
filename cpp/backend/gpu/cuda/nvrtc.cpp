#include "backend/gpu/cuda/nvrtc.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/error.h"

namespace swiftlet::gpu::cuda {
namespace {

namespace fs = std::filesystem;

using Program = struct OpaqueProgram*;

struct Nvrtc {
  int (*nvrtcVersion)(int* major, int* minor);
  int (*nvrtcCreateProgram)(Program* program, const char* source, const char* name, int headers,
                            const char* const* header_sources, const char* const* header_names);
  int (*nvrtcCompileProgram)(Program program, int options, const char* const* option_texts);
  int (*nvrtcGetProgramLogSize)(Program program, size_t* bytes);
  int (*nvrtcGetProgramLog)(Program program, char* log);
  int (*nvrtcGetCUBINSize)(Program program, size_t* bytes);
  int (*nvrtcGetCUBIN)(Program program, char* code);
  int (*nvrtcDestroyProgram)(Program* program);
};

// Those before have no anonymous structs in anonymous unions, of which the shaders' vectors are made.
constexpr std::pair kLeastVersion(12, 8);
constexpr char kNeeded[] =
    "12.8 or newer is needed: pip install nvidia-cuda-nvrtc, or set SWIFTLET_NVRTC to the path of another libnvrtc.so";

std::vector<std::string> files_named(const fs::path& folder, const std::string& beginning) {
  std::vector<std::string> result;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored))
    if (entry.path().filename().string().starts_with(beginning)) result.push_back(entry.path());
  std::sort(result.begin(), result.end());
  return result;
}

void* open_library() {
  std::vector<std::string> names = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  if (const char* variable = std::getenv("SWIFTLET_NVRTC"); variable && *variable) {
    const fs::path path = variable;
    const bool folder = fs::is_directory(path);
    names = folder ? files_named(path, "libnvrtc.so") : std::vector<std::string>{path};
    // Loaded beforehand, so that NVRTC finds it in a folder that the system does not search.
    for (const std::string& builtins : files_named(folder ? path : path.parent_path(), "libnvrtc-builtins.so"))
      dlopen(builtins.c_str(), RTLD_NOW | RTLD_GLOBAL);
  }
  for (const std::string& name : names)
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  fail(ErrorKind::Input,
       "NVRTC, NVIDIA's run-time compiler, was not found: pip install nvidia-cuda-nvrtc, or set "
       "SWIFTLET_NVRTC to the path of libnvrtc.so");
}

template <class Function>
void load(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function) fail(ErrorKind::Input, "NVRTC has no ", name, ": it is too old, ", kNeeded);
}

const Nvrtc& nvrtc() {
  static const Nvrtc instance = [] {
    void* library = open_library();
    Nvrtc n{};
#define LOAD(name) load(library, #name, n.name)
    LOAD(nvrtcVersion);
    LOAD(nvrtcCreateProgram);
    LOAD(nvrtcCompileProgram);
    LOAD(nvrtcGetProgramLogSize);
    LOAD(nvrtcGetProgramLog);
    LOAD(nvrtcGetCUBINSize);
    LOAD(nvrtcGetCUBIN);
    LOAD(nvrtcDestroyProgram);
#undef LOAD
    int major = 0, minor = 0;
    n.nvrtcVersion(&major, &minor);
    if (std::pair(major, minor) < kLeastVersion)
      fail(ErrorKind::Input, "NVRTC ", major, ".", minor, " is too old, ", kNeeded);
    return n;
  }();
  return instance;
}

}  // namespace

std::string nvrtc_version() {
  int major = 0, minor = 0;
  nvrtc().nvrtcVersion(&major, &minor);
  return std::to_string(major) + "." + std::to_string(minor);
}

std::string compile(const std::string& source, const std::string& name, const std::vector<std::string>& options) {
  const Nvrtc& n = nvrtc();
  Program program = nullptr;
  if (n.nvrtcCreateProgram(&program, source.c_str(), name.c_str(), 0, nullptr, nullptr) != 0)
    fail(ErrorKind::Input, name, ": NVRTC makes no program of it");
  std::vector<const char*> texts;
  for (const std::string& option : options) texts.push_back(option.c_str());
  const bool failed = n.nvrtcCompileProgram(program, int(texts.size()), texts.data()) != 0;
  size_t bytes = 0;
  (failed ? n.nvrtcGetProgramLogSize : n.nvrtcGetCUBINSize)(program, &bytes);
  std::string result(bytes, '\0');
  (failed ? n.nvrtcGetProgramLog : n.nvrtcGetCUBIN)(program, result.data());
  n.nvrtcDestroyProgram(&program);
  if (failed) fail(ErrorKind::Input, "NVRTC ", nvrtc_version(), ": ", result.c_str());
  return result;
}

}  // namespace swiftlet::gpu::cuda
