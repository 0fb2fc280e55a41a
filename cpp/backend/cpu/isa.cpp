#include "backend/cpu/isa.h"

#include <vector>

#include "base/error.h"

#if defined(__x86_64__)
#include <cpuid.h>
#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif
#elif defined(__aarch64__) && defined(__linux__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#elif defined(__aarch64__)
#include <sys/sysctl.h>
#endif

namespace swiftlet {
namespace {

struct Isa {
  const char* name;
  bool here;
  const CpuOps* ops;
};

#if defined(__x86_64__)
// clang before 17 cannot be asked for these by name.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
bool has_avxvnni() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & 1u << 4);
}
bool has_avx2() { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c(); }
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
// Linux gives the registers of tiles to a process that asks for them, and to all its threads.
bool may_use_tiles() {
#if defined(__linux__)
  constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
#else
  return false;
#endif
}
bool has_amx() {
  static const bool has = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    const unsigned tile_and_int8 = 3u << 24;
    return has_avx512() && __builtin_cpu_supports("avx512vnni") && __get_cpuid_count(7, 0, &a, &b, &c, &d) &&
           (d & tile_and_int8) == tile_and_int8 && may_use_tiles();
  }();
  return has;
}
#elif defined(__aarch64__)
bool has_dotprod() {
#if defined(__linux__)
  return getauxval(AT_HWCAP) & HWCAP_ASIMDDP;
#else
  int has = 0;
  size_t size = sizeof has;
  return sysctlbyname("hw.optional.arm.FEAT_DotProd", &has, &size, nullptr, 0) == 0 && has;
#endif
}
#endif

// Best first.
std::vector<Isa> known_isas() {
  return {
#if defined(__x86_64__)
      {"amx", has_amx(), &amx_ops},
      {"avx512vnni", has_avx512() && __builtin_cpu_supports("avx512vnni"), &avx512vnni_ops},
      {"avx512", has_avx512(), &avx512_ops},
      {"avxvnni", has_avx2() && has_avxvnni(), &avxvnni_ops},
      {"avx2", has_avx2(), &avx2_ops},
#elif defined(__aarch64__)
      {"dotprod", has_dotprod(), &dotprod_ops},
      {"neon", true, &neon_ops},
#endif
      {"reference", true, &reference_ops},
  };
}

}  // namespace

std::vector<std::string> cpu_isas() {
  std::vector<std::string> names;
  for (const Isa& isa : known_isas())
    if (isa.here) names.emplace_back(isa.name);
  return names;
}

const CpuOps& ops_for(const std::string& isa) {
  std::string choices = "auto";
  for (const Isa& known : known_isas()) {
    if (!known.here) continue;
    if (isa == known.name || isa == "auto") return *known.ops;
    choices.append(", ").append(known.name);
  }
  fail(ErrorKind::Input, "this CPU has no instruction set '", isa, "'; choose one of: ", choices);
}

}  // namespace swiftlet
