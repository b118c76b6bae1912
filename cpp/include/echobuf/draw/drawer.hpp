// Drawing batches on the CPU: from the schedule to filled leaves. One caller at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "echobuf/draw/batch.hpp"
#include "echobuf/draw/batch_pool.hpp"
#include "echobuf/draw/host_draw.hpp"
#include "echobuf/draw/pass_cursor.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/epoch.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/status.hpp"

namespace echobuf {

/// `Ring`: the consumer's side of a ring. `Draw`: brings a part of a pass to a target.
template <class Ring, class Draw>
class Drawer : public PassCursor<Ring> {
  using Cursor = PassCursor<Ring>;

 public:
  using Outcome = DrawOutcome;
  static constexpr bool kInBlocks = true;  // batches can be drawn ahead, in memory

  Drawer(const BufferOptions& options, Ring& ring, Draw draw,
         std::shared_ptr<BatchPool> pool, const Versions* versions = nullptr)
      : Cursor(options, ring, versions),
        draw_(std::move(draw)),
        pool_(std::move(pool)),
        leaves_(draw_.batch().leaves()) {}

  /// See PassCursor. Where records expire, those that were left out may
  /// fill the ring while a batch is waited for: draws that are there are taken, and
  /// room made.
  bool ready() {
    if (Cursor::ready()) return true;
    if (!this->expires()) return false;
    static_cast<void>(
        std::visit([&](auto& sweep) { return fill(sweep, nullptr); }, sweep_));
    return Cursor::ready();
  }

  /// Draws into a block from the pool. Memory is found before anything is claimed.
  Outcome draw(Batch& batch, Poll* poll) {
    return draw(batch.block, batch.count, poll);
  }
  Outcome draw(Block& block, std::uint64_t& count, Poll* poll) {
    return std::visit(
        [&](auto& sweep) {
          if constexpr (!std::decay_t<decltype(sweep)>::kDrawsPartly)
            if (!this->expires()) return draw_whole(sweep, block, count, poll);
          // Passes that leave records out are of any length: a batch may be of more of
          // them than there is room for.
          return draw_partly(sweep, block, count, poll);
        },
        sweep_);
  }

  /// Draws into the caller's leaves: all of a batch or nothing.
  Outcome draw_into(Target& target, Poll* poll) {
    auto* const fixed = std::get_if<FixedSweep>(&sweep_);
    if (fixed && !this->expires()) {
      const Outcome outcome = plan(*fixed);
      if (outcome != Outcome::kBatch) return outcome;
      return follow_plan(*fixed, target, poll);
    }
    const auto done = std::visit(
        [&](auto& sweep) { return draw_at_once(sweep, target, poll); }, sweep_);
    if (done) return *done;
    Block block;
    const Outcome outcome = draw(block, target.count, poll);
    if (outcome == Outcome::kBatch) copy_out(block, target);
    return outcome;
  }

  /// Copies a batch of `target.count` out of its block.
  void copy_out(const Block& block, const Target& target) {
    draw_.copy_out(block.data(), target);
  }

  void restart(const Epoch& epoch) {
    restore(epoch, make_sweep(options_, epoch.number));
  }
  void restore(const Epoch& epoch, const Sweep& sweep) {
    this->move_to(epoch, sweep);
    drop_partial();
  }

  /// Nothing reads slots after the draw.
  void settle() {}

 private:
  /// Walks a copy of the schedule until a whole batch is sure.
  Outcome plan(const FixedSweep& sweep) {
    parts_.clear();
    planned_ = 0;
    const UpstreamProgress progress = look(sweep);
    if (lacking(progress)) return why_lacking(progress);
    FixedSweep walk = sweep;
    while (planned_ < options_.batch_size) {
      Part part;
      const Step step = walk.step(progress, options_.batch_size - planned_, part);
      if (step == Step::kWait) {
        std::get<FixedSweep>(sweep_).note_need(walk.need());
        return Outcome::kWait;
      }
      if (step == Step::kFinished) break;
      parts_.push_back(part);
      planned_ += part.count;
    }
    if (!servable(planned_)) return Outcome::kFinished;
    after_plan_.emplace(walk);
    return Outcome::kBatch;
  }

  Outcome follow_plan(FixedSweep& sweep, Target& target, Poll* poll) {
    std::uint64_t row = 0;
    for (const Part& part : parts_) {
      if (!gather(sweep, part, target, row, poll)) return Outcome::kInterrupted;
      row += part.count;
    }
    if (!options_.ragged) target.count = row;
    sweep = *after_plan_;
    release(sweep.oldest_record());
    draw_.expect_next(pass_part(parts_.back()));
    return Outcome::kBatch;
  }

  Outcome draw_whole(FixedSweep& sweep, Block& block, std::uint64_t& count,
                     Poll* poll) {
    const Outcome outcome = plan(sweep);
    if (outcome != Outcome::kBatch) return outcome;
    Block memory = pool_->take();
    Target target{point_to(memory)};
    const Outcome done = follow_plan(sweep, target, poll);
    if (done == Outcome::kBatch) {
      block = std::move(memory);
      count = target.count;
    }
    return done;
  }

  /// Draws a whole batch of one pass, if no wait can cut it in two.
  template <class S>
  std::optional<Outcome> draw_at_once(S& sweep, Target& target, Poll* poll) {
    if (partial_count_ != 0) return std::nullopt;
    const UpstreamProgress progress = look(sweep);
    if (lacking(progress)) return std::nullopt;
    S walk = sweep;
    Part part;
    if (walk.step(progress, options_.batch_size, part) != Step::kPart ||
        part.count != options_.batch_size)
      return std::nullopt;
    if (!gather(walk, part, target, 0, poll)) return Outcome::kInterrupted;
    advance(sweep, walk);
    if (!options_.ragged) target.count = part.count;
    return Outcome::kBatch;
  }

  template <class S>
  void advance(S& sweep, const S& walk) {
    if constexpr (S::kDrawsPartly)
      if (sweep.between_passes()) ring_.clear_held_back();
    sweep = walk;
    release(sweep.oldest_record());
  }

  /// Draws what there is; what a wait cuts off stays in a block of our own.
  template <class S>
  Outcome draw_partly(S& sweep, Block& block, std::uint64_t& count, Poll* poll) {
    const Outcome outcome = fill(sweep, poll);
    if (outcome != Outcome::kBatch && outcome != Outcome::kFinished) return outcome;
    if (!servable(partial_count_)) return Outcome::kFinished;
    count = partial_rows_;
    block = std::move(partial_);
    drop_partial();
    return Outcome::kBatch;
  }

  /// Draws what there is of the next batch: up to its end, or that of the epoch.
  template <class S>
  Outcome fill(S& sweep, Poll* poll) {
    if (!partial_) partial_ = pool_->take();
    Target target{point_to(partial_)};
    target.count = partial_rows_;
    while (partial_count_ < options_.batch_size) {
      const UpstreamProgress progress = look(sweep);
      if (lacking(progress)) return why_lacking(progress);
      S walk = sweep;
      Part part;
      const Step step = walk.step(progress, options_.batch_size - partial_count_, part);
      if (step == Step::kFinished) {
        this->note_finished(walk);
        return Outcome::kFinished;
      }
      if (step == Step::kPart && !gather(walk, part, target, partial_count_, poll))
        return Outcome::kInterrupted;
      advance(sweep, walk);
      if (step == Step::kWait) return Outcome::kWait;
      partial_count_ += part.count;
      partial_rows_ = options_.ragged ? target.count : partial_count_;
    }
    return Outcome::kBatch;
  }

  void drop_partial() {
    partial_ = Block();
    partial_count_ = partial_rows_ = 0;
  }

  std::byte* const* point_to(const Block& block) {
    for (std::size_t f = 0; f < leaves_.size(); ++f)
      leaves_[f] = block.data() + draw_.batch().offset(f);
    return leaves_.data();
  }

  /// `walk`: has stepped over the part.
  template <class S>
  bool gather(const S& walk, const Part& part, Target& target, std::uint64_t row,
              Poll* poll) {
    PassPart of_pass = pass_part(part);
    of_pass.echoes = this->echoes_of(walk, part);
    return draw_.draw(of_pass, target, row, poll);
  }

  PassPart pass_part(const Part& part) {
    return {order_of(part), this->epoch_.position(part.window.first),
            part.offset,    part.count,
            part.draw,      this->epoch_.number,
            part.sparse,    part.window.first,
            nullptr,        part.selection};
  }

  using Cursor::lacking;
  using Cursor::look;
  using Cursor::options_;
  using Cursor::order_of;
  using Cursor::partial_count_;
  using Cursor::release;
  using Cursor::ring_;
  using Cursor::servable;
  using Cursor::sweep_;
  using Cursor::why_lacking;

  Draw draw_;
  const std::shared_ptr<BatchPool> pool_;

  std::vector<Part> parts_;  // of the batch being planned
  std::uint64_t planned_ = 0;
  std::optional<FixedSweep> after_plan_;
  Block partial_;  // a batch that a wait has cut in two
  std::uint64_t partial_rows_ = 0;
  std::vector<std::byte*> leaves_;
};

}  // namespace echobuf
