// Helpers of several tests: deadlines, threads, and buffers of numbered examples.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "echobuf/buffer/buffer.hpp"
#include "rounds.hpp"

namespace echobuf::test {

using Ids = std::vector<std::uint64_t>;

/// No correct wait lasts as long, however busy the machine: only a lost wake-up does.
inline Deadline far_off() { return Clock::now() + std::chrono::seconds(20); }

/// Calls with a far-off deadline and sees to it that it was not reached: somebody whom
/// nobody woke finds what was waited for all the same, once the deadline has passed.
template <class Call>
Status promptly(Call&& call) {
  const Deadline deadline = far_off();
  const Status status = call(deadline);
  EXPECT_LT(Clock::now(), deadline) << "slept until its deadline";
  return status;
}

/// Joins its threads when it goes.
class Threads {
 public:
  template <class Call>
  void start(Call&& call) {
    threads_.emplace_back(std::forward<Call>(call));
  }
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  ~Threads() { join(); }

 private:
  std::vector<std::thread> threads_;
};

/// Options for examples that are a number of eight bytes each.
inline BufferOptions numbered(std::uint64_t window, std::uint64_t batch_size,
                              Ratio factor) {
  BufferOptions options;
  options.fields = {{sizeof(std::uint64_t), 1}};
  options.window = window;
  options.batch_size = batch_size;
  options.factor = factor;
  options.seed = 7;
  return options;
}

inline BufferOptions numbered_auto(std::uint64_t window, std::uint64_t batch_size,
                                   std::uint32_t max_factor = 8) {
  BufferOptions options = numbered(window, batch_size, {1, 1});
  options.automatic = true;
  options.max_factor = max_factor;
  return options;
}

inline SourceLeaf leaf_of(const Ids& ids) {
  return {reinterpret_cast<const std::byte*>(ids.data()), sizeof(std::uint64_t)};
}

inline Ids range(std::uint64_t first, std::uint64_t end) {
  Ids ids;
  for (std::uint64_t i = first; i < end; ++i) ids.push_back(i);
  return ids;
}

/// Puts all of `ids`, waiting for room.
inline Status put(Buffer& buffer, const Ids& ids) {
  const SourceLeaf leaf = leaf_of(ids);
  std::uint64_t done = 0;
  return promptly([&](Deadline deadline) {
    return buffer.put(buffer.term(), &leaf, ids.size(), 0, done, deadline, nullptr);
  });
}

/// Puts as many of first ... end-1 as fit, and says where the rest begins.
inline std::uint64_t put_what_fits(Buffer& buffer, std::uint64_t first,
                                   std::uint64_t end) {
  const Ids ids = range(first, end);
  const SourceLeaf leaf = leaf_of(ids);
  std::uint64_t done = 0;
  buffer.put(buffer.term(), &leaf, ids.size(), 0, done, kAtOnce, nullptr);
  return first + done;
}

inline Ids ids_of(const Batch& batch) {
  Ids ids(batch.count);
  if (batch.count > 0)
    std::memcpy(ids.data(), batch.block.data(), batch.count * sizeof(std::uint64_t));
  return ids;
}

/// The next batch in `ids`, which is left alone unless there is one.
inline Status next(Buffer& buffer, Ids& ids, Deadline deadline) {
  Batch batch;
  const Status status = buffer.next(batch, deadline);
  if (status == Status::kOk) ids = ids_of(batch);
  return status;
}
inline Status next(Buffer& buffer, Ids& ids) {
  return promptly([&](Deadline deadline) { return next(buffer, ids, deadline); });
}

struct Epochs {
  std::vector<Ids> batches;
  std::vector<Checkpoint> after;  // each batch
};

/// Serves first ... n-1 on this thread alone: puts what fits, draws what is there.
inline Epochs serve(Buffer& buffer, std::uint64_t n, std::uint64_t first = 0) {
  Epochs got;
  Ids ids;
  std::uint64_t fresh = first;
  for (;;) {
    const std::uint64_t before = fresh;
    fresh = put_what_fits(buffer, fresh, n);
    if (fresh == n) buffer.close();
    Status status = Status::kOk;
    bool drew = false;
    // A thread that assembles ahead is waited for once there is nothing left to put.
    const bool wait = buffer.prefetches() && fresh == n;
    while ((status = wait ? next(buffer, ids) : next(buffer, ids, kAtOnce)) ==
           Status::kOk) {
      got.batches.push_back(ids);
      got.after.push_back(buffer.checkpoint());
      drew = true;
    }
    if (status == Status::kFinished) return got;
    if (status != Status::kTimeout || wait) {
      ADD_FAILURE() << "ended with status " << static_cast<int>(status);
      return got;
    }
    if (!drew && fresh == before && !buffer.prefetches()) {
      ADD_FAILURE() << "producer and consumer wait for each other";
      return got;
    }
  }
}

inline Ids joined(const std::vector<Ids>& batches) {
  Ids all;
  for (const Ids& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

/// How often each of 0 ... n-1 comes.
inline Ids uses(const Ids& draws, std::uint64_t n) {
  Ids count(n, 0);
  for (const std::uint64_t id : draws) {
    if (id < n)
      ++count[id];
    else
      ADD_FAILURE() << id << " was never put";
  }
  return count;
}

/// Windows, batches and factors of all kinds.
inline const std::vector<BufferOptions> kFixed = {
    numbered(1, 1, {1, 1}),   numbered(8, 4, {1, 1}),  numbered(12, 4, {2, 1}),
    numbered(12, 12, {3, 1}), numbered(13, 5, {4, 1}), numbered(16, 4, {5, 2}),
    numbered(9, 3, {10, 3}),  numbered(40, 7, {3, 2}), numbered(50, 11, {7, 5})};

inline std::string name_of(const BufferOptions& options) {
  return "window " + std::to_string(options.window) + " batch " +
         std::to_string(options.batch_size) + " factor " +
         std::to_string(options.factor.num) + "/" + std::to_string(options.factor.den) +
         " prefetch " + std::to_string(options.prefetch);
}

}  // namespace echobuf::test
