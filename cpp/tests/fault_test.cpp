// Faults from inside: an allocation that fails, a call from where none may come.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "echobuf/buffer/buffer.hpp"
#include "ragged_support.hpp"
#include "support.hpp"

namespace {

/// How many allocations still succeed; then one fails. Negative: all do.
std::atomic<long> allocations_left{-1};
thread_local bool exempt = false;  // the test itself, outside of the buffer's calls

void* allocate(std::size_t size) {
  if (!exempt && allocations_left.load(std::memory_order_relaxed) >= 0 &&
      allocations_left.fetch_sub(1, std::memory_order_relaxed) == 0)
    return nullptr;
  return std::malloc(size);
}

}  // namespace

// Not inlined: compilers know what belongs to the standard operators only.
[[gnu::noinline]] void* operator new(std::size_t size) {
  if (void* memory = allocate(size)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace {

using echobuf::Batch;
using echobuf::Buffer;
using echobuf::BufferOptions;
using echobuf::Checkpoint;
using echobuf::kAtOnce;
using echobuf::Poll;
using echobuf::SourceLeaf;
using echobuf::Status;
using echobuf::Target;
using echobuf::test::Ids;
using echobuf::test::ids_of;
using echobuf::test::leaf_of;
using echobuf::test::numbered;
using echobuf::test::numbered_auto;
using echobuf::test::promptly;
using echobuf::test::range;

// ---- an allocation that fails

/// Calls again after each failure; memory is there again then.
template <class Call>
auto persist(int& failures, Call&& call) {
  struct Subject {
    Subject() { exempt = false; }
    ~Subject() { exempt = true; }
  };
  for (;;) {
    try {
      const Subject subject;
      return call();
    } catch (const std::bad_alloc&) {
      ++failures;
    }
  }
}

/// Two epochs of 40 examples; the caller holds all batches, so that each is allocated.
std::vector<Ids> serve_with_failures(const BufferOptions& options, int& failures) {
  const auto buffer =
      persist(failures, [&] { return std::make_unique<Buffer>(options); });
  std::vector<Ids> served;
  std::vector<Batch> held;
  held.reserve(100);
  const Ids ids = range(0, 40);
  const SourceLeaf leaf = leaf_of(ids);
  for (std::uint64_t epoch = 1; epoch <= 2; ++epoch) {
    std::uint64_t done = 0;
    for (Status status = Status::kOk; status != Status::kFinished;) {
      persist(failures, [&] {
        return buffer->put(buffer->term(), &leaf, ids.size(), 0, done, kAtOnce,
                           nullptr);
      });
      if (done == ids.size()) buffer->close();
      Batch batch;
      status = persist(failures, [&] {
        return promptly([&](auto deadline) { return buffer->next(batch, deadline); });
      });
      if (status == Status::kNoMemory) ++failures;
      if (status != Status::kOk) continue;
      served.push_back(ids_of(batch));
      held.push_back(std::move(batch));
    }
    persist(failures, [&] { return buffer->reset(epoch); });
    held.clear();
  }
  return served;
}

void fail_each_allocation_in_turn(const BufferOptions& options, int least) {
  int failures = 0;
  const std::vector<Ids> expected = serve_with_failures(options, failures);
  ASSERT_EQ(failures, 0);
  ASSERT_FALSE(expected.empty());
  int failed = 0;
  exempt = true;
  for (long turn = 0;; ++turn) {
    failures = 0;
    allocations_left = turn;
    const std::vector<Ids> served = serve_with_failures(options, failures);
    const bool reached = allocations_left.exchange(-1) < 0;
    if (!reached) break;
    ASSERT_EQ(served, expected) << "allocation " << turn << " failed";
    failed += failures;
  }
  EXPECT_GE(failed, least) << "the failures came where none could be felt";
}

TEST(Fault, ABatchForWhichThereIsNoMemoryIsServedNext) {
  BufferOptions options = numbered(12, 4, {2, 1});
  fail_each_allocation_in_turn(options, 40);
}

TEST(Fault, TheThreadThatAssemblesAheadTriesAgain) {
  BufferOptions options = numbered(12, 4, {3, 2});
  options.prefetch = 2;
  fail_each_allocation_in_turn(options, 40);
}

TEST(Fault, APartOfABatchIsKeptForTheNextTry) {
  // Upstream ends before anything is drawn, so that "auto" has one order.
  BufferOptions options = numbered_auto(64, 4, 1);
  fail_each_allocation_in_turn(options, 20);
}

/// The same with records that differ in length.
std::vector<Ids> serve_lengths_with_failures(const BufferOptions& options,
                                             int& failures) {
  const echobuf::test::LengthsOf lengths = echobuf::test::some_lengths(24);
  const auto buffer =
      persist(failures, [&] { return std::make_unique<Buffer>(options); });
  std::vector<Ids> served;
  std::vector<Batch> held;
  held.reserve(500);
  constexpr std::uint64_t kExamples = 150;  // so many segments that a table grows
  const echobuf::test::Records records(range(0, kExamples), lengths);
  for (std::uint64_t epoch = 1; epoch <= 2; ++epoch) {
    std::uint64_t done = 0;
    for (Status status = Status::kOk; status != Status::kFinished;) {
      persist(failures, [&] {
        return buffer->put(buffer->term(), records.leaves(), kExamples, 0, done,
                           kAtOnce, nullptr);
      });
      if (done == kExamples) buffer->close();
      Batch batch;
      status = persist(failures, [&] {
        return buffer->prefetches()
                   ? promptly([&](auto until) { return buffer->next(batch, until); })
                   : buffer->next(batch, kAtOnce);
      });
      if (status == Status::kNoMemory) ++failures;
      if (status != Status::kOk) continue;
      served.push_back(echobuf::test::read_batch(batch, options, lengths));
      held.push_back(std::move(batch));
    }
    persist(failures, [&] { return buffer->reset(epoch); });
    held.clear();
  }
  return served;
}

void fail_each_allocation_of_lengths(const BufferOptions& options, int least) {
  int failures = 0;
  const std::vector<Ids> expected = serve_lengths_with_failures(options, failures);
  ASSERT_EQ(failures, 0);
  ASSERT_GT(expected.size(), 20u);
  int failed = 0;
  exempt = true;
  for (long turn = 0;; ++turn) {
    failures = 0;
    allocations_left = turn;
    const std::vector<Ids> served = serve_lengths_with_failures(options, failures);
    const bool reached = allocations_left.exchange(-1) < 0;
    if (!reached) break;
    ASSERT_EQ(served, expected) << "allocation " << turn << " failed";
    failed += failures;
  }
  EXPECT_GE(failed, least) << "the failures came where none could be felt";
}

TEST(Fault, ABatchOfLengthsForWhichThereIsNoMemoryIsServedNext) {
  fail_each_allocation_of_lengths(echobuf::test::of_lengths(24, 12, {2, 1}, 2 * 24 * 4),
                                  40);
}

TEST(Fault, PartOfABatchOfLengthsIsKeptForTheNextTry) {
  // Segments of a record each, and batches of many.
  BufferOptions options = echobuf::test::of_lengths(64, 1, {2, 1}, 2 * 24 * 4);
  options.lengths.max_rows = 80;
  fail_each_allocation_of_lengths(options, 40);
}

// ---- calls from the poll of a draw, as a signal handler makes them

struct CallsBack final : Poll {
  explicit CallsBack(Buffer& of) : buffer(of) {}
  bool go_on() override {
    ++calls;
    reset = buffer.reset(9);
    next = buffer.next(batch, echobuf::test::far_off());
    restored = buffer.restore(buffer.checkpoint());
    ready = buffer.ready();
    return true;
  }
  Buffer& buffer;
  Batch batch;
  int calls = 0;
  Status reset = Status::kOk;
  Status next = Status::kOk;
  bool restored = true;
  bool ready = true;
};

TEST(Fault, ACallThatWouldWaitForItsOwnDrawIsRefused) {
  constexpr std::uint64_t kRecord = std::uint64_t{1} << 20;
  BufferOptions options = numbered(32, 32, {1, 1});
  options.fields = {{kRecord, 1}};
  Buffer buffer(options);
  std::vector<std::byte> records(32 * kRecord);
  for (std::size_t i = 0; i < 32; ++i) records[i * kRecord] = std::byte(i);
  const SourceLeaf leaf{records.data(), kRecord};
  std::uint64_t done = 0;
  ASSERT_EQ(buffer.put(buffer.term(), &leaf, 32, 0, done, kAtOnce, nullptr),
            Status::kOk);

  CallsBack poll(buffer);
  Batch batch;
  ASSERT_EQ(buffer.next(batch, kAtOnce, &poll), Status::kOk);
  ASSERT_GT(poll.calls, 0);
  EXPECT_EQ(poll.reset, Status::kReentrant);
  EXPECT_EQ(poll.next, Status::kReentrant);
  EXPECT_FALSE(poll.restored);
  EXPECT_FALSE(poll.ready);
  Ids seen;
  for (std::size_t i = 0; i < 32; ++i)
    seen.push_back(std::to_integer<std::uint64_t>(batch.block.data()[i * kRecord]));
  std::sort(seen.begin(), seen.end());
  EXPECT_EQ(seen, range(0, 32));
  EXPECT_EQ(buffer.reset(9), Status::kOk) << "between two draws it is allowed";
}

}  // namespace
