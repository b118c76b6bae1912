// Drawing batches of whole records on the CPU: from the plan to filled leaves. One
// caller at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "echobuf/draw/batch.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/batch_pool.hpp"
#include "echobuf/draw/host_draw.hpp"
#include "echobuf/draw/host_rows_draw.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/draw/planner.hpp"
#include "echobuf/draw/rows_out.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/epoch.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/status.hpp"
#include "echobuf/store/host_store.hpp"
#include "echobuf/store/ring.hpp"
#include "echobuf/store/versions.hpp"

namespace echobuf {

class HostDrawer final : public Planner<Ring> {
 public:
  using Form = LengthOptions::Form;

  /// All must outlive it. Throws std::bad_alloc.
  HostDrawer(const BufferOptions& options, Ring& ring, const HostStore& store,
             const BatchLayout& batch, std::shared_ptr<BatchPool> pool,
             const WindowRows& rows = {}, const Versions* versions = nullptr)
      : Planner(options, ring, rows, Lists::kRows, versions),
        batch_(batch),
        pool_(std::move(pool)),
        fixed_(store.slots(), batch, options.seed, versions),
        out_(batch, options),
        leaves_(batch.leaves()) {
    if (rows.table) rows_.emplace(store, batch, options, pool_, fixed_);
  }

  bool draws_blocks() const override { return true; }

  /// Where records expire, those that were left out may fill the ring while a batch is
  /// waited for: draws that are there are taken, and room made.
  bool ready() override {
    if (Planner::ready()) return true;
    if (!expires()) return false;
    static_cast<void>(set_apart(nullptr));
    return Planner::ready();
  }

  /// Draws into a block from the pool: all of a batch, or what cannot wait in the ring
  /// for the rest. Memory is found before anything is claimed.
  Outcome draw(Batch& batch, Poll* poll) override {
    return draw_if(batch, poll, nullptr);
  }

  Outcome draw_into(Target& target, Poll* poll) override {
    if (apart_count() > 0) {
      Batch batch;
      const Outcome outcome = draw(batch, poll);
      target.count = batch.count;
      if (outcome == Outcome::kBatch) copy_block(batch.block, target);
      return outcome;
    }
    const Outcome outcome = plan();
    if (outcome == Outcome::kWait) return wait(poll);
    if (outcome != Outcome::kBatch) return outcome;
    if (!draw_parts(target, 0, poll)) return Outcome::kInterrupted;
    return finish(outcome);
  }

  /// Draws a batch that fits the caller's memory, and copies it there.
  Outcome draw_rows(RowsTarget& target, Poll* poll) override {
    Batch batch;
    const Outcome outcome = draw_if(batch, poll, &target);
    if (outcome == Outcome::kBatch) copy_out(batch, target);
    return outcome;
  }

  void copy_block(const Block& block, const Target& target) override {
    fixed_.copy_out(block.data(), target);
  }
  bool fits(const Batch& batch, RowsTarget& target) const override {
    return out_.fits(batch, target);
  }
  void copy_out(const Batch& batch, const RowsTarget& target) const override {
    out_.copy(batch, target);
  }

  void restore(const Epoch& epoch, const Sweep& sweep) override {
    move_to(epoch, sweep);
    fixed_.forget_next();
    apart_ = {};
  }

 private:
  /// `target`: that it must fit, or none.
  Outcome draw_if(Batch& batch, Poll* poll, RowsTarget* target) {
    const Outcome outcome = plan();
    if (outcome == Outcome::kWait) return wait(poll);
    if (outcome != Outcome::kBatch) return outcome;
    if (!rows_) {
      if (!draw_block(batch, poll)) return Outcome::kInterrupted;
      return finish(outcome);
    }
    const Form form = options_.lengths.form;
    Batch made = rows_->begin(planned(), apart_, form);
    if (target && !out_.fits(made, *target)) return Outcome::kResize;
    if (!rows_->draw(planned(), apart_, form, std::move(made), batch, poll))
      return Outcome::kInterrupted;
    return finish(outcome);
  }

  /// What was planned is drawn.
  Outcome finish(Outcome outcome) {
    apart_ = {};
    go_on(false);
    // "auto" may sweep another window by then.
    if (!rows_ && !options_.automatic && !planned().parts.empty())
      fixed_.expect_next(planned().parts.back());
    return outcome;
  }

  /// A wait has come, perhaps in the middle of a batch.
  Outcome wait(Poll* poll) {
    return must_set_apart() ? set_apart(poll) : Outcome::kWait;
  }

  Outcome set_apart(Poll* poll) {
    if (planned().records > 0 && !draw_apart(poll)) return Outcome::kInterrupted;
    go_on(true);
    return Outcome::kWait;
  }

  bool draw_apart(Poll* poll) {
    if (!rows_) return draw_block(apart_, poll);
    Batch made = rows_->begin(planned(), apart_, Form::kPacked);
    return rows_->draw(planned(), apart_, Form::kPacked, std::move(made), apart_, poll);
  }

  /// Draws what is planned behind what is set apart, in the same block, and makes it
  /// `batch`.
  bool draw_block(Batch& batch, Poll* poll) {
    if (!apart_.block) apart_.block = pool_->take();
    for (std::size_t i = 0; i < leaves_.size(); ++i)
      leaves_[i] = apart_.block.data() + batch_.offset(i);
    Target target{leaves_.data()};
    if (!draw_parts(target, apart_.count, poll)) return false;
    apart_.count = target.count;
    if (&batch != &apart_) batch = std::move(apart_);
    return true;
  }

  /// Draws what is planned behind the first `before` examples of the target.
  bool draw_parts(Target& target, std::uint64_t before, Poll* poll) {
    target.count = before;
    for (const PassPart& part : planned().parts)
      if (!fixed_.draw(part, target, poll)) return false;
    return true;
  }

  const BatchLayout& batch_;
  const std::shared_ptr<BatchPool> pool_;
  HostDraw fixed_;
  std::optional<HostRowsDraw> rows_;  // none: records have no rows
  const RowsOut out_;
  Batch apart_;  // the first records of the next batch, packed if they have rows, where
                 // they were set apart
  std::vector<std::byte*> leaves_;
};

}  // namespace echobuf
