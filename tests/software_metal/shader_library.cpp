#include "shader_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <sstream>

#include "backend/gpu/emulated/threadgroup.h"
#include "backend/gpu/shaders.h"
#include "base/error.h"

namespace software_metal {
namespace {

namespace emulated = swiftlet::gpu::emulated;
namespace fs = std::filesystem;

// Function constants are variables of a translated shader: one kernel at a time in the process.
std::mutex g_running;

class TranslatedKernel : public CompiledKernel {
 public:
  TranslatedKernel(const emulated::Library& library, const emulated::KernelInfo& kernel, Constants constants)
      : library_(library), kernel_(kernel), constants_(std::move(constants)) {
    const emulated::SignatureInfo& signature = kernel.signature;
    for (uint32_t i = 0; i < signature.buffer_count; ++i) parameters_.push_back({i, 0, signature.buffers[i].written});
    if (signature.argument_bytes > 0) parameters_.push_back({signature.buffer_count, signature.argument_bytes, false});
  }

  const std::vector<Parameter>& parameters() const override { return parameters_; }

  std::string run(const std::array<void*, kMostBuffers>& arguments, Size groups, Size group) override {
    const std::lock_guard lock(g_running);
    for (emulated::FunctionConstant* each : library_.constants) {
      const auto given = constants_.find(each->index);
      each->set = given != constants_.end();
      if (each->set) each->value = given->second.value;
    }
    emulated::Args args{};
    for (const Parameter& each : parameters_) {
      if (each.bytes > 0) {
        args.arguments = arguments[each.index];
      } else {
        args.buffers[each.index] = arguments[each.index];
      }
    }
    const auto u = [](size_t value) { return static_cast<uint32_t>(value); };
    const emulated::GroupRun run{
        &kernel_, &args, {u(groups.width), u(groups.height), u(groups.depth)}, u(group.width), false};
    const emulated::FaultHandler handler;
    try {
      for (uint32_t z = 0; z < run.groups.z; ++z)
        for (uint32_t y = 0; y < run.groups.y; ++y)
          for (uint32_t x = 0; x < run.groups.x; ++x) emulated::run_threadgroup(run, {x, y, z});
    } catch (const swiftlet::Error& error) {
      return error.what();
    } catch (const emulated::AccessFault& fault) {
      std::ostringstream text;
      text << fault.kernel << ": touched " << reinterpret_cast<void*>(fault.address)
           << ", which is in no buffer that it was given: past the end of one, or in one that is reached by address and"
           << " was not declared with useResource";
      return text.str();
    }
    return {};
  }

 private:
  const emulated::Library& library_;
  const emulated::KernelInfo& kernel_;
  Constants constants_;
  std::vector<Parameter> parameters_;
};

class TranslatedLibrary : public ShaderLibrary {
 public:
  explicit TranslatedLibrary(const emulated::Library& library) : library_(library) {}

  bool has(const std::string& kernel) const override { return find(kernel) != nullptr; }

  std::shared_ptr<CompiledKernel> kernel(const std::string& name, const Constants& constants,
                                         std::string& error) override {
    for (const emulated::FunctionConstant* each : library_.constants) {
      const auto given = constants.find(each->index);
      if (given == constants.end() || given->second.type == kUIntType) continue;
      error = "function constant " + std::string(each->name) + " is a uint, and was given as another type";
      return nullptr;
    }
    return std::make_shared<TranslatedKernel>(library_, *find(name), constants);
  }

 private:
  const emulated::KernelInfo* find(const std::string& name) const {
    const auto found = std::ranges::find_if(library_.kernels, [&](const auto& each) { return name == each.name; });
    return found == library_.kernels.end() ? nullptr : &*found;
  }

  const emulated::Library& library_;
};

// What the command prints, and whether it succeeded.
std::string shell(const std::string& command, bool& succeeded) {
  std::string output;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  char part[4096];
  for (size_t read; pipe && (read = fread(part, 1, sizeof part, pipe)) > 0;) output.append(part, read);
  succeeded = pipe && pclose(pipe) == 0;
  return output;
}

std::string quoted(const std::string& path) { return "'" + path + "'"; }

// Translates and compiles a source into a shared library, which finds the functions that translated shaders call in
// this program. Empty, and the messages, if it fails.
fs::path build(const std::string& source, const std::string& name, std::string& error) {
  const fs::path folder = SOFTWARE_METAL_CACHE;
  const fs::path library = folder / (name + ".so");
  if (fs::exists(library)) return library;
  const std::string shader = folder / (name + ".metal"), translated = folder / (name + ".cpp");
  const std::string made = library.string() + ".new";
  std::ofstream(shader) << source;
  bool succeeded = false;
  error = shell("PYTHONPATH=" + quoted(SOFTWARE_METAL_SOURCE "/tools") + " " + quoted(SOFTWARE_METAL_PYTHON) +
                    " -B -m msl cpu " + quoted(shader) + " -I " + quoted(folder) + " -o " + quoted(translated),
                succeeded);
  if (!succeeded) return {};
  error = shell(quoted(SOFTWARE_METAL_COMPILER) + " -std=c++20 -O1 -w -fPIC -shared -I " +
                    quoted(SOFTWARE_METAL_SOURCE "/cpp") + " -I " + quoted(SOFTWARE_METAL_SOURCE "/tools/msl/include") +
                    " " SOFTWARE_METAL_FLAGS " " + quoted(translated) + " -o " + quoted(made),
                succeeded);
  if (!succeeded) return {};
  fs::rename(made, library);
  return library;
}

// The source of one of metal/'s files is part of this program in translated form already.
const emulated::Library* built_in(const std::string& source) {
  for (const emulated::Library* each : emulated::libraries())
    if (swiftlet::gpu::shader_source(each->file) == source) return each;
  return nullptr;
}

}  // namespace

std::shared_ptr<ShaderLibrary> compile_shaders(const std::string& source, std::string& error) {
  if (const emulated::Library* library = built_in(source)) return std::make_shared<TranslatedLibrary>(*library);
  const std::string name = "run_time_" + std::to_string(std::hash<std::string>()(source));
  const fs::path path = build(source, name, error);
  if (path.empty()) return nullptr;
  void* loaded = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // stays: kernels may outlive their library
  const void* library = loaded ? dlsym(loaded, ("msl_library_" + name).c_str()) : nullptr;
  if (library) return std::make_shared<TranslatedLibrary>(*static_cast<const emulated::Library*>(library));
  error = dlerror();
  return nullptr;
}

}  // namespace software_metal
