// The host computes row by row, bit for bit, the same as a thread of a kernel pixel by
// pixel, at every level of vector instructions.
#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "echobuf/transform/stage_executor.hpp"
#include "rounds.hpp"
#include "transform_cases.hpp"
#include "transform_pixels.hpp"

namespace echobuf::transform {
namespace {

using test::Bytes;
using test::Dice;
using test::expect_equal;
using test::Pixels;
using test::some_draw;
using test::some_extent;

/// A CPU of a lower level, while it lives.
class LowerLevel {
 public:
  explicit LowerLevel(CpuLevel level) { echobuf::detail::level_in_use() = level; }
  ~LowerLevel() { echobuf::detail::level_in_use() = detect_cpu_level(); }
};

std::vector<CpuLevel> levels() {
  std::vector<CpuLevel> all;
  for (const CpuLevel level : {CpuLevel::kBaseline, CpuLevel::kAvx2, CpuLevel::kAvx512})
    if (level <= detect_cpu_level()) all.push_back(level);
  return all;
}

std::string name_of(const Stage& stage, std::uint32_t seed, CpuLevel level) {
  std::ostringstream name;
  name << "case " << seed << ", level " << static_cast<int>(level) << ", operations";
  for (std::int32_t i = 0; i < stage.count; ++i)
    name << ' ' << static_cast<std::uint32_t>(stage.ops[i].code);
  return name.str();
}

/// The executor, at all levels, against pixel by pixel.
void check_stage(const Stage& stage, std::uint32_t seed, Dice& dice) {
  const Bytes own = test::make_image(stage.source, dice);
  const Bytes partner = test::make_image(stage.source, dice);
  const DrawNumber number = some_draw(dice);
  const Bytes want = Pixels(stage).make(number, own, partner);
  const Program program{{stage}};
  const bool past = dice.coin();
  for (const CpuLevel level : levels()) {
    const LowerLevel lower(level);
    StageExecutor executor(program, past ? streaming_copy() : nullptr);
    for (int again = 0; again < 2; ++again) {  // nothing is left of a draw before
      Bytes got(want.size(), std::byte{0xEE});
      executor.execute(number, own.data(), partner.data(), got.data());
      expect_equal(stage.target, got, want, name_of(stage, seed, level));
      DrawNumber other = number;
      ++other.draw;
      executor.execute(other, partner.data(), own.data(), got.data());
    }
    if (::testing::Test::HasFatalFailure()) return;
  }
}

constexpr std::uint32_t kCases = echobuf::test::rounds(1500);

TEST(TransformRows, NumbersAreThoseOfPixels) {
  for (std::uint32_t seed = 0; seed < kCases; ++seed) {
    Dice dice(seed);
    const auto type = dice.one_in(3)
                          ? static_cast<NumberType>(dice.from(0, 12))
                          : dice.of({NumberType::kUint8, NumberType::kFloat32});
    const Layout source =
        test::layout_of(some_extent(dice), type, test::bytes_of(type), dice.coin());
    check_stage(test::StageMaker(dice).computing(source), seed, dice);
    if (HasFatalFailure()) return;
  }
}

TEST(TransformRows, BytesThatMoveAreThoseOfPixels) {
  for (std::uint32_t seed = 0; seed < kCases; ++seed) {
    Dice dice(seed);
    const auto type = static_cast<NumberType>(dice.from(0, 12));
    const bool tokens = type >= NumberType::kUint8 && type <= NumberType::kInt64 &&
                        type != NumberType::kUint64 && dice.one_in(3);
    const Layout source =
        test::layout_of(some_extent(dice), type, test::bytes_of(type), dice.coin());
    check_stage(test::StageMaker(dice).raw(source, tokens), seed, dice);
    if (HasFatalFailure()) return;
  }
}

TEST(TransformRows, ErasedRectanglesAreThoseOfPixels) {
  for (std::uint32_t seed = 0; seed < kCases / 3; ++seed) {
    Dice dice(seed);
    const auto type = dice.of({NumberType::kUint8, NumberType::kUint8,
                               NumberType::kFloat32, NumberType::kFloat16});
    Extent extent = some_extent(dice);
    extent.height += dice.from(0, 20);
    const Layout source =
        test::layout_of(extent, type, test::bytes_of(type), dice.coin());
    check_stage(test::StageMaker(dice).erasing(source), seed, dice);
    if (HasFatalFailure()) return;
  }
}

TEST(TransformRows, ElementsOfAnySizeArriveWhole) {
  for (std::uint32_t bytes = 1; bytes <= 33; ++bytes) {
    Dice dice(bytes);
    const Layout source =
        test::layout_of({3, 5, 2}, NumberType::kOther, bytes, dice.coin());
    Stage stage{};
    stage.source = source;
    stage.target =
        test::layout_of(source.extent, NumberType::kOther, bytes, dice.coin());
    stage.raw = 1;
    stage.count = stage.after = 1;
    stage.fill = stage.statistic = stage.mix = -1;
    stage.ops[0].code = OpCode::kFlip;
    const Flip flip{source.extent, Axis::kColumn, 1.0};
    std::memcpy(stage.ops[0].settings, &flip, sizeof flip);
    const Bytes image = test::make_image(source, dice);
    const Program program{{stage}};
    Bytes got(image.size());
    StageExecutor(program, nullptr)
        .execute(some_draw(dice), image.data(), nullptr, got.data());
    for (std::int32_t y = 0; y < 3; ++y)
      for (std::int32_t x = 0; x < 5; ++x)
        for (std::int32_t c = 0; c < 2; ++c)
          ASSERT_EQ(std::memcmp(got.data() + stage.target.offset(y, x, c),
                                image.data() + source.offset(y, 4 - x, c), bytes),
                    0)
              << bytes << " bytes";
  }
}

TEST(TransformRows, RunsEndAtWhatIsOutside) {
  for (std::uint32_t seed = 0; seed < echobuf::test::rounds(2000); ++seed) {
    Dice dice(seed);
    std::vector<std::int32_t> source(static_cast<std::size_t>(dice.from(1, 12)));
    for (std::int32_t& index : source) index = dice.from(-1, 4);
    std::vector<transform::Run> runs;
    find_runs(source.data(), static_cast<std::int32_t>(source.size()), runs);
    std::vector<std::int32_t> found;
    for (const transform::Run& run : runs)
      for (std::int32_t i = 0; i < run.count; ++i) {
        const bool outside = run.source == kOutside;
        found.push_back(outside ? kOutside : run.source + i * run.step);
        if (!outside) {
          EXPECT_GE(found.back(), 0) << "case " << seed;
        }
      }
    ASSERT_EQ(found, source) << "case " << seed;
  }
}

}  // namespace
}  // namespace echobuf::transform
