// How many cores the process may use at a time.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <thread>

#ifdef __linux__
#include <sched.h>

#include <fstream>
#include <string>
#endif

namespace echobuf {

#ifdef __linux__

namespace detail {

/// Returns the quota of the container's control group, in cores; 0: none.
inline double cores_of_group() {
  std::string quota;
  double period = 0;
  std::ifstream both("/sys/fs/cgroup/cpu.max");
  if (!(both >> quota >> period)) {  // version 1
    std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_quota_us") >> quota;
    std::ifstream("/sys/fs/cgroup/cpu/cpu.cfs_period_us") >> period;
  }
  const double time = std::atof(quota.c_str());  // "max" and -1: no limit
  return time > 0 && period > 0 ? time / period : 0;
}

}  // namespace detail

/// Returns the number of cores that the threads of the process may run on; fewer, where
/// its container has a quota of processor time.
inline unsigned usable_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  // More cores than the set has room for are an error, and enough.
  const unsigned allowed = sched_getaffinity(0, sizeof cores, &cores) == 0
                               ? static_cast<unsigned>(CPU_COUNT(&cores))
                               : std::thread::hardware_concurrency();
  const double quota = detail::cores_of_group();
  if (quota == 0 || quota >= allowed) return allowed;
  return std::max(1U, static_cast<unsigned>(quota));
}

#else

inline unsigned usable_cores() {
  return std::max(1U, std::thread::hardware_concurrency());
}

#endif

}  // namespace echobuf
