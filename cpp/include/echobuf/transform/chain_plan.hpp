// A program of stages as the plan of a leaf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "echobuf/draw/leaf_plan.hpp"
#include "echobuf/store/copy.hpp"
#include "echobuf/transform/program.hpp"
#include "echobuf/transform/stage_executor.hpp"

namespace echobuf::transform {

class ChainPlan : public LeafPlan {
 public:
  explicit ChainPlan(Program program) : program_(std::move(program)) {}

  const Program* program() const override { return &program_; }

  std::size_t bytes() const override { return program_.bytes(); }
  std::size_t maker_bytes() const override { return StageExecutor::bytes(program_); }
  std::optional<std::uint32_t> partner_operation() const override {
    return program_.mix_operation();
  }
  bool alternates() const override { return program_.alternates(); }
  std::unique_ptr<LeafMaker> maker(bool past_caches) const override {
    return std::make_unique<Maker>(program_, past_caches);
  }

 private:
  class Maker : public LeafMaker {
   public:
    Maker(const Program& program, bool past_caches)
        : executor_(program, past_caches ? streaming_copy() : nullptr) {}

    void make(const Drawn& drawn, std::byte* target) override {
      const DrawNumber number{transform_key(drawn.seed, drawn.epoch),
                              drawn.draw,
                              drawn.row,
                              drawn.first_element,
                              drawn.first_row,
                              drawn.rows,
                              drawn.record,
                              drawn.echo};
      executor_.execute(number, drawn.example, drawn.partner, target);
    }

   private:
    StageExecutor executor_;
  };

  const Program program_;
};

}  // namespace echobuf::transform
