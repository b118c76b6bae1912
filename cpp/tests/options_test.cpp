#include "echobuf/options.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>

#include "ragged_support.hpp"
#include "support.hpp"

namespace {

using namespace echobuf;        // NOLINT(google-build-using-namespace)
using namespace echobuf::test;  // NOLINT(google-build-using-namespace)

struct Wrong {
  const char* names;  // the option that the message must name
  std::function<void(BufferOptions&)> spoil;
};

const Wrong kWrong[] = {
    {"`factor`", [](auto& o) { o.factor = {1, 2}; }},
    {"`factor`", [](auto& o) { o.factor = {1, 0}; }},
    {"`factor`", [](auto& o) { o.factor = {10, 4}; }},
    {"`window`", [](auto& o) { o.window = 0; }},
    {"`window`", [](auto& o) { o.window = std::uint64_t{1} << 31; }},
    {"`window`", [](auto& o) { o.factor = {61, 1}; }},
    {"`batch_size`", [](auto& o) { o.batch_size = 0; }},
    {"`batch_size`", [](auto& o) { o.batch_size = 61; }},
    {"`batch_size`",
     [](auto& o) {
       o.factor = {5, 2};
       o.batch_size = 41;
     }},
    {"`batch_size`", [](auto& o) { o.lengths.examples = 3; }},
    {"`max_factor`",
     [](auto& o) {
       o.automatic = true;
       o.max_factor = 0;
     }},
};

class WrongOptions : public testing::TestWithParam<Wrong> {};
INSTANTIATE_TEST_SUITE_P(Options, WrongOptions, testing::ValuesIn(kWrong));

TEST_P(WrongOptions, AreRefusedByName) {
  BufferOptions options = numbered(60, 20, {2, 1});
  EXPECT_NO_THROW(Buffer{options});
  GetParam().spoil(options);
  try {
    const Buffer buffer(options);
    FAIL() << "taken";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find(GetParam().names), std::string::npos)
        << error.what();
  }
}

const Wrong kWrongLengths[] = {
    {"`payload_bytes`", [](auto& o) { o.lengths.payload_bytes = 0; }},
    {"`payload_bytes`", [](auto& o) { o.lengths.payload_bytes = 1; }},
    {"`max_length`",
     [](auto& o) {
       o.lengths.payload_bytes = 0;
       o.lengths.fields[0].max_length = 9;
     }},
    {"`window`", [](auto& o) { o.window = std::uint64_t{1} << 23; }},
    {"`pad_to`", [](auto& o) { o.lengths.pad_to = 0; }},
    {"`pad`", [](auto& o) { o.lengths.fields[0].pad.resize(3); }},
    {"`lengths`", [](auto& o) { o.lengths.fields[1].field = 3; }},
    {"`lengths`", [](auto& o) { o.lengths.fields[1].field = 1; }},
    {"`lengths`", [](auto& o) { o.lengths.fields[1].row_bytes = 0; }},
    {"`lengths`", [](auto& o) { o.shared = true; }},
    {"`examples`",
     [](auto& o) {
       o.batch_size = 1;
       o.lengths.examples = 3;
       o.fields[0].rows = 4;
     }},
    {"`max_rows`",
     [](auto& o) {
       o.batch_size = 1;
       o.lengths.examples = 3;
       o.lengths.max_rows = 9;
     }},
};

class WrongLengthOptions : public testing::TestWithParam<Wrong> {};
INSTANTIATE_TEST_SUITE_P(Options, WrongLengthOptions, testing::ValuesIn(kWrongLengths));

TEST_P(WrongLengthOptions, AreRefusedByName) {
  BufferOptions options = of_lengths(60, 20, {2, 1}, 4096);
  EXPECT_NO_THROW(Buffer{options});
  GetParam().spoil(options);
  try {
    const Buffer buffer(options);
    FAIL() << "taken";
  } catch (const std::invalid_argument& error) {
    EXPECT_NE(std::string(error.what()).find(GetParam().names), std::string::npos)
        << error.what();
  }
}

TEST(Options, OfTheLargestBatchServe) {
  for (const Ratio factor : {Ratio{1, 1}, Ratio{4, 1}, Ratio{5, 2}, Ratio{29, 7}}) {
    BufferOptions options = numbered(60, 1, factor);
    options.batch_size = options.largest_batch();
    Buffer buffer(options);
    const Ids draws = joined(serve(buffer, 500).batches);
    const std::uint64_t phase = epoch_phase(factor, options.seed, options.epoch);
    EXPECT_EQ(draws.size(), FixedSchedule(60, factor, phase).total_draws(500));
  }
}

}  // namespace
