// Boxes and points: the same random choices as the operations that they follow, and the
// map of pixels the other way round.
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <utility>

#include "echobuf/transform/warped_points.hpp"

namespace echobuf::transform {
namespace {

constexpr Extent kImage{37, 52, 3};
constexpr uint32_t kMinusOne = 0xBF800000u;
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

Words words(uint64_t draw) { return Words({{{7, 9}}, draw, 0}, 3); }

TEST(TransformPoints, ChooseAsTheOperationsOfPixels) {
  const Crop crop{kImage, 20, 30, -4, -2, 26, 27, Border::kFill, 0, {}};
  const CropPoints crops{crop, {1, kMinusOne}};
  const Flip flip{kImage, Axis::kColumn, 0.4};
  const FlipPoints flips{flip, {1, kMinusOne}};
  const NearestWindow window{kImage, 9, 8, {0.2, 1.0}, {-0.3, 0.3}};
  const WindowPoints windows{kImage, 9, 8, {0.2, 1.0}, {-0.3, 0.3}, {1, kMinusOne}};
  for (uint64_t draw = 0; draw < 300; ++draw) {
    EXPECT_EQ(crop.draw(words(draw)).top, crops.draw(words(draw)).top);
    EXPECT_EQ(crop.draw(words(draw)).left, crops.draw(words(draw)).left);
    EXPECT_EQ(flip.draw(words(draw)).on, flips.draw(words(draw)).on);
    const auto one = window.draw(words(draw));
    const auto other = windows.draw(words(draw));
    EXPECT_EQ(one.top, other.top);
    EXPECT_EQ(one.left, other.left);
    EXPECT_EQ(one.height, other.height);
    EXPECT_EQ(one.width, other.width);
  }
}

TEST(TransformPoints, AffineMapsAreThoseOfPixelsTheOtherWayRound) {
  const Warp warp{kImage,    0,         {-170, 170}, {9, 5}, {0.5, 2.0},
                  {-20, 30}, {-10, 15}, {3.5, -7},   {}};
  const WarpPoints points{warp, {0, kMinusOne}};
  const double middle_x = kImage.width / 2.0, middle_y = kImage.height / 2.0;
  for (uint64_t draw = 0; draw < 300; ++draw) {
    const auto back = warp.draw(words(draw));
    const auto ahead = points.draw(words(draw));
    for (const auto& [x, y] : {std::pair{0.0f, 0.0f}, {52.0f, 3.25f}, {17.5f, 30.0f}}) {
      const double u = ahead.x(x, y) - middle_x;
      const double v = ahead.y(x, y) - middle_y;
      EXPECT_NEAR(back.xx * u + back.xy * v + back.x0 + middle_x, x, 1e-4);
      EXPECT_NEAR(back.yx * u + back.yy * v + back.y0 + middle_y, y, 1e-4);
    }
  }
}

/// A point goes to where the pixels of an image that has `op` are taken from it.
template <class Op, class Points>
void expect_inverse(const Op& op, const Points& points) {
  for (uint64_t draw = 0; draw < 300; ++draw) {
    const auto back = op.draw(words(draw));
    const auto ahead = points.draw(words(draw));
    for (const auto& [x, y] : {std::pair{0.0f, 0.0f}, {51.0f, 3.25f}, {17.5f, 30.0f}}) {
      // Of an affine map, from where it takes three pixels next to the place.
      const float u = ahead.x(x, y), v = ahead.y(x, y);
      const int32_t column = exact::floor_int(u), row = exact::floor_int(v);
      const auto corner = op.origin(back, row, column);
      const auto right = op.origin(back, row, column + 1);
      const auto below = op.origin(back, row + 1, column);
      const float across = u - (static_cast<float>(column) + 0.5f);
      const float down = v - (static_cast<float>(row) + 0.5f);
      EXPECT_NEAR(
          corner.x + 0.5f + across * (right.x - corner.x) + down * (below.x - corner.x),
          x, 1e-3);
      EXPECT_NEAR(
          corner.y + 0.5f + across * (right.y - corner.y) + down * (below.y - corner.y),
          y, 1e-3);
    }
  }
}

TEST(TransformPoints, GradedWarpsAreThoseOfPixelsTheOtherWayRound) {
  const Levels levels{4, 1, {0.0f, 0.3f, 0.9f, 2.5f}};
  for (uint32_t kind = GradedWarp::kShearX; kind <= GradedWarp::kRotate; ++kind) {
    SCOPED_TRACE(kind);
    const GradedWarp warp{kImage, 0, kind, {}, levels};
    expect_inverse(warp, GradedWarpPoints{warp, {0, kMinusOne}});
  }
}

TEST(TransformPoints, MovedCornersTakeThoseOfTheImageWithThem) {
  const Perspective image{kImage, 0, 0.7, 13, 19, {}};
  const PerspectivePoints points{image, {0, kMinusOne}};
  const float right = kImage.width - 1, bottom = kImage.height - 1;
  int moved = 0;
  for (uint64_t draw = 0; draw < 300; ++draw) {
    const auto back = image.draw(words(draw));
    const auto ahead = points.draw(words(draw));
    ASSERT_EQ(back.on, ahead.on);
    if (ahead.on == 0) continue;
    ++moved;
    Words from = words(draw);
    from.word();
    const Corners to = image.corners(from);
    const float xs[4] = {0, right, right, 0}, ys[4] = {0, 0, bottom, bottom};
    for (int i = 0; i < 4; ++i) {
      EXPECT_NEAR(ahead.x(xs[i], ys[i]), to.x[i], 1e-4);
      EXPECT_NEAR(ahead.y(xs[i], ys[i]), to.y[i], 1e-4);
    }
    // The way back, from a whole place.
    const auto origin = image.origin(back, 20, 25);
    const float x = ahead.x(origin.x + 0.5f, origin.y + 0.5f);
    const float y = ahead.y(origin.x + 0.5f, origin.y + 0.5f);
    EXPECT_NEAR(x, 25.5f, 1e-2);
    EXPECT_NEAR(y, 20.5f, 1e-2);
  }
  EXPECT_GT(moved, 150);
}

TEST(TransformPoints, RowsOfAnImageThatStaysAreNotClipped) {
  const Extent line{37, 1, 3};  // whose corners lie on a line
  const PerspectivePoints never{{kImage, 0, 0.0, 13, 19, {}}, {1, kMinusOne}};
  const PerspectivePoints flat{{line, 0, 1.0, 13, 1, {}}, {1, kMinusOne}};
  for (const auto& op : {never, flat}) {
    float v[4] = {-3, 2, 99, 12};
    op.pixel(op.draw(words(1)), v, {});
    EXPECT_EQ(v[0], -3.0f);
    EXPECT_EQ(v[2], 99.0f);
  }
}

TEST(TransformPoints, ABoxWithANaNIsLostInEveryOperation) {
  const WarpPoints turn{
      {kImage, 0, {20, 20}, {0, 0}, {1, 1}, {0, 0}, {0, 0}, {0, 0}, {}},
      {1, kMinusOne}};
  const CropPoints crop{{kImage, 20, 30, 0, 0, 18, 23, Border::kFill, 0, {}},
                        {1, kMinusOne}};
  const PerspectivePoints corners{{kImage, 0, 1.0, 9, 9, {}}, {1, kMinusOne}};
  const Levels levels{1, 0, {30.0f}};
  const GradedWarpPoints graded{{kImage, 0, GradedWarp::kRotate, {}, levels},
                                {1, kMinusOne}};
  const SanitizePoints end{kImage, 1.0f, {1, kMinusOne}};
  for (int k = 0; k < 4; ++k) {
    const auto lost = [&](const auto& op) {
      float v[4] = {1, 2, 11, 12};
      v[k] = kNaN;
      op.pixel(op.draw(words(1)), v, {});
      for (const float number : v) EXPECT_EQ(number, -1.0f) << k;
    };
    lost(turn);
    lost(crop);
    lost(corners);
    lost(graded);
    lost(end);
  }
}

TEST(TransformPoints, RowsThatAreMarkedStaySo) {
  for (const uint32_t mark : {kMinusOne, exact::bits(kNaN), exact::bits(5.0f)}) {
    const FlipPoints flip{{kImage, Axis::kRow, 1.0}, {1, mark}};
    const ResizePoints resize{kImage, 5, 6, {1, mark}};
    const float number = exact::float_of(mark);
    float v[4] = {number, number, number, number};
    flip.pixel(flip.draw(words(1)), v, {});
    resize.pixel(resize.draw(words(1)), v, {});
    for (const float each : v) EXPECT_EQ(exact::bits(each), mark);
  }
}

TEST(TransformPoints, TheLeastSizeIsOfBoxesAtTheEnd) {
  const SanitizePoints end{kImage, 2.0f, {1, kMinusOne}};
  float small[4] = {50.5f, 3, 60, 30};  // 1.5 columns are left of it
  float large[4] = {50, -9, 60, 30};
  end.pixel({}, small, {});
  end.pixel({}, large, {});
  EXPECT_EQ(small[0], -1.0f);
  EXPECT_EQ(large[0], 50.0f);
  EXPECT_EQ(large[1], 0.0f);
  EXPECT_EQ(large[2], 52.0f);
}

}  // namespace
}  // namespace echobuf::transform
