// A buffer of records that differ in length, beside a slow reference.
#include <gtest/gtest.h>

#include <vector>

#include "echobuf/buffer/buffer.hpp"
#include "echobuf/buffer/checkpoint.hpp"
#include "ragged_support.hpp"

namespace {

using namespace echobuf;        // NOLINT(google-build-using-namespace)
using namespace echobuf::test;  // NOLINT(google-build-using-namespace)
using Form = LengthOptions::Form;

constexpr std::uint64_t kRaggedRecords = 150;

BufferOptions with(BufferOptions options, std::uint64_t max_rows, std::uint64_t pad_to,
                   Form form = Form::kPacked, bool drop_last = false) {
  options.lengths.max_rows = max_rows;
  options.lengths.pad_to = pad_to;
  options.lengths.form = form;
  options.drop_last = drop_last;
  return options;
}

/// A share is `most` tokens or more: in some cases just that, in others many records.
struct RaggedCase {
  BufferOptions options;
  std::uint64_t most;  // tokens of a record
};

std::vector<RaggedCase> ragged_cases() {
  std::vector<RaggedCase> cases;
  for (const Ratio factor : {Ratio{1, 1}, Ratio{3, 1}, Ratio{5, 2}, Ratio{7, 5}})
    for (const std::uint64_t shares_of : {1, 3, 40}) {  // records of `most` tokens
      const std::uint64_t most = 24;
      const std::uint64_t payload = factor.ceil() * shares_of * most * kTokenBytes;
      BufferOptions options = of_lengths(24, 7, factor, payload);
      cases.push_back({options, most});
      cases.push_back({with(options, 0, 8, Form::kPadded), most});
      cases.push_back({with(options, 60, 1), most});
      cases.push_back({with(options, 60, 16, Form::kPadded, true), most});
      options.drop_last = true;
      options.prefetch = 2;
      cases.push_back({options, most});
    }
  // Batches of more records than the segments of the ring have.
  BufferOptions wide = of_lengths(64, 64, {2, 1}, 2 * 24 * kTokenBytes);
  cases.push_back({wide, 24});
  cases.push_back({with(wide, 400, 1), 24});
  cases.push_back({with(wide, 400, 4, Form::kPadded), 24});
  cases.push_back({with(of_lengths(64, 42, {5, 2}, 3 * 24 * kTokenBytes), 0, 1), 24});
  // No share, but a bound.
  BufferOptions bounded = of_lengths(24, 7, {3, 1}, 0);
  bounded.lengths.fields[0].max_length = 24;
  bounded.lengths.fields[1].max_length = 12;
  cases.push_back({bounded, 24});
  // Rows that pad with a pattern.
  BufferOptions patterned = with(bounded, 0, 8, Form::kPadded);
  patterned.lengths.fields[0].pad = {std::byte{1}, std::byte{2}};
  patterned.lengths.fields[1].pad = {std::byte{9}, std::byte{8}, std::byte{7}};
  cases.push_back({patterned, 24});
  patterned.lengths.form = Form::kPacked;
  cases.push_back({patterned, 24});
  return cases;
}

TEST(RaggedBuffer, ServesWhatTheReferenceSays) {
  for (const RaggedCase& c : ragged_cases()) {
    SCOPED_TRACE(name_of_lengths(c.options));
    const LengthsOf lengths = some_lengths(c.most);
    Buffer buffer(c.options);
    for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
      if (epoch > 0) {
        ASSERT_EQ(buffer.reset(epoch), Status::kOk);
      }
      const Ids draws = expected_draws(c.options, kRaggedRecords, epoch, lengths);
      const std::vector<Ids> batches = cut(draws, c.options, lengths);
      ASSERT_GT(batches.size(), 3u);
      ASSERT_EQ(serve(buffer, kRaggedRecords, lengths).batches, batches)
          << "epoch " << epoch;
      for (const std::uint64_t times : uses(draws, kRaggedRecords)) {
        ASSERT_GE(times, c.options.factor.num / c.options.factor.den);
        ASSERT_LE(times, c.options.factor.ceil());
      }
      if (!c.options.drop_last) {
        ASSERT_EQ(buffer.stats().served, draws.size());
      }
    }
  }
}

TEST(RaggedBuffer, TakesRecordsAsLargeAsAShareAndEmptyOnes) {
  const LengthsOf kinds[] = {
      [](std::uint64_t) { return Lengths{24, 0}; },
      [](std::uint64_t) { return Lengths{0, 16}; },
      [](std::uint64_t) { return Lengths{0, 0}; },
      [](std::uint64_t id) { return Lengths{id % 2 * 24, 0}; },
      [](std::uint64_t id) { return Lengths{id % 3 == 1 ? 13u : 0u, id % 2 * 7}; }};
  for (const LengthsOf& lengths : kinds)
    for (const RaggedCase& c : ragged_cases()) {
      if (c.options.lengths.payload_bytes == 0) continue;
      SCOPED_TRACE(name_of_lengths(c.options));
      Buffer buffer(c.options);
      const Ids draws = expected_draws(c.options, kRaggedRecords, 0, lengths);
      ASSERT_EQ(serve(buffer, kRaggedRecords, lengths).batches,
                cut(draws, c.options, lengths));
    }
}

std::vector<RaggedCase> automatic() {
  std::vector<RaggedCase> cases;
  for (const std::uint64_t records : {1, 3, 40}) {
    const std::uint64_t most = 24;
    const BufferOptions options =
        of_lengths_auto(48, 5, 9 * records * most * kTokenBytes);
    cases.push_back({options, most});
    cases.push_back({with(options, 60, 1), most});
    cases.push_back({with(options, 60, 1, Form::kPadded), most});
  }
  cases.push_back({of_lengths_auto(48, 48, 4 * 24 * kTokenBytes), 24});
  cases[0].options.prefetch = 2;
  return cases;
}

TEST(RaggedBuffer, ServesAllAsOftenAsAutoAllows) {
  for (RaggedCase& c : automatic())
    for (const std::uint32_t max_factor : {1, 2, 8}) {
      c.options.max_factor = max_factor;
      SCOPED_TRACE(name_of_lengths(c.options) + " up to " + std::to_string(max_factor));
      const LengthsOf lengths = some_lengths(c.most);
      Buffer buffer(c.options);
      for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
        if (epoch > 0) {
          ASSERT_EQ(buffer.reset(epoch), Status::kOk);
        }
        const std::uint64_t n = kRaggedRecords - epoch;
        const Epochs got = serve(buffer, n, lengths);
        for (const std::uint64_t times : uses(joined(got.batches), n)) {
          ASSERT_GE(times, 1u);
          ASSERT_LE(times, max_factor);
        }
        ASSERT_TRUE(got.after.back().epoch_done);
        Batch batch;
        ASSERT_EQ(buffer.next(batch, kAtOnce), Status::kFinished) << "once more";
      }
    }
}

TEST(RaggedBuffer, GoesOnFromEveryCheckpoint) {
  for (const RaggedCase& c : ragged_cases()) {
    SCOPED_TRACE(name_of_lengths(c.options));
    const LengthsOf lengths = some_lengths(c.most);
    Buffer first(c.options);
    const Epochs all = serve(first, kRaggedRecords, lengths);
    for (std::size_t i = 0; i < all.batches.size(); i += 1 + i / 5) {
      SCOPED_TRACE("after batch " + std::to_string(i));
      const std::vector<std::uint64_t> words = to_words(all.after[i], c.options);
      const Checkpoint point = from_words(words, c.options);
      if (!point.epoch_done) {
        ASSERT_EQ(to_words(point, c.options), words);
      }
      Buffer second(c.options);
      ASSERT_TRUE(second.restore(point));
      if (point.epoch_done) {
        ASSERT_EQ(i + 1, all.batches.size()) << "more was to come";
        continue;
      }
      const Epochs rest = serve(second, kRaggedRecords, lengths, point.fresh_offset());
      ASSERT_EQ(rest.batches,
                std::vector<Ids>(all.batches.begin() + static_cast<long>(i) + 1,
                                 all.batches.end()));
    }
  }
}

TEST(RaggedBuffer, GoesOnFromCheckpointsOfAuto) {
  for (RaggedCase& c : automatic()) {
    SCOPED_TRACE(name_of_lengths(c.options));
    c.options.prefetch = 0;
    const LengthsOf lengths = some_lengths(c.most);
    for (const std::size_t batches : {1, 2, 5}) {
      Buffer first(c.options), second(c.options);
      const Epochs got = serve(first, kRaggedRecords, lengths, 0, batches);
      ASSERT_EQ(got.batches.size(), batches);
      Ids draws = joined(got.batches);
      const std::vector<std::uint64_t> words =
          to_words(first.checkpoint(), first.options());
      const Checkpoint point = from_words(words, second.options());
      ASSERT_EQ(to_words(point, second.options()), words);
      ASSERT_FALSE(point.epoch_done);
      ASSERT_TRUE(second.restore(point));
      const Ids rest =
          joined(serve(second, kRaggedRecords, lengths, point.fresh_offset()).batches);
      draws.insert(draws.end(), rest.begin(), rest.end());
      for (const std::uint64_t times : uses(draws, kRaggedRecords)) {
        ASSERT_GE(times, 1u);
        ASSERT_LE(times, c.options.max_factor);
      }
    }
  }
}

TEST(RaggedBuffer, ServesTwoEpochsOfWhichTheNextIsOpenedAhead) {
  for (const RaggedCase& c : ragged_cases()) {
    SCOPED_TRACE(name_of_lengths(c.options));
    const LengthsOf lengths = some_lengths(c.most), others = some_lengths(c.most, 5);
    Buffer buffer(c.options);
    std::uint64_t fresh = 0, early = 0;
    std::vector<Ids> got[2];
    for (int epoch = 0; epoch < 2;) {
      const bool ahead = epoch == 0 && fresh == kRaggedRecords;
      if (!ahead) {
        std::uint64_t& at = epoch == 0 ? fresh : early;
        at = put_what_fits(buffer, at, kRaggedRecords, epoch == 0 ? lengths : others);
        if (at == kRaggedRecords) {
          buffer.close();
          if (epoch == 0) {
            ASSERT_TRUE(buffer.open_ahead(1));
          }
        }
      } else if (early < kRaggedRecords) {
        early = put_what_fits(buffer, early, kRaggedRecords, others);
        if (early == kRaggedRecords) buffer.close();
      }
      Batch batch;
      const Status status = promptly([&](Deadline deadline) {
        return buffer.next(batch, buffer.prefetches() && ahead ? deadline : kAtOnce);
      });
      if (status == Status::kOk) {
        got[epoch].push_back(
            read_batch(batch, c.options, epoch == 0 ? lengths : others));
      } else if (status == Status::kFinished) {
        if (epoch == 0) {
          ASSERT_TRUE(buffer.go_ahead());
        }
        ++epoch;
      }
    }
    EXPECT_GT(early, 0u);
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
      const LengthsOf& of = epoch == 0 ? lengths : others;
      ASSERT_EQ(got[epoch], cut(expected_draws(c.options, kRaggedRecords, epoch, of),
                                c.options, of));
    }
  }
}

TEST(RaggedBuffer, ForgetsWhatWasSetApartBeforeAReset) {
  for (const Form form : {Form::kPacked, Form::kPadded}) {
    const LengthsOf lengths = [](std::uint64_t) { return Lengths{24, 0}; };
    // A segment is a record, and a batch is of many: most are set apart.
    const BufferOptions options =
        with(of_lengths(64, 1, {2, 1}, 2 * 24 * kTokenBytes), 24 * 20, 1, form);
    Buffer buffer(options);
    std::uint64_t fresh = 0;
    Batch batch;
    while (fresh < 8) {
      fresh = put_what_fits(buffer, fresh, 8, lengths);
      ASSERT_EQ(buffer.next(batch, kAtOnce), Status::kTimeout);
    }
    ASSERT_EQ(buffer.reset(1), Status::kOk);
    ASSERT_EQ(serve(buffer, 100, lengths).batches,
              cut(expected_draws(options, 100, 1, lengths), options, lengths));
  }
}

TEST(RaggedBuffer, DropsNoBatchThatIsFullOfEmptyRecords) {
  // As many records as a batch has at most, and no more rows than `max_rows`.
  const BufferOptions options =
      with(of_lengths(16, 1, {1, 1}, 4096), 1000, 1, Form::kPacked, true);
  const LengthsOf lengths = [](std::uint64_t) { return Lengths{1, 0}; };
  Buffer buffer(options);
  EXPECT_EQ(serve(buffer, 100, lengths).batches.size(), 100u / 16);
}

TEST(RaggedBuffer, IsNotDoneWhileSegmentsThatLiveLongerAreToCome) {
  // Draws to come are at least the records to come, and may be many more.
  const LengthsOf lengths = [](std::uint64_t) { return Lengths{24, 0}; };
  for (std::uint64_t n = 30; n < 36; ++n) {
    BufferOptions options = of_lengths(16, 4, {7, 5}, 2 * 24 * kTokenBytes);
    options.drop_last = true;
    Buffer first(options);
    const Epochs all = serve(first, n, lengths);
    ASSERT_EQ(all.batches,
              cut(expected_draws(options, n, 0, lengths), options, lengths));
    for (std::size_t i = 0; i + 1 < all.after.size(); ++i)
      ASSERT_FALSE(all.after[i].epoch_done)
          << n << ": batch " << i + 1 << " is to come";
  }
}

TEST(RaggedBuffer, SaysThatOtherLengthsAreShort) {
  std::size_t refused = 0;
  for (const RaggedCase& c : ragged_cases()) {
    if (c.options.lengths.payload_bytes == 0 || c.options.prefetch > 0) continue;
    SCOPED_TRACE(name_of_lengths(c.options));
    // Of a segment each where they are as large as a share.
    const LengthsOf full = [&](std::uint64_t) { return Lengths{c.most, 0}; };
    const LengthsOf empty = [](std::uint64_t) { return Lengths{0, 0}; };
    for (const bool larger : {false, true}) {
      const LengthsOf& before = larger ? empty : full;
      const LengthsOf& after = larger ? full : empty;
      if (segments_of(c.options, 60, before) == segments_of(c.options, 60, after))
        continue;
      Buffer first(c.options), second(c.options);
      const Epochs got = serve(first, kRaggedRecords, before, 0, 3);
      const Checkpoint point = first.checkpoint();
      // A window that is left behind is not put again, and one record shows nothing.
      if (resident_end(point.sweep) < point.fresh_offset() + 2) continue;
      ASSERT_TRUE(second.restore(point));
      std::uint64_t fresh = point.fresh_offset();
      Batch batch;
      Status status = Status::kTimeout;
      for (int i = 0; i < 300 && status == Status::kTimeout; ++i) {
        fresh = put_what_fits(second, fresh, kRaggedRecords, after);
        status = second.next(batch, kAtOnce);
      }
      EXPECT_EQ(status, Status::kShort) << "larger " << larger;
      ++refused;
    }
  }
  EXPECT_GT(refused, 10u);
}

}  // namespace
