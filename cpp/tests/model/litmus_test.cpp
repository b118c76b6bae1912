#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "explorer.hpp"

namespace {

using namespace echobuf::model;  // NOLINT(google-build-using-namespace)
using std::memory_order_acq_rel;
using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;
using Outcomes = std::set<std::uint64_t>;

template <class World>
Result run(const typename World::Parameters& p = {}, const Options& options = {}) {
  return explore<World>(p, options);
}

struct Orders {
  std::memory_order store = memory_order_relaxed, load = memory_order_relaxed;
};

struct StoreBuffering {
  using Parameters = Orders;
  static constexpr int kThreads = 2;
  explicit StoreBuffering(const Orders& o) : orders(o) {}
  void run(int t) {
    at[t].store(1, orders.store);
    got[t] = at[1 - t].load(orders.load);
  }
  void end() { outcome(static_cast<std::uint64_t>(got[0] * 2 + got[1])); }
  Orders orders;
  std::atomic<int> at[2] = {};
  int got[2] = {};
};
TEST(Litmus, StoreBuffering) {
  const Result result =
      run<StoreBuffering>({memory_order_release, memory_order_acquire});
  EXPECT_TRUE(result.ok) << result.failure;
  EXPECT_EQ(result.outcomes, (Outcomes{0, 1, 2, 3}));
}

struct MessagePassing {
  using Parameters = Orders;
  static constexpr int kThreads = 2;
  explicit MessagePassing(const Orders& o) : orders(o) {}
  void run(int t) {
    if (t == 0) {
      data = 42;
      flag.store(1, orders.store);
    } else if (flag.load(orders.load) == 1) {
      check(data == 42, "data");
    }
  }
  void end() {}
  Orders orders;
  int data = 0;
  std::atomic<int> flag{0};
};
TEST(Litmus, MessagePassing) {
  EXPECT_TRUE(run<MessagePassing>({memory_order_release, memory_order_acquire}).ok);
  for (const Orders orders : {Orders{memory_order_relaxed, memory_order_acquire},
                              Orders{memory_order_release, memory_order_relaxed}}) {
    const Result result = run<MessagePassing>(orders);
    EXPECT_FALSE(result.ok);
    EXPECT_EQ(result.failure, "data race: a plain read");
    for (const auto& line : result.trace) std::printf("%s\n", line.c_str());
  }
}

}  // namespace
