// Programs of many stages: alternatives, clips, and images that share memory. The
// executor makes what each stage, pixel by pixel, makes of images that share none.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "transform_cases.hpp"
#include "transform_pixels.hpp"

namespace echobuf::transform {
namespace {

using test::Bytes;
using test::Dice;
using test::Pixels;

/// Puts stages together whose images have numbers of their own.
class ProgramMaker {
 public:
  explicit ProgramMaker(Dice& dice) : dice_(dice) {}

  std::vector<Stage> make() {
    const NumberType type = dice_.of({NumberType::kUint8, NumberType::kFloat32});
    Extent extent = test::some_extent(dice_);
    extent.width = std::min(extent.width, 40);
    frames_ = dice_.from(1, 4);
    frame_ = test::layout_of(extent, type, test::bytes_of(type), dice_.coin());
    const std::int32_t windows = dice_.from(0, 2);
    std::int32_t rows = frames_ + dice_.from(0, 3);
    if (windows == 0) rows = frames_;
    for (std::int32_t i = 0; i < windows; ++i) {
      const std::int32_t left = i + 1 == windows ? frames_ : dice_.from(frames_, rows);
      window(rows, left);
      rows = left;
    }
    const std::int32_t levels = dice_.from(1, 4);
    for (std::int32_t i = 0; i < levels; ++i) level(i + 1 == levels);
    return std::move(stages_);
  }

 private:
  /// Frames that follow each other: of all of them, as rows. Two alternatives.
  void window(std::int32_t rows, std::int32_t left) {
    const auto columns = static_cast<std::int32_t>(frame_.size() / frame_.bytes);
    const auto as_rows = [&](std::int32_t count) {
      return test::layout_of({count, columns, 1}, frame_.type, frame_.bytes, false);
    };
    Crop crop{};
    crop.in = as_rows(rows).extent;
    crop.height = left;
    crop.width = columns;
    crop.tops = static_cast<std::uint32_t>(rows - left + 1);
    crop.lefts = 1;
    crop.border = Border::kEdge;
    Stage stage = bare(as_rows(rows), as_rows(left));
    put(stage, crop);
    const std::int32_t from = now_;
    const std::int32_t to = next_++;
    if (dice_.coin()) {
      add(stage, from, to, {});
    } else {
      const auto [one, other] = choice();
      add(stage, from, to, {one});
      put(stage, Flip{crop.out(), Axis::kRow, 0.8});
      add(stage, from, to, {other});
    }
    now_ = to;
  }

  /// A stage, or alternatives, which have one result.
  void level(bool last) {
    Stage stage = dice_.one_in(5) ? test::StageMaker(dice_).raw(frame_, false)
                                  : test::StageMaker(dice_).computing(frame_);
    if (!last && stage.mix >= 0) {
      stage.count = stage.mix;
      stage.mix = -1;
    }
    if (last && stage.mix < 0 && stage.raw == 0 && dice_.coin()) add_mix(stage);
    stage.frames = frames_;
    const std::int32_t from = now_;
    const std::int32_t to = last ? kLeaf : next_++;
    if (dice_.one_in(3)) {
      add(stage, from, to, {});
    } else {
      const auto [one, other] = choice();
      branch(stage, from, to, {one});
      for (OpBlock& op : stage.ops) op.number += 41;
      if (dice_.coin()) {
        branch(stage, from, to, {other});
      } else {  // a choice within the alternative
        const auto [inner, outer] = choice();
        branch(stage, from, to, {other, inner});
        for (OpBlock& op : stage.ops) op.number += 41;
        branch(stage, from, to, {other, outer});
      }
    }
    now_ = to;
    frame_ = stage.target;
  }

  /// The stage, behind others whose images only it reads. A mix stands alone in its
  /// branch, since its partner may be in another one.
  void branch(const Stage& stage, std::int32_t from, std::int32_t to,
              const std::vector<Gate>& gates) {
    for (std::int32_t more = stage.mix < 0 ? dice_.from(0, 2) : 0; more > 0; --more) {
      Stage flip = bare(frame_, frame_);
      flip.frames = frames_;
      put(flip, Flip{frame_.extent, dice_.coin() ? Axis::kRow : Axis::kColumn, 0.6});
      add(flip, from, next_, gates);
      from = next_++;
    }
    add(stage, from, to, gates);
  }

  /// A box of the partner, last of all.
  static void add_mix(Stage& stage) {
    const Mix mix{stage.target.extent, 1.0, 1, 0};
    stage.mix = stage.count;
    OpBlock& block = stage.ops[stage.count++];
    block.code = OpCode::kMix;
    block.number = 39;
    std::memcpy(block.settings, &mix, sizeof mix);
  }

  /// Gates of which one is open.
  std::pair<Gate, Gate> choice() {
    const auto number = static_cast<std::uint32_t>(dice_.from(200, 240));
    if (dice_.coin()) {
      const auto at = static_cast<std::uint32_t>(dice_.from(0, 1));
      return {{number, 2, at, 0, 0, 0}, {number, 2, at, 1, 0, 0}};
    }
    const double bound = dice_.real(0.2, 0.8);
    return {{number, 0, 0, 0, 0.0, bound}, {number, 0, 0, 0, bound, 1.0}};
  }

  static Stage bare(const Layout& source, const Layout& target) {
    Stage stage{};
    stage.source = source;
    stage.target = target;
    stage.raw = 1;
    stage.fill = stage.statistic = stage.mix = -1;
    return stage;
  }

  template <class Op>
  void put(Stage& stage, const Op& op) {
    OpBlock& block = stage.ops[stage.count++];
    stage.after = stage.count;
    block.code = kCodeOf<Op>;
    block.number = static_cast<std::uint32_t>(dice_.from(0, 40));
    std::memcpy(block.settings, &op, sizeof op);
  }

  void add(Stage stage, std::int32_t from, std::int32_t to,
           const std::vector<Gate>& gates) {
    stage.from = from;
    stage.to = to;
    for (const Gate& gate : gates) stage.gates.gate[stage.gates.count++] = gate;
    stages_.push_back(stage);
  }

  Dice& dice_;
  std::vector<Stage> stages_;
  Layout frame_{};
  std::int32_t frames_ = 1;
  std::int32_t now_ = kRecord;
  std::int32_t next_ = 0;
};

/// Marks the stages whose images a mix sees.
void mark_doubled(std::vector<Stage>& stages) {
  std::set<std::int32_t> seen;
  for (std::size_t i = stages.size(); i-- > 0;) {
    Stage& stage = stages[i];
    stage.doubled = stage.to != kLeaf && seen.count(stage.to) != 0 ? 1 : 0;
    if (stage.mix >= 0 || stage.doubled != 0) seen.insert(stage.from);
  }
}

/// Lets images share memory, one after another, as `transforms/lowering.py` does.
std::vector<Stage> sharing(std::vector<Stage> stages) {
  std::map<std::int32_t, std::size_t> last_read;
  std::set<std::int32_t> whole;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    last_read[stages[i].from] = i;
    if (stages[i].frames == 1) whole.insert(stages[i].to);
  }
  // All frames of these are read one by one, each with the stages behind.
  for (const Stage& stage : stages)
    if (stage.frames > 1 && whole.count(stage.from) != 0)
      last_read[stage.from] = stages.size();
  std::map<std::int32_t, std::int32_t> memory = {{kRecord, kRecord}};
  std::vector<std::size_t> free_from;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    if (memory.count(stages[i].to) != 0) continue;
    std::size_t number = 0;
    while (number < free_from.size() && free_from[number] >= i) ++number;
    if (number == free_from.size()) free_from.emplace_back();
    free_from[number] = last_read[stages[i].to];
    memory[stages[i].to] = static_cast<std::int32_t>(number);
  }
  for (Stage& stage : stages) {
    stage.from = memory.at(stage.from);
    stage.to = memory.at(stage.to);
  }
  return stages;
}

/// Makes all frames of an image before the next image.
class Reference {
 public:
  explicit Reference(const std::vector<Stage>& stages) : stages_(stages) {}

  Bytes make(const DrawNumber& number, const Bytes& record, const Bytes& partner) {
    own_ = {{kRecord, record}};
    others_ = {{kRecord, partner}};
    Bytes leaf;
    for (const Stage& stage : stages_) {
      if (stage.gates.open(number, false)) {
        Bytes made = all_frames(stage, number, own_[stage.from], others_[stage.from]);
        (stage.to == kLeaf ? leaf : own_[stage.to]) = std::move(made);
      }
      if (stage.doubled != 0 && stage.gates.open(number, true)) {
        const Bytes& image = others_[stage.from];
        others_[stage.to] = all_frames(test::as_partner(stage), number, image, image);
      }
    }
    return leaf;
  }

 private:
  static Bytes all_frames(const Stage& stage, DrawNumber number, const Bytes& own,
                          const Bytes& partner) {
    Bytes made;
    for (std::int32_t frame = 0; frame < stage.frames; ++frame) {
      number.first_element = stage.first_element(static_cast<std::uint32_t>(frame));
      const Bytes one = Pixels(stage).make(number, frame_of(stage, frame, own),
                                           frame_of(stage, frame, partner));
      made.insert(made.end(), one.begin(), one.end());
    }
    return made;
  }

  /// The partner's image is there for mixes only.
  static Bytes frame_of(const Stage& stage, std::int32_t frame, const Bytes& image) {
    const auto size = static_cast<std::ptrdiff_t>(stage.source.size());
    if (image.empty()) return Bytes(static_cast<std::size_t>(size));
    return {image.begin() + frame * size, image.begin() + (frame + 1) * size};
  }

  const std::vector<Stage>& stages_;
  std::map<std::int32_t, Bytes> own_;
  std::map<std::int32_t, Bytes> others_;
};

/// A record of as many frames as the program reads.
Bytes make_record(const Stage& first, Dice& dice) {
  Bytes record;
  for (std::int32_t frame = 0; frame < first.frames; ++frame) {
    const Bytes one = test::make_image(first.source, dice);
    record.insert(record.end(), one.begin(), one.end());
  }
  return record;
}

TEST(TransformPrograms, RandomOnesMakeWhatTheirStagesMake) {
  int clips = 0, windows = 0, shared = 0, mixed = 0;
  for (std::uint32_t seed = 0; seed < 300; ++seed) {
    Dice dice(seed);
    std::vector<Stage> stages = ProgramMaker(dice).make();
    mark_doubled(stages);
    const Program program{sharing(stages)};
    const Bytes own = make_record(stages[0], dice);
    const Bytes partner = make_record(stages[0], dice);
    StageExecutor executor(program, dice.coin() ? streaming_copy() : nullptr);
    DrawNumber number = test::some_draw(dice);
    for (int again = 0; again < 4; ++again, ++number.draw) {
      const Bytes want = Reference(stages).make(number, own, partner);
      ASSERT_EQ(program.bytes(), want.size()) << "case " << seed;
      Bytes got(want.size(), std::byte{0xEE});
      executor.execute(number, own.data(), partner.data(), got.data());
      test::expect_equal(program.stages.back().target, got, want,
                         "case " + std::to_string(seed));
      if (HasFatalFailure()) return;
    }
    std::set<std::int32_t> images;
    for (const Stage& stage : stages) images.insert(stage.to);
    clips += stages.back().frames > 1;
    windows += stages[0].frames == 1 && stages.back().frames > 1;
    shared += program.buffers(false).size() + 1 < images.size();
    mixed += std::any_of(stages.begin(), stages.end(), [](const Stage& stage) {
      return stage.mix >= 0 && stage.doubled == 0 && stage.from != kRecord;
    });
  }
  EXPECT_GT(clips, 80);
  EXPECT_GT(windows, 80);
  EXPECT_GT(shared, 80);
  EXPECT_GT(mixed, 50);
}

/// All frames are made from one image, while others are made and read.
TEST(TransformPrograms, AnImageOfAllFramesStaysUntilTheLastOne) {
  for (std::uint32_t seed = 0; seed < 50; ++seed) {
    Dice dice(seed);
    constexpr Extent kFrame{4, 6, 1};
    constexpr std::int32_t kFrames = 3;
    const Layout rows = test::layout_of({kFrames, 24, 1}, NumberType::kUint8, 1, false);
    const Layout frame = test::layout_of(kFrame, NumberType::kUint8, 1, false);
    const auto flip = [](const Layout& layout, std::int32_t frames, std::int32_t from,
                         std::int32_t to) {
      Stage stage{};
      stage.source = stage.target = layout;
      stage.frames = frames;
      stage.raw = 1;
      stage.fill = stage.statistic = stage.mix = -1;
      stage.count = stage.after = 1;
      stage.ops[0].code = OpCode::kFlip;
      const Flip op{layout.extent, Axis::kRow, 1.0};
      std::memcpy(stage.ops[0].settings, &op, sizeof op);
      stage.from = from;
      stage.to = to;
      return stage;
    };
    const std::vector<Stage> stages = {
        flip(rows, 1, kRecord, 0), flip(frame, kFrames, 0, 1),
        flip(frame, kFrames, 1, 2), flip(frame, kFrames, 2, kLeaf)};
    const Program program{sharing(stages)};
    EXPECT_EQ(program.buffers(false).size(), 3u);
    const Bytes record = test::make_image(rows, dice);
    Bytes want;
    for (std::int32_t at = kFrames; at-- > 0;)
      for (std::int32_t y = kFrame.height; y-- > 0;) {
        const auto first = record.begin() + at * 24 + y * kFrame.width;
        want.insert(want.end(), first, first + kFrame.width);
      }
    Bytes got(want.size());
    StageExecutor(program, nullptr)
        .execute(test::some_draw(dice), record.data(), nullptr, got.data());
    EXPECT_EQ(got, want);
  }
}

}  // namespace
}  // namespace echobuf::transform
