// Which vector instructions the CPU has, asked once at run time: what is shipped is
// compiled for the plain architecture. CPUID is read here, without the compiler's
// `__builtin_cpu_supports`, which answers 0 where its runtime library fills in no model
// of the CPU (as zig's).
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string_view>

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif

namespace echobuf {

enum class CpuLevel { kBaseline = 0, kAvx2 = 1, kAvx512 = 2 };

/// The environment variable that lowers the level: `portable`, `avx2` or `avx512`.
inline constexpr const char* kCpuVariable = "ECHOBUF_INSTRUCTIONS";

/// The registers of an x86 CPU that say what it has, and what the system saves of it
/// when it switches threads. All zero: the plain architecture.
struct CpuWords {
  std::uint32_t leaf1_ecx = 0;
  std::uint32_t leaf7_ebx = 0;
  std::uint32_t xcr0 = 0;
};

/// The features of a CPU that are used.
struct CpuFeatures {
  CpuLevel level = CpuLevel::kBaseline;
  bool f16c = false;  // halves to floats and back
};

namespace detail {
constexpr bool has_all(std::uint32_t word, std::uint32_t bits) {
  return (word & bits) == bits;
}
constexpr std::uint32_t bit(int place) { return std::uint32_t{1} << place; }
}  // namespace detail

/// Returns what may be used of a CPU. (Intel's manual, volume 1, 14.3 and 15.2: an
/// instruction may be used where CPUID has its bit and XCR0 those of its registers.)
constexpr CpuFeatures features_of(const CpuWords& words) {
  using detail::bit, detail::has_all;
  constexpr std::uint32_t kFma = bit(12), kXsaveOn = bit(27), kAvx = bit(28),
                          kF16c = bit(29);
  constexpr std::uint32_t kAvx2 = bit(5);
  constexpr std::uint32_t kAvx512 =
      bit(16) | bit(17) | bit(30) | bit(31);            // F DQ BW VL
  constexpr std::uint32_t kSavesYmm = bit(1) | bit(2);  // xmm, ymm
  constexpr std::uint32_t kSavesZmm = kSavesYmm | bit(5) | bit(6) | bit(7);

  CpuFeatures found;
  if (!has_all(words.leaf1_ecx, kXsaveOn | kAvx) || !has_all(words.xcr0, kSavesYmm) ||
      !has_all(words.leaf7_ebx, kAvx2))
    return found;
  found.level = CpuLevel::kAvx2;
  found.f16c = has_all(words.leaf1_ecx, kF16c);
  // Compilers take it that AVX-512 comes with F16C and FMA.
  if (found.f16c && has_all(words.leaf1_ecx, kFma) &&
      has_all(words.leaf7_ebx, kAvx512) && has_all(words.xcr0, kSavesZmm))
    found.level = CpuLevel::kAvx512;
  return found;
}

inline CpuWords read_cpu_words() {
  CpuWords words;
#if defined(__x86_64__) && defined(__GNUC__)
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) != 0) words.leaf1_ecx = c;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) words.leaf7_ebx = b;
  // XGETBV is an instruction only where the system has switched it on.
  if ((words.leaf1_ecx & detail::bit(27)) != 0)
    __asm__ volatile("xgetbv" : "=a"(words.xcr0), "=d"(d) : "c"(0));
#endif
  return words;
}

/// Returns the features of this CPU.
inline CpuFeatures detect_cpu() {
  static const CpuFeatures found = features_of(read_cpu_words());
  return found;
}
inline CpuLevel detect_cpu_level() { return detect_cpu().level; }

/// Reads a level; false if the text is the name of none.
inline bool parse_cpu_level(std::string_view text, CpuLevel& level) {
  if (text == "portable")
    level = CpuLevel::kBaseline;
  else if (text == "avx2")
    level = CpuLevel::kAvx2;
  else if (text == "avx512")
    level = CpuLevel::kAvx512;
  else
    return false;
  return true;
}

/// Returns the CPU's level, or a lower one that `text` names (null: none).
inline CpuLevel lowered(CpuLevel cpu, const char* text) {
  CpuLevel level = cpu;
  return text != nullptr && parse_cpu_level(text, level) && level < cpu ? level : cpu;
}

namespace detail {
/// Tests lower it, to run what slower CPUs run.
inline CpuLevel& level_in_use() {
  static CpuLevel level = lowered(detect_cpu_level(), std::getenv(kCpuVariable));
  return level;
}
}  // namespace detail

inline CpuLevel cpu_level() { return detail::level_in_use(); }

/// Returns the features of this CPU that are in use.
inline CpuFeatures cpu_in_use() {
  return {cpu_level(), cpu_level() > CpuLevel::kBaseline && detect_cpu().f16c};
}

}  // namespace echobuf
