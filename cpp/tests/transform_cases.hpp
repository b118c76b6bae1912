// Random stages for the tests of the transforms: all operations, types and layouts.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "echobuf/transform/stage_executor.hpp"

namespace echobuf::transform::test {

using Bytes = std::vector<std::byte>;

class Dice {
 public:
  explicit Dice(std::uint32_t seed) : words_(seed) {}

  std::int32_t from(std::int32_t low, std::int32_t high) {
    return std::uniform_int_distribution<std::int32_t>(low, high)(words_);
  }
  bool coin() { return from(0, 1) != 0; }
  bool one_in(std::int32_t n) { return from(1, n) == 1; }
  double real(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(words_);
  }
  template <class T>
  T of(std::initializer_list<T> all) {
    return all.begin()[from(0, static_cast<std::int32_t>(all.size()) - 1)];
  }

 private:
  std::mt19937 words_;
};

inline std::uint32_t bytes_of(NumberType type) {
  constexpr std::uint32_t kBytes[] = {1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
  return kBytes[static_cast<std::uint32_t>(type)];
}

inline Layout layout_of(const Extent& extent, NumberType type, std::uint32_t bytes,
                        bool planar) {
  const std::int64_t width = extent.width;
  const std::int64_t channels = extent.channels;
  if (planar) return {extent, type, bytes, width, 1, extent.height * width};
  return {extent, type, bytes, width * channels, channels, 1};
}

/// Puts a stage together as `transforms/chain.py` does.
class StageMaker {
 public:
  explicit StageMaker(Dice& dice) : dice_(dice) {}

  /// A stage whose numbers are computed with, of `source`.
  Stage computing(const Layout& source) {
    begin(source);
    whole_ = source.type == NumberType::kUint8 && dice_.coin();
    add_maps(dice_.from(0, 2));
    stage_.before = stage_.count;
    if (dice_.coin()) add_core();
    if (stage_.core == Core::kNone) stage_.before = 0;
    add_maps(dice_.from(0, 2));
    stage_.after = stage_.count;
    add_changes(dice_.from(0, 4));
    const NumberType type = whole_
                                ? NumberType::kUint8
                                : dice_.of({NumberType::kFloat16, NumberType::kBfloat16,
                                            NumberType::kFloat32});
    stage_.target = layout_of(now_, type, bytes_of(type), dice_.coin());
    return stage_;
  }

  /// A stage that moves elements and erases a rectangle of them.
  Stage erasing(const Layout& source) {
    begin(source);
    whole_ = source.type == NumberType::kUint8;
    add_maps(dice_.from(0, 2));
    stage_.after = stage_.count;
    Erase op{0.8, {0.05, 0.7}, {-1, 1}, dice_.one_in(4) && !whole_ ? 1u : 0u, {}};
    for (float& value : op.value) value = static_cast<float>(filling());
    put(op);
    stage_.target = layout_of(now_, source.type, source.bytes, dice_.coin());
    return stage_;
  }

  /// A stage that moves elements, or hides tokens.
  Stage raw(const Layout& source, bool tokens) {
    begin(source);
    whole_ = true;
    fills_ = source.type != NumberType::kOther;
    add_maps(dice_.from(0, 3));
    stage_.after = stage_.count;
    stage_.raw = 1;
    if (tokens) {
      Mask op{0.5, 0.6, 0.3, 7, 100, dice_.coin() ? 1u : 0u, 3, 1, {5}};
      put(op);
    }
    stage_.target = layout_of(now_, source.type, source.bytes, dice_.coin());
    return stage_;
  }

 private:
  void begin(const Layout& source) {
    stage_ = {};
    stage_.source = source;
    stage_.fill = stage_.statistic = stage_.mix = -1;
    now_ = source.extent;
    filled_ = false;
    fills_ = true;
  }

  template <class Op>
  void put(const Op& op) {
    OpBlock& block = stage_.ops[stage_.count++];
    block.code = kCodeOf<Op>;
    block.number = static_cast<std::uint32_t>(dice_.from(0, 40));
    std::memcpy(block.settings, &op, sizeof op);
  }

  /// As the source's type has it: a border is read as if it lay in the image.
  double filling() {
    const bool bytes = stage_.source.bytes == 1 || stage_.raw != 0 || whole_;
    return bytes ? dice_.from(0, 120) : dice_.real(-2, 2);
  }

  void add_maps(std::int32_t count) {
    for (std::int32_t i = 0; i < count; ++i) {
      const std::int32_t which = dice_.from(0, 4);
      if (which <= 1) add_crop();
      if (which == 2 || which == 3)
        put(Flip{now_, dice_.coin() ? Axis::kRow : Axis::kColumn, 0.7});
      if (which == 4) {
        const std::int32_t rows = dice_.from(1, 12), columns = dice_.from(1, 40);
        put(Nearest{now_, rows, columns, dice_.coin() ? 1u : 0u});
        now_ = {rows, columns, now_.channels};
      }
    }
  }

  void add_crop() {
    Crop op{};
    op.in = now_;
    op.border = static_cast<Border>(dice_.from(filled_ || !fills_ ? 1 : 0, 3));
    const std::int32_t spare = op.border == Border::kReflect ? 1 : 0;
    const std::int32_t down = dice_.from(0, std::min(3, now_.height - spare));
    const std::int32_t right = dice_.from(0, std::min(9, now_.width - spare));
    op.height = dice_.from(1, now_.height + 2 * down);
    op.width = dice_.from(1, now_.width + 2 * right);
    op.top = -down;
    op.left = -right;
    op.tops = static_cast<std::uint32_t>(now_.height + 2 * down - op.height + 1);
    op.lefts = static_cast<std::uint32_t>(now_.width + 2 * right - op.width + 1);
    for (double& fill : op.fill) fill = filling();
    if (op.border == Border::kFill) {
      filled_ = true;
      stage_.fill = stage_.count;
    }
    put(op);
    now_ = {op.height, op.width, now_.channels};
  }

  void add_core() {
    const bool integer = stage_.source.type == NumberType::kUint8;
    if (dice_.one_in(3)) return add_neighbours(integer);
    if (dice_.coin()) {
      const std::int32_t rows = dice_.from(1, 12), columns = dice_.from(1, 70);
      stage_.core = Core::kResample;
      stage_.whole = integer ? Whole::kHalfUp : Whole::kNo;
      put(Resample{now_,
                   rows,
                   columns,
                   dice_.coin() ? 1u : 0u,
                   dice_.coin() ? 1u : 0u,
                   {0.05, 1.0},
                   {-0.7, 0.7},
                   dice_.coin() ? Filter::kTriangle : Filter::kCubic});
      now_ = {rows, columns, now_.channels};
      return;
    }
    stage_.core = Core::kWarp;
    stage_.whole = integer ? Whole::kHalfEven : Whole::kNo;
    if (dice_.coin()) return add_graded_warp();
    Warp op{now_,      dice_.coin() ? 1u : 0u, {-200, 200}, {2, 2}, {0.3, 2}, {-30, 30},
            {-20, 20}, {dice_.real(-4, 4), 0}, {}};
    for (float& fill : op.fill) fill = static_cast<float>(filling());
    put(op);
  }

  void add_graded_warp() {
    GradedWarp op{now_,
                  static_cast<std::uint32_t>(dice_.from(0, 2)),
                  static_cast<std::uint32_t>(dice_.from(0, GradedWarp::kRotate)),
                  {},
                  {3, 1, {0.2f, 1.5f, 20.0f}}};
    if (op.bilinear != 2)
      for (float& fill : op.fill) fill = static_cast<float>(filling());
    put(op);
  }

  /// A core that looks at neighbours, or a perspective.
  void add_neighbours(bool integer) {
    const std::int32_t which = dice_.from(0, 2);
    if (which == 0) {
      stage_.core = Core::kBlur;
      stage_.whole = integer ? Whole::kHalfEven : Whole::kNo;
      const std::int32_t down = dice_.from(0, std::min(12, now_.height - 1));
      const std::int32_t right = dice_.from(0, std::min(40, now_.width - 1));
      const double least = dice_.real(0.05, 3);
      return put(Blur{now_, {down, right}, {least, dice_.real(least, 30)}});
    }
    if (which == 1) {
      stage_.core = Core::kSharpen;
      stage_.whole = Whole::kNo;
      Sharpen op{now_, integer ? 1u : 0u, integer ? 255.0f : 1.0f, 0.8, {5, 0, {}}};
      op.levels.either_sign = dice_.coin() ? 1 : 0;
      for (float& level : op.levels.value)
        level = static_cast<float>(dice_.real(-1, 1));
      return put(op);
    }
    stage_.core = Core::kPerspective;
    stage_.whole = integer ? Whole::kHalfEven : Whole::kNo;
    Perspective op{
        now_, dice_.coin() ? 1u : 0u, 0.8, now_.height / 2 + 1, now_.width / 2 + 1, {}};
    for (float& fill : op.fill) fill = static_cast<float>(filling());
    put(op);
  }

  void add_changes(std::int32_t count) {
    const bool jitters = now_.channels == 1 || now_.channels == 3;
    if (stage_.core == Core::kNone && jitters && dice_.one_in(2)) add_statistic();
    if (stage_.statistic < 0 && jitters && dice_.one_in(4)) {
      const std::int32_t to = dice_.coin() ? 1 : 3;
      put(Grey{now_.channels == to ? 0.6 : 1.0,
               static_cast<std::uint32_t>(now_.channels),
               static_cast<std::uint32_t>(to), whole_ ? 1u : 0u});
      now_.channels = to;
    }
    for (std::int32_t i = 0; i < count; ++i)
      add_change(now_.channels == 1 || now_.channels == 3);
  }

  /// An operation that needs one of the image.
  void add_statistic() {
    stage_.statistic = stage_.count;
    const std::uint32_t integer = whole_ ? 1 : 0;
    const float white = whole_ ? 255.0f : 1.0f;
    const std::int32_t which = dice_.from(0, 3);
    if (which == 0) add_jitter(15);
    if (which == 1) put(AutoContrast{0.8, white, integer});
    if (which == 2) put(Equalize{0.8, integer});
    if (which == 3)
      put(GradedColor{
          now_, Jitter::kContrast, integer, white, {3, 1, {0.1f, 0.9f, 0.4f}}});
  }

  void add_tone(std::int32_t which) {
    const float white = whole_ ? 255.0f : 1.0f;
    if (which == 0) put(Invert{0.7, white});
    if (which == 1)
      put(Solarize{0.7,
                   white,
                   {2, 0, {0.3f * white, static_cast<float>(dice_.real(0, white))}}});
    if (which == 2) put(Posterize{0.7, whole_ ? 1u : 0u, {3, 0, {0, 3, 8}}});
  }

  void add_change(bool jitters) {
    if (dice_.one_in(2)) return add_tone(dice_.from(0, 2));
    const std::int32_t which = whole_ ? dice_.from(5, 8) : dice_.from(0, 9);
    if (which == 0) {
      Normalize op{static_cast<float>(dice_.real(0.001, 1)), {}, {}};
      for (int c = 0; c < kMostChannels; ++c) {
        op.mean[c] = static_cast<float>(dice_.real(-1, 1));
        op.deviation[c] = static_cast<float>(dice_.real(0.1, 2));
      }
      put(op);
    }
    if (which == 1) put(Scale{1.0f / 255.0f});
    if (which == 2)
      put(Round{dice_.coin() ? NumberType::kFloat16 : NumberType::kBfloat16});
    if (which == 3) put(Gain{-6, 6});
    if (which == 4) {
      const auto tallest = static_cast<double>(dice_.from(0, now_.height));
      put(Bands{2, 2, tallest, now_.width / 2.0, 0.25f});
    }
    const float most = whole_ ? 255.0f : 1.0f;
    const std::uint32_t integer = whole_ ? 1 : 0;
    if (which == 5)
      put(Noise{0.1f * most, 0.3f * most, most, dice_.coin() ? 1u : 0u, integer});
    if (which == 6) {
      Erase op{0.8, {0.1, 0.5}, {-1, 1}, whole_ || dice_.coin() ? 0u : 1u, {}};
      for (float& value : op.value) value = static_cast<float>(dice_.from(0, 255));
      put(op);
    }
    if (which == 7 && jitters) add_jitter(13);  // without the contrast
    if (which == 8 && stage_.mix < 0) {
      stage_.mix = stage_.count;
      put(Mix{now_, dice_.real(0.2, 3), whole_ || dice_.coin() ? 1u : 0u, 0});
    }
  }

  void add_jitter(std::uint32_t active) {
    put(Jitter{now_,
               {0.4, 0.4, 0.4, -0.5},
               {1.7, 1.7, 1.7, 0.5},
               active,
               whole_ ? 1u : 0u,
               whole_ ? 255.0f : 1.0f});
  }

  Dice& dice_;
  Stage stage_{};
  Extent now_{};
  bool whole_ = false;
  bool filled_ = false;
  bool fills_ = true;
};

/// An image of any numbers; floats are near 0 ... 1, or now and then anything.
inline Bytes make_image(const Layout& layout, Dice& dice) {
  Bytes bytes(static_cast<std::size_t>(layout.size()));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(dice.from(0, 255));
  const bool real =
      layout.type == NumberType::kFloat16 || layout.type == NumberType::kBfloat16 ||
      layout.type == NumberType::kFloat32 || layout.type == NumberType::kFloat64;
  if (!real) return bytes;
  constexpr float kMost = std::numeric_limits<float>::max();
  constexpr float kInf = std::numeric_limits<float>::infinity();
  const bool odd = dice.one_in(4);
  for (std::size_t at = 0; at < bytes.size(); at += layout.bytes) {
    float value = static_cast<float>(dice.real(-0.1, 1.1));
    if (odd && dice.one_in(10))
      value = dice.of({std::nanf(""), kInf, -kInf, kMost, -kMost, 1e-42f, -0.0f});
    store_number(layout.type, reinterpret_cast<std::uint64_t>(bytes.data() + at),
                 value);
  }
  return bytes;
}

}  // namespace echobuf::transform::test
