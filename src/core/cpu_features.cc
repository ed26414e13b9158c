#include "core/cpu_features.h"

#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <thread>

#include "core/ascii.h"
#include "core/cpu_quota.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace pergola {
namespace {

struct Feature {
  std::string_view name;
  bool present;
};

#if defined(__x86_64__)

struct CpuidRegisters {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
};

CpuidRegisters Cpuid(unsigned leaf, unsigned subleaf) {
  CpuidRegisters regs;
  __get_cpuid_count(leaf, subleaf, &regs.eax, &regs.ebx, &regs.ecx, &regs.edx);
  return regs;
}

// Which register states the operating system saves (XCR0); 0 when it doesn't say.
uint64_t EnabledRegisterStates(const CpuidRegisters& leaf1) {
  constexpr unsigned kOsXsave = 1u << 27;
  if ((leaf1.ecx & kOsXsave) == 0) return 0;
  unsigned low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

std::vector<Feature> Detect() {
  const CpuidRegisters leaf1 = Cpuid(1, 0);
  const CpuidRegisters leaf7 = Cpuid(7, 0);
  const CpuidRegisters leaf7_1 = Cpuid(7, 1);
  const uint64_t states = EnabledRegisterStates(leaf1);
  const bool ymm = (states & 0x6) == 0x6;
  const bool zmm = ymm && (states & 0xe0) == 0xe0;
  const auto bit = [](unsigned word, int index) { return ((word >> index) & 1) != 0; };
  return {
      {"ssse3", bit(leaf1.ecx, 9)},
      {"avx", ymm && bit(leaf1.ecx, 28)},
      {"f16c", ymm && bit(leaf1.ecx, 29)},
      {"fma", ymm && bit(leaf1.ecx, 12)},
      {"avx2", ymm && bit(leaf7.ebx, 5)},
      {"avxvnni", ymm && bit(leaf7_1.eax, 4)},
      {"avx512f", zmm && bit(leaf7.ebx, 16)},
      {"avx512dq", zmm && bit(leaf7.ebx, 17)},
      {"avx512bw", zmm && bit(leaf7.ebx, 30)},
      {"avx512vl", zmm && bit(leaf7.ebx, 31)},
      {"avx512vnni", zmm && bit(leaf7.ecx, 11)},
      {"avx512bf16", zmm && bit(leaf7_1.eax, 5)},
      {"vpclmulqdq", ymm && bit(leaf7.ecx, 10)},
  };
}

std::string DetectModelName() {
  if (Cpuid(0x80000000u, 0).eax < 0x80000004u) return "x86-64";
  std::array<char, 49> brand = {};
  for (unsigned part = 0; part < 3; ++part) {
    const CpuidRegisters regs = Cpuid(0x80000002u + part, 0);
    std::memcpy(brand.data() + 16 * part, &regs, 16);
  }
  const std::string_view name = Trimmed(brand.data());
  return std::string(name.empty() ? "x86-64" : name);
}

#elif defined(__aarch64__)

// The operating system's word, under its own names (/proc/cpuinfo).
std::vector<Feature> Detect() {
  const unsigned long first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
  return {
      {"asimd", (first & HWCAP_ASIMD) != 0},     {"asimdhp", (first & HWCAP_ASIMDHP) != 0},
      {"asimddp", (first & HWCAP_ASIMDDP) != 0}, {"sve", (first & HWCAP_SVE) != 0},
      {"i8mm", (second & HWCAP2_I8MM) != 0},     {"bf16", (second & HWCAP2_BF16) != 0},
  };
}
std::string DetectModelName() { return "ARM64"; }

#else

std::vector<Feature> Detect() { return {}; }
std::string DetectModelName() { return "unknown"; }

#endif

const std::vector<Feature>& Features() {
  static const std::vector<Feature> features = Detect();
  return features;
}

int AffinityCores() {
#if defined(__linux__)
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) return CPU_COUNT(&mask);
#endif
  return static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

std::vector<std::string_view> KnownCpuFeatures() {
  std::vector<std::string_view> names;
  for (const Feature& feature : Features()) names.push_back(feature.name);
  return names;
}

bool CpuHas(std::string_view name) {
  for (const Feature& feature : Features()) {
    if (feature.name == name) return feature.present;
  }
  return false;
}

const std::string& CpuModelName() {
  static const std::string name = DetectModelName();
  return name;
}

int UsableCores() {
  return CoresWithin(std::max(1, AffinityCores()),
                     ReadCpuQuota("/proc/self/cgroup", "/sys/fs/cgroup"));
}

#if defined(__x86_64__)

void CpuRelax() { _mm_pause(); }

DefaultFloatEnvironment::DefaultFloatEnvironment() : saved_(_mm_getcsr()) {
  constexpr unsigned kDefault = 0x1f80;  // all exceptions masked, nearest even, no FTZ, no DAZ
  if (saved_ != kDefault) _mm_setcsr(kDefault);
}

DefaultFloatEnvironment::~DefaultFloatEnvironment() { _mm_setcsr(static_cast<unsigned>(saved_)); }

#elif defined(__aarch64__)

void CpuRelax() { asm volatile("yield"); }

DefaultFloatEnvironment::DefaultFloatEnvironment() {
  asm volatile("mrs %0, fpcr" : "=r"(saved_));
  asm volatile("msr fpcr, %0" : : "r"(uint64_t{0}));
}

DefaultFloatEnvironment::~DefaultFloatEnvironment() {
  asm volatile("msr fpcr, %0" : : "r"(saved_));
}

#else

void CpuRelax() {}
DefaultFloatEnvironment::DefaultFloatEnvironment() : saved_(0) {}
DefaultFloatEnvironment::~DefaultFloatEnvironment() = default;

#endif

}  // namespace pergola
