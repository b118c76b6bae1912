#include "echobuf/buffer/argument_checks.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "echobuf/buffer/checkpoint.hpp"
#include "support.hpp"

namespace {

using namespace echobuf;        // NOLINT(google-build-using-namespace)
using namespace echobuf::test;  // NOLINT(google-build-using-namespace)

/// The message of the error of this kind that the call throws.
template <class Error, class Call>
std::string thrown_by(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

void expect_says(const std::string& message, const char* part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

/// Two fields: four bytes, and three of eight.
struct Misused : testing::Test {
  Misused() : buffer(options()) {}

  static BufferOptions options() {
    BufferOptions options = numbered(16, 4, {1, 1});
    options.fields = {{4, 1}, {24, 1}};
    return options;
  }

  Status put() {
    const SourceLeaf leaves[] = {SourceLeaf::of(&label), SourceLeaf::of(point, 3)};
    return buffer.put(leaves);
  }

  /// All that there are: a batch.
  void put_four() {
    for (int i = 0; i < 4; ++i) ASSERT_EQ(put(), Status::kOk);
    buffer.close();
  }

  Buffer buffer;
  std::int32_t label = 7;
  double point[3] = {1, 2, 3};
};

TEST_F(Misused, FieldsThatABatchDoesNotHave) {
  put_four();
  Batch batch;
  ASSERT_EQ(buffer.next(batch), Status::kOk);
  EXPECT_EQ(buffer.field<std::int32_t>(batch, 0)[0], 7);
  EXPECT_EQ(buffer.field<std::uint8_t>(batch, 0)[0], 7);
  EXPECT_EQ(buffer.field<const double>(batch, 1)[11], 3.0);
  const auto asks = [&](std::size_t index) {
    return [&, index] { buffer.field<std::int32_t>(batch, index); };
  };
  expect_says(thrown_by<std::out_of_range>(asks(2)), "`index` is 2");
  expect_says(
      thrown_by<std::out_of_range>(asks(std::numeric_limits<std::size_t>::max())),
      "2 leaves");
  const auto wide = [&] { buffer.field<std::int64_t>(batch, 0); };
  expect_says(thrown_by<std::invalid_argument>(wide), "leaf 0 has 4 bytes");
}

TEST_F(Misused, BatchesWithoutMemory) {
  Batch batch;
  const auto asks = [&] { buffer.field<std::int32_t>(batch, 0); };
  expect_says(thrown_by<std::invalid_argument>(asks), "`batch` has no memory");
  put_four();
  ASSERT_EQ(buffer.next(batch), Status::kOk);
  const Batch kept = std::move(batch);
  EXPECT_EQ(buffer.field<std::int32_t>(kept, 0)[3], 7);
  expect_says(thrown_by<std::invalid_argument>(asks), "moved from");
}

TEST_F(Misused, PutsThatNoExampleCanBeReadFromPutNothing) {
  const auto puts = [&](const SourceLeaf* leaves) {
    return thrown_by<std::invalid_argument>([&, leaves] { buffer.put(leaves); });
  };
  expect_says(puts(nullptr), "`leaves` is null");
  const SourceLeaf null[] = {SourceLeaf::of(&label), {nullptr, 24}};
  expect_says(puts(null), "leaf 1 points to null");
  const SourceLeaf wide[] = {SourceLeaf::of(point), SourceLeaf::of(point, 3)};
  expect_says(puts(wide), "leaf 0 has 8 bytes an example, but its field 4");
  const SourceLeaf few[] = {SourceLeaf::of(&label), SourceLeaf::of(point)};
  expect_says(puts(few), "leaf 1 has 8 bytes an example, but its field 24");
  EXPECT_EQ(buffer.stats().fresh, 0u);
  const SourceLeaf spread[] = {{reinterpret_cast<const std::byte*>(&label), 1024},
                               SourceLeaf::of(point, 3)};
  EXPECT_EQ(buffer.put(spread), Status::kOk);  // whoever says a stride knows it
  std::uint64_t done = 0;
  EXPECT_EQ(buffer.put(buffer.term(), nullptr, 0, 0, done, kAtOnce, nullptr),
            Status::kOk);
}

TEST_F(Misused, TargetsThatPointNowhere) {
  put_four();
  std::vector<std::byte> memory(4 * 24);
  std::byte* leaves[] = {nullptr, memory.data()};
  Target none{nullptr};
  Target half{leaves};
  const auto draws = [&](Target& target) {
    return thrown_by<std::invalid_argument>(
        [&] { static_cast<void>(buffer.next_into(target, kAtOnce)); });
  };
  expect_says(draws(none), "`target.leaves` is null");
  expect_says(draws(half), "leaf 0 of `target` is null");
  std::vector<std::byte> labels(4 * 4);
  leaves[0] = labels.data();
  EXPECT_EQ(buffer.next_into(half, kAtOnce), Status::kOk);  // nothing was lost
  EXPECT_EQ(half.count, 4u);
}

TEST(Misuse, WholeBatchesOfTooManyExamples) {
  BufferOptions options = numbered(4, 1, {1, 1});
  options.lengths.examples = 3;
  options.fields = {{sizeof(double), 3}};
  Buffer buffer(options);
  const double rows[4] = {1, 2, 3, 4};
  const SourceLeaf leaf = SourceLeaf::of(rows, 4);
  const auto puts = [&] { static_cast<void>(buffer.put(&leaf, kAtOnce, 4)); };
  expect_says(thrown_by<std::invalid_argument>(puts), "`rows` is 4");
  EXPECT_EQ(buffer.put(&leaf, kAtOnce, 3), Status::kOk);
  const SourceLeaf one = SourceLeaf::of(rows);
  const auto more = [&] { static_cast<void>(buffer.put(&one, kAtOnce, 2)); };
  expect_says(thrown_by<std::invalid_argument>(more), "leaf 0 has 8 bytes");
}

TEST(Misuse, OptionsThatCannotWorkHaveNoNeeds) {
  BufferOptions none = numbered(8, 2, {1, 1});
  none.fields.clear();
  const auto makes = [&] { const Buffer buffer(none); };
  expect_says(thrown_by<std::invalid_argument>(makes), "`fields` is empty");
  BufferOptions nothing = numbered(8, 2, {1, 0});
  const auto asks = [&] { static_cast<void>(Buffer::needs(nothing)); };
  expect_says(thrown_by<std::invalid_argument>(asks), "`factor`");
  nothing = numbered(0, 2, {1, 1});
  expect_says(thrown_by<std::invalid_argument>(asks), "`window`");
}

TEST(Misuse, CheckpointsOfOtherOptions) {
  Buffer fixed(numbered(8, 2, {2, 1}));
  Buffer wide(numbered(64, 2, {2, 1}));
  Buffer automatic(numbered_auto(8, 2));
  for (Buffer* from : {&wide, &automatic}) {
    put_what_fits(*from, 0, 64);
    Batch batch;
    ASSERT_EQ(from->next(batch, kAtOnce), Status::kOk);
    const auto restores = [&] { static_cast<void>(fixed.restore(from->checkpoint())); };
    expect_says(thrown_by<std::invalid_argument>(restores), "restore");
    const auto writes = [&] { to_words(from->checkpoint(), fixed.options()); };
    expect_says(thrown_by<std::invalid_argument>(writes), "to_words");
  }
}

}  // namespace
