#include "echobuf/buffer/checkpoint.hpp"

#include <gtest/gtest.h>

#include <iterator>
#include <optional>
#include <random>
#include <stdexcept>

#include "ragged_support.hpp"
#include "support.hpp"

namespace {

using namespace echobuf;        // NOLINT(google-build-using-namespace)
using namespace echobuf::test;  // NOLINT(google-build-using-namespace)
using Words = std::vector<std::uint64_t>;

const BufferOptions kKept[] = {numbered(64, 8, {3, 1}), numbered(64, 8, {5, 2}),
                               numbered_auto(64, 8)};

class KeptCheckpoint : public testing::TestWithParam<BufferOptions> {};
INSTANTIATE_TEST_SUITE_P(Checkpoint, KeptCheckpoint, testing::ValuesIn(kKept));

/// Some batches of an epoch of 200, and the checkpoint after them.
Ids begin(Buffer& buffer, std::size_t batches, Words& words) {
  Ids draws, ids;
  std::uint64_t fresh = 0;
  while (batches > 0) {
    fresh = put_what_fits(buffer, fresh, 200);
    if (next(buffer, ids, kAtOnce) != Status::kOk) continue;
    draws.insert(draws.end(), ids.begin(), ids.end());
    --batches;
  }
  words = to_words(buffer.checkpoint(), buffer.options());
  return draws;
}

TEST_P(KeptCheckpoint, IsRefusedWhenCutOffOrTooLong) {
  Buffer buffer(GetParam());
  Words words;
  begin(buffer, 3, words);
  for (std::size_t size = 0; size < words.size(); ++size)
    EXPECT_THROW(from_words({words.begin(), words.begin() + static_cast<long>(size)},
                            GetParam()),
                 std::invalid_argument);
  words.push_back(1);
  EXPECT_THROW(from_words(words, GetParam()), std::invalid_argument);
}

/// Numbers at which arithmetic goes wrong, and those near `word`.
std::uint64_t odd_word(std::uint64_t word, std::mt19937_64& random) {
  const std::uint64_t shift = random() % 64;
  const std::uint64_t choices[] = {0,
                                   1,
                                   ~std::uint64_t{0},
                                   word - 1,
                                   word + 1,
                                   std::uint64_t{1} << shift,
                                   random(),
                                   ~word,
                                   word + (random() % 40) - 20,
                                   word * 2,
                                   word + (std::uint64_t{1} << shift)};
  return choices[random() % std::size(choices)];
}

TEST_P(KeptCheckpoint, OfAnyWordsIsRefusedOrServedToItsEnd) {
  std::mt19937_64 random(7);
  Words base[4];
  const std::size_t batches[] = {1, 5, 13, 20};
  for (int i = 0; i < 4; ++i) {
    Buffer buffer(GetParam());
    begin(buffer, batches[i], base[i]);
  }
  const std::size_t options = detail::words_of(GetParam()).size();
  int accepted = 0;
  for (std::uint64_t turn = 0; turn < rounds(8'000); ++turn) {
    Words words = base[turn % 4];
    for (std::uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
      std::uint64_t& word = words[options + random() % (words.size() - options)];
      word = odd_word(word, random);
    }
    Buffer buffer(GetParam());
    std::optional<Checkpoint> point;
    try {
      point = from_words(words, buffer.options());
    } catch (const std::invalid_argument&) {
      continue;
    }
    ++accepted;
    ASSERT_TRUE(buffer.restore(*point));
    const std::uint64_t first = point->fresh_offset();
    const std::uint64_t end = point->epoch_done ? 0 : resident_end(point->sweep);
    const std::uint64_t n = point->epoch_done ? 5 : point->total.value_or(end + 5);
    if (n - first > 1000) continue;  // of an upstream that is long
    // It says so itself if nothing goes on.
    ASSERT_LE(joined(serve(buffer, n, first).batches).size(), 10'000u);
    ASSERT_FALSE(testing::Test::HasFailure()) << testing::PrintToString(words);
  }
  EXPECT_GT(accepted, 40);
}

TEST(KeptCheckpointExtremes, PassesThatNoRingComesToAreRefused) {
  for (const BufferOptions& options : kKept) {
    Buffer buffer(options);
    Words words;
    begin(buffer, 3, words);
    const std::size_t pass = detail::words_of(options).size() + 4;
    for (const std::uint64_t far : {~0ULL, ~0ULL - 1, 1ULL << 63, 1ULL << 48}) {
      words[pass] = far;
      EXPECT_THROW(from_words(words, options), std::invalid_argument);
    }
  }
}

// ---- records that differ in length

const BufferOptions kKeptLengths[] = {of_lengths(24, 7, {3, 1}, 3 * 120),
                                      of_lengths(24, 7, {5, 2}, 3 * 120),
                                      of_lengths_auto(48, 5, 9 * 120)};

class KeptLengths : public testing::TestWithParam<BufferOptions> {};
INSTANTIATE_TEST_SUITE_P(Checkpoint, KeptLengths, testing::ValuesIn(kKeptLengths));

/// Goes on from words that may be damaged: every call returns, and nothing is read that
/// is not there. Says whether they were taken.
bool goes_on(const Words& words, const BufferOptions& options,
             const LengthsOf& lengths) {
  Buffer buffer(options);
  try {
    const Checkpoint point = from_words(words, options);
    if (!buffer.restore(point)) return false;
    std::uint64_t fresh = point.fresh_offset();
    const std::uint64_t end = fresh + 300;
    Batch batch;
    for (bool moves = true; moves;) {
      const std::uint64_t before = fresh;
      fresh = put_what_fits(buffer, fresh, end, lengths);
      if (fresh == end) buffer.close();
      moves = fresh != before;
      Status status = Status::kOk;
      while ((status = buffer.next(batch, kAtOnce)) == Status::kOk) {
        read_batch(batch, options, lengths);
        static_cast<void>(buffer.checkpoint());
        moves = true;
      }
      if (status == Status::kShort || status == Status::kFinished) return true;
      EXPECT_TRUE(moves) << "waits for records for which there is no room";
    }
    return true;
  } catch (const std::invalid_argument&) {
    return false;
  }
}

TEST_P(KeptLengths, GoesOnOrIsRefusedWhereDamaged) {
  const BufferOptions& options = GetParam();
  const LengthsOf lengths = some_lengths(24);
  std::size_t refused = 0, taken = 0;
  for (const std::size_t batches : {1, 4, 9}) {
    Buffer buffer(options);
    serve(buffer, 200, lengths, 0, batches);
    const Words words = to_words(buffer.checkpoint(), options);
    ASSERT_TRUE(goes_on(words, options, lengths));
    for (std::size_t i = 0; i < words.size(); ++i)
      for (const std::uint64_t other :
           {words[i] + 1, words[i] - 1, words[i] * 2 + 5, std::uint64_t{0},
            std::uint64_t{1} << 40, std::uint64_t{1} << 48, ~std::uint64_t{0}}) {
        if (other == words[i]) continue;
        SCOPED_TRACE("word " + std::to_string(i) + " is " + std::to_string(other));
        Words damaged = words;
        damaged[i] = other;
        (goes_on(damaged, options, lengths) ? taken : refused) += 1;
      }
  }
  EXPECT_GT(refused, taken) << "most damage shows";
}

TEST_P(KeptLengths, IsRefusedWhereTheWindowIsLargerThanTheRing) {
  const BufferOptions& options = GetParam();
  const LengthsOf lengths = some_lengths(24);
  Buffer buffer(options);
  serve(buffer, 200, lengths, 0, 4);
  Words words = to_words(buffer.checkpoint(), options);
  const std::size_t end = detail::words_of(options).size() + 7;
  ASSERT_EQ(words[end + 1], oldest_record(buffer.checkpoint().sweep));
  words[end] = words[end + 1] + ring_capacity(options) + 1;
  EXPECT_THROW(from_words(words, options), std::invalid_argument);
}

}  // namespace
