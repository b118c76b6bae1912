// Drawing batches: from the schedule to filled leaves. One caller at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "echobuf/draw_host.hpp"
#include "echobuf/epoch.hpp"
#include "echobuf/options.hpp"
#include "echobuf/pool.hpp"
#include "echobuf/sweep.hpp"

namespace echobuf {

enum class DrawOutcome { kBatch, kWait, kFinished, kShort, kInterrupted };

/// `Ring`: the consumer's side of a ring. `Draw`: brings a part of a pass to a target.
template <class Ring, class Draw>
class Drawer {
 public:
  using Outcome = DrawOutcome;

  Drawer(const BufferOptions& options, Ring& ring, Draw draw,
         std::shared_ptr<BatchPool> pool)
      : options_(options),
        ring_(ring),
        draw_(std::move(draw)),
        pool_(std::move(pool)),
        sweep_(make_sweep(options)),
        leaves_(draw_.batch().leaves()) {
    epoch_.number = options.epoch;
  }

  /// Draws into a block from the pool. Memory is found before anything is claimed.
  Outcome draw(Block& block, std::uint64_t& count, Poll* poll) {
    return std::visit(
        [&](auto& sweep) {
          if constexpr (std::decay_t<decltype(sweep)>::kDrawsPartly)
            return draw_partly(sweep, block, count, poll);
          else
            return draw_whole(sweep, block, count, poll);
        },
        sweep_);
  }

  /// Draws into the caller's leaves: all of a batch or nothing.
  Outcome draw_into(Target& target, Poll* poll) {
    if (auto* fixed = std::get_if<FixedSweep>(&sweep_)) {
      const Outcome outcome = plan(*fixed);
      if (outcome != Outcome::kBatch) return outcome;
      return follow_plan(*fixed, target, poll);
    }
    Block block;
    const Outcome outcome = draw(block, target.count, poll);
    if (outcome == Outcome::kBatch) copy_out(block, target);
    return outcome;
  }

  /// Copies a batch of `target.count` out of its block.
  void copy_out(const Block& block, const Target& target) {
    draw_.copy_out(block.data(), target);
  }

  /// True if a draw would not wait. Changes nothing.
  bool ready() {
    return std::visit(
        [&](auto sweep) {  // a copy
          std::uint64_t count = partial_count_;
          Part part;
          while (count < options_.batch_size) {
            const Supply supply = look(sweep);
            if (lacking(supply)) return why_lacking(supply) == Outcome::kShort;
            const Step step = sweep.step(supply, options_.batch_size - count, part);
            if (step == Step::kWait) return false;
            if (step == Step::kFinished) return true;
            count += part.count;
          }
          return true;
        },
        sweep_);
  }

  /// After kWait: the ring position to wait for. The last one that is missing, so that
  /// a segment costs one wake-up; if that is there and others are late, or may never
  /// come because upstream has ended, the first hole.
  std::uint64_t wanted() {
    const std::uint64_t need =
        std::visit([](const auto& s) { return s.need(); }, sweep_);
    const std::uint64_t last = epoch_.position(std::max(need, epoch_.required_end)) - 1;
    const typename Ring::Extent extent = ring_.extent();
    const bool first_hole = extent.closed || ring_.is_committed(last);
    return first_hole ? extent.committed : last;
  }

  void restart(const Epoch& epoch) {
    epoch_ = epoch;
    sweep_ = make_sweep(options_);
    drop_partial();
  }
  void restore(const Epoch& epoch, const Sweep& sweep) {
    epoch_ = epoch;
    sweep_ = sweep;
    drop_partial();
  }

  const Epoch& epoch() const { return epoch_; }
  const Sweep& sweep() const { return sweep_; }

 private:
  template <class S>
  Supply look(const S& sweep) {
    Supply supply;
    const typename Ring::Extent extent = ring_.extent();
    supply.committed = epoch_.record(extent.committed);
    supply.ended = extent.closed && extent.committed == extent.tail;
    if constexpr (S::kDrawsPartly) {
      supply.free = ring_.free();
      supply.held_back = sweep.between_passes() && ring_.held_back();
    }
    return supply;
  }

  /// A loaded state demands records that are not there (yet).
  bool lacking(const Supply& supply) const {
    if (epoch_.total && supply.committed > *epoch_.total) return true;
    if (epoch_.total && supply.ended && supply.committed != *epoch_.total) return true;
    return supply.committed < epoch_.required_end;
  }
  Outcome why_lacking(const Supply& supply) const {
    const bool too_many = epoch_.total && supply.committed > *epoch_.total;
    return supply.ended || too_many ? Outcome::kShort : Outcome::kWait;
  }

  /// Walks a copy of the schedule until a whole batch is sure.
  Outcome plan(const FixedSweep& sweep) {
    parts_.clear();
    planned_ = 0;
    const Supply supply = look(sweep);
    if (lacking(supply)) return why_lacking(supply);
    FixedSweep walk = sweep;
    while (planned_ < options_.batch_size) {
      Part part;
      const Step step = walk.step(supply, options_.batch_size - planned_, part);
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
      if (!gather(part, target, row, poll)) return Outcome::kInterrupted;
      row += part.count;
    }
    if (!options_.ragged) target.count = row;
    sweep = *after_plan_;
    release(sweep.oldest_record());
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

  /// Draws what there is; what a wait cuts off stays in a block of our own.
  Outcome draw_partly(AutoSweep& sweep, Block& block, std::uint64_t& count,
                      Poll* poll) {
    if (!partial_) partial_ = pool_->take();
    Target target{point_to(partial_)};
    target.count = partial_rows_;
    while (partial_count_ < options_.batch_size) {
      const Supply supply = look(sweep);
      if (lacking(supply)) return why_lacking(supply);
      AutoSweep walk = sweep;
      Part part;
      const Step step = walk.step(supply, options_.batch_size - partial_count_, part);
      if (step == Step::kFinished) break;
      if (step == Step::kPart && !gather(part, target, partial_count_, poll))
        return Outcome::kInterrupted;
      if (sweep.between_passes()) ring_.clear_held_back();
      sweep = walk;
      release(sweep.oldest_record());
      if (step == Step::kWait) return Outcome::kWait;
      partial_count_ += part.count;
      partial_rows_ = options_.ragged ? target.count : partial_count_;
    }
    if (!servable(partial_count_)) return Outcome::kFinished;
    count = partial_rows_;
    block = std::move(partial_);
    drop_partial();
    return Outcome::kBatch;
  }

  bool servable(std::uint64_t count) const {
    return count == options_.batch_size || (count > 0 && !options_.drop_last);
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

  const Permutation& order_of(const Part& part) {
    const auto size = static_cast<std::uint32_t>(part.window.count);
    if (!order_ || order_pass_ != part.pass || order_epoch_ != epoch_.number ||
        order_->size() != size) {
      order_.emplace(size, permutation_key(options_.seed, epoch_.number, part.pass));
      order_pass_ = part.pass;
      order_epoch_ = epoch_.number;
    }
    return *order_;
  }

  bool gather(const Part& part, Target& target, std::uint64_t row, Poll* poll) {
    return draw_.draw(
        {order_of(part), epoch_.position(part.window.first), part.offset, part.count},
        target, row, poll);
  }

  void release(std::uint64_t oldest) {
    const std::uint64_t position = epoch_.position(oldest);
    ring_.release(std::min(position, ring_.extent().committed));
  }

  const BufferOptions& options_;
  Ring& ring_;
  Draw draw_;
  const std::shared_ptr<BatchPool> pool_;

  Epoch epoch_;
  Sweep sweep_;
  std::vector<Part> parts_;  // of the batch being planned
  std::uint64_t planned_ = 0;
  std::optional<FixedSweep> after_plan_;
  Block partial_;  // "auto" alone: a batch that a wait has cut in two
  std::uint64_t partial_count_ = 0;
  std::uint64_t partial_rows_ = 0;
  std::vector<std::byte*> leaves_;
  std::optional<Permutation> order_;
  std::uint64_t order_pass_ = 0;
  std::uint64_t order_epoch_ = 0;
};

}  // namespace echobuf
