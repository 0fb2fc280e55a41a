#include "shader_library.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

#include "msl_abi.h"

namespace software_metal {
namespace {

std::string shell(const std::string& command, bool& ok) {
  std::string out;
  FILE* pipe = popen(("( " + command + " ) 2>&1").c_str(), "r");
  char part[4096];
  for (size_t n; (n = fread(part, 1, sizeof part, pipe)) > 0;) out.append(part, n);
  ok = pclose(pipe) == 0;
  return out;
}

struct Lib;
struct K : CompiledKernel {
  std::shared_ptr<const Lib> lib;
  std::vector<Parameter> params;
  void (*entry)(const msl::Args&);
  int (*go)(msl::Dispatch*);
  std::vector<std::pair<void*, std::string>> consts;
  const std::vector<Parameter>& parameters() const override { return params; }
  std::string run(const std::array<void*, kMostBuffers>& arguments, Size groups, Size group) override {
    msl::Dispatch d{};
    d.entry = entry;
    for (size_t i = 0; i < kMostBuffers; ++i) d.args.buf[i] = arguments[i];
    d.grid_groups = {unsigned(groups.width), unsigned(groups.height), unsigned(groups.depth)};
    d.group = {unsigned(group.width), unsigned(group.height), unsigned(group.depth)};
    for (auto& c : consts) memcpy(c.first, c.second.data(), c.second.size());
    return go(&d) ? d.error : "";
  }
};
struct Lib : ShaderLibrary, std::enable_shared_from_this<Lib> {
  void* so;
  std::map<std::string, std::vector<Parameter>> sig;
  bool has(const std::string& n) const override { return sig.count(n); }
  std::shared_ptr<CompiledKernel> kernel(const std::string& n, const Constants& constants,
                                         std::string& error) override {
    auto k = std::make_shared<K>();
    k->lib = shared_from_this();
    k->params = sig[n];
    k->go = (int (*)(msl::Dispatch*))dlsym(so, "msl_run");
    for (auto* p = (const msl::Kernel*)dlsym(so, "msl_kernels"); p->name; ++p)
      if (n == p->name) k->entry = p->entry;
    for (auto* p = (const msl::Const*)dlsym(so, "msl_consts"); p->name; ++p) {
      auto c = constants.find(p->index);
      if (c == constants.end()) {
        error = std::string("function constant not set: ") + p->name;
        return nullptr;
      }
      k->consts.push_back({p->addr, c->second.bytes});
    }
    return k;
  }
};
}  // namespace
std::shared_ptr<ShaderLibrary> compile_shaders(const std::string& source, std::string& error) {
  const std::string home = SOFTWARE_METAL_MSL;
  std::string out = std::string(SOFTWARE_METAL_CACHE) + "/" + std::to_string(std::hash<std::string>()(source));
  std::ofstream(out + ".metal") << source;
  bool ok;
  error = shell("python3 " + home + "/msl_translate.py " + out + ".metal cpu " + out + ".cpp " + out + ".sig", ok);
  if (!ok) return nullptr;
  if (access((out + ".so").c_str(), R_OK)) {
    error = shell("g++ -std=c++17 -D__METAL_VERSION__=310 -O2 -mf16c -mfma -fPIC -shared -I" + home + " " + out +
                      ".cpp -o " + out + ".so",
                  ok);
    if (!ok) return nullptr;
  }
  auto lib = std::make_shared<Lib>();
  lib->so = dlopen((out + ".so").c_str(), RTLD_NOW | RTLD_LOCAL);
  std::ifstream f(out + ".sig");
  for (std::string line; std::getline(f, line);) {
    std::stringstream s(line);
    std::string n, w;
    s >> n;
    auto& v = lib->sig[n];
    while (s >> w) v.push_back({size_t(atoi(w.c_str() + 1)), w.back() == 'v', w.back() == 'w'});
  }
  return lib;
}
}  // namespace software_metal
