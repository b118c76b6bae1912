// A buffer of packed rows, beside a slow reference.
#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <vector>

#include "echobuf/buffer/buffer.hpp"
#include "echobuf/buffer/checkpoint.hpp"
#include "packing_support.hpp"

namespace {

using namespace echobuf;        // NOLINT(google-build-using-namespace)
using namespace echobuf::test;  // NOLINT(google-build-using-namespace)

using Batches = std::vector<std::vector<Ids>>;

constexpr std::uint64_t kRecords = 260;

std::vector<BufferOptions> fixed() {
  std::vector<BufferOptions> cases;
  for (const Ratio factor : {Ratio{1, 1}, Ratio{3, 1}, Ratio{5, 2}, Ratio{7, 5}})
    for (const std::uint64_t rows : {1, 5, 90})
      for (const std::uint64_t pack_to : {1, 8, 40}) {
        BufferOptions options = packing(24, rows, factor, pack_to);
        cases.push_back(options);
        options.lengths.payload_bytes = factor.ceil() * 3 * pack_to * 10;
        options.drop_last = true;
        options.prefetch = 2;
        cases.push_back(options);
      }
  return cases;
}

std::string name_of_packing(const BufferOptions& options) {
  return name_of_lengths(options) + " rows of " +
         std::to_string(options.lengths.pack_to);
}

struct Served {
  Batches batches;
  std::vector<Checkpoint> after;
  Ids counts;  // what stats() says then
};

/// Serves first ... n-1 on this thread alone.
Served serve_rows(Buffer& buffer, std::uint64_t n, const LengthOf& length,
                  std::uint64_t first = 0) {
  Served got;
  const PackingRecords records(first, n, length);
  std::uint64_t done = 0;
  for (;;) {
    buffer.put(buffer.term(), records.leaves(), std::min(records.size(), done + 41), 0,
               done, kAtOnce, nullptr);
    if (done == records.size()) buffer.close();
    Batch batch;
    Status status = Status::kOk;
    const auto next = [&] {
      if (!buffer.prefetches() || done < records.size())
        return buffer.next(batch, kAtOnce);
      return promptly([&](Deadline deadline) { return buffer.next(batch, deadline); });
    };
    while ((status = next()) == Status::kOk) {
      got.batches.push_back(read_rows(batch, buffer.options(), length));
      got.after.push_back(buffer.checkpoint());
      got.counts.push_back(buffer.stats().served);
    }
    if (status == Status::kFinished) return got;
    if (status != Status::kTimeout) {
      ADD_FAILURE() << "ended with status " << static_cast<int>(status);
      return got;
    }
  }
}

TEST(PackingBuffer, ServesWhatTheReferenceSays) {
  for (const BufferOptions& options : fixed()) {
    SCOPED_TRACE(name_of_packing(options));
    const LengthOf length = row_lengths(options.lengths.pack_to);
    Buffer buffer(options);
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
      if (epoch > 0) {
        ASSERT_EQ(buffer.reset(epoch), Status::kOk);
      }
      const Batches expected = expected_rows(options, kRecords, epoch, length);
      const Served served = serve_rows(buffer, kRecords, length);
      ASSERT_EQ(served.batches, expected) << "epoch " << epoch;
      ASSERT_TRUE(buffer.checkpoint().epoch_done);
      std::uint64_t count = 0;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        for (const Ids& row : expected[i]) count += row.size();
        ASSERT_EQ(served.counts[i], count);
      }
    }
  }
}

TEST(PackingBuffer, GoesOnFromTheCheckpointOfAnyBatch) {
  for (const BufferOptions& options : fixed()) {
    SCOPED_TRACE(name_of_packing(options));
    const LengthOf length = row_lengths(options.lengths.pack_to);
    Buffer buffer(options);
    const Served whole = serve_rows(buffer, kRecords, length);
    const std::size_t step = 1 + whole.after.size() / 7;
    for (std::size_t done = 0; done < whole.after.size(); done += step) {
      const std::vector<std::uint64_t> words = to_words(whole.after[done], options);
      const Checkpoint point = from_words(words, options);
      if (point.epoch_done) {
        ASSERT_EQ(done + 1, whole.after.size());
        continue;
      }
      Buffer resumed(options);
      ASSERT_TRUE(resumed.restore(point));
      ASSERT_EQ(resumed.stats().served, whole.counts[done]);
      const Served rest =
          serve_rows(resumed, kRecords, length, whole.after[done].fresh_offset());
      ASSERT_EQ(rest.batches,
                Batches(whole.batches.begin() + static_cast<std::ptrdiff_t>(done) + 1,
                        whole.batches.end()));
      for (std::size_t i = 1; i < words.size(); i += 5) {  // cut off: refused
        const std::vector<std::uint64_t> cut(
            words.begin(), words.end() - static_cast<std::ptrdiff_t>(i));
        ASSERT_THROW(from_words(cut, options), std::invalid_argument);
      }
    }
  }
}

TEST(PackingBuffer, SaysWhetherADrawWouldWait) {
  for (const BufferOptions& options : fixed()) {
    if (options.prefetch > 0) continue;
    SCOPED_TRACE(name_of_packing(options));
    const LengthOf length = row_lengths(options.lengths.pack_to);
    Buffer buffer(options);
    Batch batch;
    for (std::uint64_t id = 0; id < 100; ++id) {
      const PackingRecords record(id, id + 1, length);
      std::uint64_t done = 0;
      ASSERT_EQ(
          buffer.put(buffer.term(), record.leaves(), 1, 0, done, kAtOnce, nullptr),
          Status::kOk);
      for (bool ready = true; ready;) {
        ready = buffer.ready();
        ASSERT_EQ(buffer.next(batch, kAtOnce) == Status::kOk, ready);
      }
    }
    buffer.close();
    while (buffer.next(batch, kAtOnce) == Status::kOk) ASSERT_TRUE(buffer.ready());
    ASSERT_TRUE(buffer.ready());
  }
}

TEST(PackingBuffer, TakesNoMoreMemoryThanItSays) {
  for (const BufferOptions& options : fixed()) {
    SCOPED_TRACE(name_of_packing(options));
    const LengthOf length = row_lengths(options.lengths.pack_to);
    const BufferNeeds needs = Buffer::needs(options);
    const std::uint64_t most = needs.slots * needs.bytes_per_slot +
                               (needs.batches + options.idle) * needs.bytes_per_batch +
                               needs.more;
    Buffer buffer(options);
    Batch batch;
    std::uint64_t fresh = 0;
    for (Status status = Status::kOk; status != Status::kFinished;) {
      const PackingRecords records(fresh, std::min<std::uint64_t>(kRecords, fresh + 41),
                                   length);
      std::uint64_t done = 0;
      buffer.put(buffer.term(), records.leaves(), records.size(), 0, done, kAtOnce,
                 nullptr);
      fresh += done;
      if (fresh == kRecords) buffer.close();
      while ((status = buffer.next(batch, kAtOnce)) == Status::kOk)
        ASSERT_LE(buffer.stats().bytes, most);
      ASSERT_LE(buffer.stats().bytes, most);
    }
  }
}

TEST(PackingBuffer, ServesAllWhateverPassesAreAutomatic) {
  for (const std::uint64_t rows : {1, 6})
    for (const std::uint32_t prefetch : {0u, 2u}) {
      BufferOptions options = packing(40, rows, {1, 1}, 16);
      options.automatic = true;
      options.max_factor = 3;
      options.prefetch = prefetch;
      const LengthOf length = row_lengths(16);
      Buffer buffer(options);
      const Served served = serve_rows(buffer, kRecords, length);
      Ids count(kRecords, 0);
      for (const std::vector<Ids>& batch : served.batches)
        for (const Ids& row : batch)
          for (const std::uint64_t id : row) ++count[id];
      for (const std::uint64_t times : count) {
        EXPECT_GE(times, 1u);
        EXPECT_LE(times, 3u);
      }
      EXPECT_TRUE(buffer.checkpoint().epoch_done);
    }
}

}  // namespace
