// Which vector instructions the CPU has, asked once at run time: what is shipped is
// compiled for the plain architecture.
#pragma once

namespace echobuf {

enum class CpuLevel { kBaseline = 0, kAvx2 = 1, kAvx512 = 2 };

inline CpuLevel detect_cpu_level() {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return CpuLevel::kAvx512;
  if (__builtin_cpu_supports("avx2")) return CpuLevel::kAvx2;
#endif
  return CpuLevel::kBaseline;
}

namespace detail {
/// Tests lower it, to run what slower CPUs run.
inline CpuLevel& level_in_use() {
  static CpuLevel level = detect_cpu_level();
  return level;
}
}  // namespace detail

inline CpuLevel cpu_level() { return detail::level_in_use(); }

}  // namespace echobuf
