// Threads of servers, jobs, workers and buffers that the system does not start.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <new>
#include <system_error>

#include "echobuf/shared/shared_ring.hpp"
#include "echobuf/shared/worker_pool.hpp"
#include "serve_support.hpp"

#ifndef ECHOBUF_SANITIZED

namespace {
/// How many threads still start; then one does not. Negative: all do.
std::atomic<int> threads_left{-1};
}  // namespace

// In place of the library's, which it calls: a sanitizer would do that, too.
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                              void* (*run)(void*), void* argument) {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create =
      reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  if (threads_left >= 0 && threads_left-- == 0) return EAGAIN;
  return create(thread, attributes, run, argument);
}

namespace echobuf::serve::test {
namespace {

/// Each thread in turn cannot be started; says how many there are.
template <class Make>
int refuse_each_thread(Make&& make) {
  for (int n = 0;; ++n) {
    threads_left = n;
    try {
      make();
      threads_left = -1;
      return n;
    } catch (const std::system_error&) {
    } catch (const std::bad_alloc&) {
    }
    EXPECT_LT(threads_left, 0) << "it was another error";
  }
}

TEST(Serve, AThreadThatCannotBeStartedIsAnError) {
  EXPECT_EQ(refuse_each_thread([] { make_ring(); }), 2);
  const std::shared_ptr<SharedRing> ring = make_ring();
  EXPECT_EQ(refuse_each_thread([&] {
              SharedRing::adopt(words({}), ring->mapped_header().fd(),
                                ring->shared_memory()->fd(), kLease);
            }),
            2);
  EXPECT_EQ(refuse_each_thread([&] {
              workers::WorkerPool(std::make_unique<RecordSinkOf<SharedRing>>(ring), 2,
                                  16);
            }),
            1);
  EXPECT_EQ(
      refuse_each_thread([&] { ClientSlot(ring->mapped_header().fd(), 0, 1, kLease); }),
      1);
  EXPECT_EQ(
      refuse_each_thread([] { Buffer(prefetched(numbered(kWindow, 4, {2, 1}))); }), 1);
}

}  // namespace
}  // namespace echobuf::serve::test
#endif
