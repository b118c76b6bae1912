// The model checker itself finds the outcomes of programs for which they are known, and
// no others.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "echobuf/sync/event_count.hpp"
#include "explorer.hpp"

namespace {

using namespace echobuf::model;  // NOLINT(google-build-using-namespace)
using std::memory_order_acq_rel;
using std::memory_order_acquire;
using std::memory_order_relaxed;
using std::memory_order_release;
using Outcomes = std::set<std::uint64_t>;

struct Orders {
  std::memory_order store = memory_order_relaxed, load = memory_order_relaxed;
};
constexpr Orders kReleaseAcquire{memory_order_release, memory_order_acquire};
constexpr Orders kRelaxedBoth{};

/// Threads write what they read here; an outcome is its digits.
struct Litmus {
  explicit Litmus(const Orders& o) : orders(o) {}
  void end() {
    std::uint64_t digits = 0;
    for (const int value : got) digits = digits * 10 + static_cast<unsigned>(value);
    outcome(digits);
  }
  Orders orders;
  std::atomic<int> x{0}, y{0};
  int got[6] = {};
};

template <class World>
Outcomes outcomes(const Orders& orders) {
  const Result result = explore<World>(orders);
  EXPECT_TRUE(result.ok && result.complete) << result.failure;
  return result.outcomes;
}
template <class World, class Parameters = Orders>
std::string failure(const Parameters& parameters = {}, const Options& options = {}) {
  return explore<World>(parameters, options).failure;
}

struct StoreBuffering : Litmus {
  static constexpr int kThreads = 2;
  using Litmus::Litmus;
  void run(int t) {
    (t == 0 ? x : y).store(1, orders.store);
    got[t] = (t == 0 ? y : x).load(orders.load);
  }
};
TEST(Litmus, StoreBufferingIsAllowed) {
  EXPECT_EQ(outcomes<StoreBuffering>(kReleaseAcquire),
            (Outcomes{0, 10000, 100000, 110000}));
}

struct LoadBuffering : Litmus {
  static constexpr int kThreads = 2;
  using Litmus::Litmus;
  void run(int t) {
    got[t] = (t == 0 ? y : x).load(orders.load);
    (t == 0 ? x : y).store(1, orders.store);
  }
};
TEST(Litmus, LoadBufferingIsNotInTheModel) {
  // C++ allows 110000 here: a load may read what is written after it in time.
  EXPECT_EQ(outcomes<LoadBuffering>(kRelaxedBoth), (Outcomes{0, 10000, 100000}));
}

struct TwoWrites : Litmus {
  static constexpr int kThreads = 2;
  using Litmus::Litmus;
  void run(int t) {
    (t == 0 ? x : y).store(1, orders.store);
    (t == 0 ? y : x).store(2, orders.store);
  }
  void end() {
    got[0] = x.load(memory_order_relaxed);
    got[1] = y.load(memory_order_relaxed);
    Litmus::end();
  }
};
TEST(Litmus, WritesMayEndInEitherOrderOfModification) {
  EXPECT_EQ(outcomes<TwoWrites>(kReleaseAcquire),
            (Outcomes{110000, 120000, 210000, 220000}));
}

struct Coherence : Litmus {
  static constexpr int kThreads = 2;
  using Litmus::Litmus;
  void run(int t) {
    if (t == 0) {
      x.store(1, orders.store);
      x.store(2, orders.store);
    } else {
      got[0] = x.load(orders.load);
      got[1] = x.load(orders.load);
    }
  }
};
TEST(Litmus, ALocationIsReadForwards) {
  EXPECT_EQ(outcomes<Coherence>(kRelaxedBoth),
            (Outcomes{0, 10000, 20000, 110000, 120000, 220000}));
}

struct IndependentReads : Litmus {
  static constexpr int kThreads = 4;
  using Litmus::Litmus;
  void run(int t) {
    if (t < 2) {
      (t == 0 ? x : y).store(1, orders.store);
      return;
    }
    int* mine = t == 2 ? got : got + 2;
    mine[0] = (t == 2 ? x : y).load(orders.load);
    mine[1] = (t == 2 ? y : x).load(orders.load);
  }
};
TEST(Litmus, IndependentReadsOfIndependentWritesMayDisagree) {
  const Outcomes all = outcomes<IndependentReads>(kReleaseAcquire);
  EXPECT_EQ(all.size(), 16u);
  EXPECT_TRUE(all.count(101000));
}

struct MessagePassing : Litmus {
  static constexpr int kThreads = 2;
  using Litmus::Litmus;
  void run(int t) {
    if (t == 0) {
      data = 42;
      x.store(1, orders.store);
    } else if (x.load(orders.load) == 1) {
      check(data == 42, "not what was sent");
    }
  }
  int data = 0;
};
TEST(Litmus, AMessageIsPassedByReleaseAndAcquireOnly) {
  EXPECT_EQ(failure<MessagePassing>(kReleaseAcquire), "");
  EXPECT_EQ(failure<MessagePassing>({memory_order_relaxed, memory_order_acquire}),
            "data race: a plain read");
  EXPECT_EQ(failure<MessagePassing>({memory_order_release, memory_order_relaxed}),
            "data race: a plain read");
}

template <bool Modify>
struct ReleaseSequence : Litmus {
  static constexpr int kThreads = 3;
  using Litmus::Litmus;
  void run(int t) {
    if (t == 0) {
      data = 42;
      x.store(1, memory_order_release);
    } else if (t == 2) {
      if (x.load(memory_order_acquire) == 2) check(data == 42, "not what was sent");
    } else if (Modify) {
      x.fetch_add(1, memory_order_relaxed);
    } else if (x.load(memory_order_relaxed) == 1) {
      x.store(2, memory_order_relaxed);
    }
  }
  int data = 0;
};
TEST(Litmus, AReleaseGoesOnThroughReadModifyWritesOnly) {
  EXPECT_EQ(failure<ReleaseSequence<true>>(), "");
  EXPECT_EQ(failure<ReleaseSequence<false>>(), "data race: a plain read");
}

enum class Increment { kCas, kLoadAndStore };
template <Increment How>
struct Counting : Litmus {
  static constexpr int kThreads = 2;
  using Litmus::Litmus;
  void run(int) {
    int old = x.load(memory_order_relaxed);
    if (How == Increment::kLoadAndStore)
      x.store(old + 1, memory_order_relaxed);
    else
      while (!x.compare_exchange_weak(old, old + 1, memory_order_relaxed)) continue;
  }
  void end() { outcome(static_cast<unsigned>(x.load(memory_order_relaxed))); }
};
TEST(Litmus, ALoopOfCompareAndSwapCountsExactly) {
  EXPECT_EQ(outcomes<Counting<Increment::kCas>>({}), (Outcomes{2}));
  EXPECT_EQ(outcomes<Counting<Increment::kLoadAndStore>>({}), (Outcomes{1, 2}));
}

/// Additions of three threads: the values that they read tell all interleavings apart.
struct Interleavings : Litmus {
  static constexpr int kThreads = 3;
  using Litmus::Litmus;
  void run(int t) {
    got[2 * t] = x.fetch_add(1, memory_order_relaxed);
    got[2 * t + 1] = x.fetch_add(1, memory_order_relaxed);
  }
};
TEST(Litmus, EveryInterleavingIsExplored) {
  EXPECT_EQ(outcomes<Interleavings>({}).size(), 90u);  // 6! / 2!^3
}

template <bool Locks>
struct Exclusion {
  static constexpr int kThreads = 2;
  explicit Exclusion(const Orders&) {}
  void run(int) {
    if (Locks) {
      const std::lock_guard lock(mutex);
      ++count;
    } else {
      ++count;
    }
  }
  void end() { outcome(static_cast<unsigned>(count)); }
  std::mutex mutex;
  int count = 0;
};
TEST(Litmus, AMutexExcludes) {
  EXPECT_EQ(outcomes<Exclusion<true>>({}), (Outcomes{2}));
  EXPECT_EQ(failure<Exclusion<false>>(), "data race: a plain read");
}

struct Spinning : Litmus {
  static constexpr int kThreads = 2;
  using Litmus::Litmus;
  void run(int t) {
    if (t == 0)
      x.store(1, memory_order_relaxed);
    else
      while (x.load(memory_order_relaxed) != 2) continue;
  }
};
TEST(Litmus, ALoopThatNothingEndsIsFound) {
  EXPECT_EQ(failure<Spinning>(), "livelock: no execution ends from here");
}

/// As echobuf::EventCount, but its mark and its number are stored and loaded.
class StoringEventCount {
 public:
  std::uint32_t prepare() {
    waiting_.store(1, memory_order_release);
    return word_.load(memory_order_acquire);
  }
  void notify() {
    word_.fetch_add(2, memory_order_acq_rel);
    if (waiting_.load(memory_order_acquire)) event_.notify();
  }
  void wait(std::uint32_t, echobuf::Deadline deadline) {
    event_.wait(event_.prepare(), deadline);
  }

 private:
  std::atomic<std::uint32_t> waiting_{0}, word_{0};
  echobuf::EventCount event_;
};

template <class Event>
struct Waiting {
  static constexpr int kThreads = 2;
  explicit Waiting(const echobuf::Deadline& d) : deadline(d) {}
  void run(int t) {
    if (t == 0) {
      done.store(true, memory_order_relaxed);
      event.notify();
      return;
    }
    while (!done.load(memory_order_relaxed)) {
      const std::uint32_t key = event.prepare();
      if (done.load(memory_order_relaxed)) return;
      if (echobuf::Clock::now() >= deadline) return;
      event.wait(key, deadline);
    }
  }
  void end() { outcome(0); }
  const echobuf::Deadline deadline;
  std::atomic<bool> done{false};
  Event event;
};
TEST(Litmus, ALostWakeUpIsFound) {
  const echobuf::Deadline never = echobuf::Deadline::max();
  EXPECT_EQ(failure<Waiting<echobuf::EventCount>>(never), "");
  EXPECT_EQ(failure<Waiting<StoringEventCount>>(never), "deadlock");
}
TEST(Litmus, ADeadlinePassesIfTimeMay) {
  const echobuf::Deadline soon(
      std::chrono::nanoseconds(static_cast<std::int64_t>(now_of(1))));
  EXPECT_EQ(failure<Waiting<StoringEventCount>>(soon), "deadlock");
  Options options;
  options.max_time = 1;
  EXPECT_EQ(failure<Waiting<StoringEventCount>>(soon, options), "");
}

struct Ids : Litmus {
  static constexpr int kThreads = 2;
  using Litmus::Litmus;
  void run(int t) { ids[t] = std::this_thread::get_id(); }
  void end() { outcome(ids[0] != ids[1] && ids[0] != std::thread::id()); }
  std::thread::id ids[2];
};
TEST(Litmus, ThreadsHaveIdsOfTheirOwn) {
  EXPECT_EQ(outcomes<Ids>(kRelaxedBoth), (Outcomes{1}));
}

}  // namespace
