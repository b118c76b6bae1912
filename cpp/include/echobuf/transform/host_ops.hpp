// The operations of a stage on the host, where their types are known at run time only.
#pragma once

#include <cstdint>

#include "echobuf/transform/custom.hpp"
#include "echobuf/transform/stage.hpp"

namespace echobuf::transform {

class HostOps {
 public:
  HostOps(const Stage& stage, DrawBlock* draws) : stage_(&stage), draws_(draws) {}

  const Stage& stage() const { return *stage_; }

  template <class Use>
  void visit(int32_t i, Use&& use) const {
    const OpBlock& block = stage_->ops[i];
    const DrawBlock& draw = draws_[i];
    with_op(block, [&](const auto& op) {
      using Op = std::decay_t<decltype(op)>;
      if constexpr (std::is_same_v<Op, Custom>)
        use(op, draw);
      else
        use(op, draw.as<typename Op::Draw>());
    });
  }

  Weights weights(const Stretch& stretch, Axis, int32_t i, int32_t) const {
    return {stretch, i};
  }

  /// The weights of a blur, by distance.
  template <class Draw>
  auto spread(const Draw& draw, Axis axis) const {
    return [draw, axis](int32_t k) { return Blur::weight(draw, axis, k); };
  }

  /// Asks chance about all operations; `partner`: for the partner in a mix.
  void draw(const DrawNumber& number, bool partner) const {
    for (int32_t i = 0; i < stage_->count; ++i) draw(i, number, partner);
  }
  /// About one of them.
  void draw(int32_t i, const DrawNumber& number, bool partner) const {
    const OpBlock& block = stage_->ops[i];
    const Words words =
        words_of(number, block.number + (partner ? kPartnerOperation : 0));
    with_op(block, [&](const auto& op) {
      using Op = std::decay_t<decltype(op)>;
      if constexpr (std::is_same_v<Op, Custom>)
        op.table->draw(op.settings, words, stage_->target.extent, draws_[i]);
      else if constexpr (requires { op.draw(words); })
        draws_[i].as<typename Op::Draw>() = op.draw(words);
      else
        draws_[i].as<typename Op::Draw>() = op.draw(words, stage_->target.extent);
    });
  }

  /// Sets the mean that the contrast of operation `i` is about.
  void set_mean(int32_t i, float mean) const {
    draws_[i].as<Jitter::Draw>().mean = mean;
  }
  /// The random choices of operation `i`.
  template <class Draw>
  Draw& drawn(int32_t i) const {
    return draws_[i].as<Draw>();
  }

 private:
  template <class Use>
  static void with_op(const OpBlock& block, Use&& use) {
    switch (block.code) {
#define ECHOBUF_USE(name, Op) \
  case OpCode::k##Op:         \
    return use(block.as<Op>());
      ECHOBUF_OPERATIONS(ECHOBUF_USE)
#undef ECHOBUF_USE
      case OpCode::kCustom:
        return use(
            Custom{reinterpret_cast<const CustomTable*>(block.table), block.settings});
    }
  }

  const Stage* stage_;
  DrawBlock* draws_;
};

}  // namespace echobuf::transform
