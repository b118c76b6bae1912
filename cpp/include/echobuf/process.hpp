// Tells whether the process was forked.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace echobuf {

namespace detail {
inline std::atomic<std::uint32_t> forks{0};
inline const int fork_handler = pthread_atfork(
    nullptr, nullptr, [] { forks.fetch_add(1, std::memory_order_relaxed); });
}  // namespace detail

/// Counts the forks between the first process and this one. An object made under
/// another generation belongs to a parent: its threads are gone and its locks may be
/// held for ever, so it must be left alone, even by destructors.
inline std::uint32_t fork_generation() {
  // Relaxed: the child has one thread when the handler runs, and never goes back.
  return detail::forks.load(std::memory_order_relaxed);
}

}  // namespace echobuf
