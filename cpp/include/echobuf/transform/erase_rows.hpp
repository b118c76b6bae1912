// Images that are moved as bytes and have a rectangle erased on their way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "echobuf/transform/host_ops.hpp"
#include "echobuf/transform/image_sink.hpp"
#include "echobuf/transform/raw_rows.hpp"

namespace echobuf::transform {

class EraseRows {
 public:
  /// True for a stage that does nothing else, and leaves all bits of other numbers:
  /// those of 16 bits would get the one NaN.
  static bool fits(const Stage& stage) {
    const NumberType type = stage.source.type;
    if (type != stage.target.type ||
        (type != NumberType::kUint8 && type != NumberType::kFloat32))
      return false;
    return stage.raw == 0 && stage.core == Core::kNone && stage.mix < 0 &&
           stage.count == stage.after + 1 &&
           stage.ops[stage.after].code == OpCode::kErase &&
           stage.ops[stage.after].as<Erase>().random == 0;
  }

  /// Throws std::bad_alloc; nothing is allocated later.
  explicit EraseRows(const Stage& stage)
      : moves_(std::make_unique<Stage>(moves_of(stage))),
        raw_(*moves_),
        value_(static_cast<std::size_t>(stage.target.extent.channels) *
               stage.target.bytes) {
    const auto& op = stage.ops[stage.after].as<Erase>();
    for (int32_t c = 0; c < stage.target.extent.channels; ++c)
      store_as(stage.target.type,
               reinterpret_cast<std::uint64_t>(value_.data()) +
                   static_cast<std::uint64_t>(c) * stage.target.bytes,
               op.value[c]);
  }

  /// `ops`: of the stage.
  void make(const HostOps& ops, const std::byte* source, std::byte* target,
            ImageSink& sink) {
    const auto& draw = ops.drawn<Erase::Draw>(moves_->count);
    raw_.move(ops, source, target, sink,
              {draw.top, draw.left, draw.height, draw.width, value_.data()});
  }

 private:
  /// The stage without its last operation.
  static Stage moves_of(const Stage& stage) {
    Stage moves = stage;
    moves.count = moves.after;
    moves.raw = 1;
    return moves;
  }

  std::unique_ptr<Stage> moves_;  // `raw_` refers to it: it stays in place
  RawRows raw_;
  std::vector<std::byte> value_;  // of a pixel
};

}  // namespace echobuf::transform
