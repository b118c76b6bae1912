// A cursor over the passes of an epoch: the part that drawers on the CPU and on devices
// share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>

#include "echobuf/draw/drawer.hpp"
#include "echobuf/draw/expiry_selector.hpp"
#include "echobuf/draw/rows_segments.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/echoes.hpp"
#include "echobuf/schedule/epoch.hpp"
#include "echobuf/schedule/permutation.hpp"
#include "echobuf/schedule/segment_table.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/store/versions.hpp"

namespace echobuf {

/// `Ring`: the consumer's side of a ring.
template <class Ring>
class PassCursor : public Drawer {
 public:
  /// `versions`: of the records in the ring; null only where none expires. Throws
  /// std::bad_alloc.
  PassCursor(const BufferOptions& options, Ring& ring, const Versions* versions,
             const WindowRows& rows)
      : options_(options), ring_(ring), sweep_(make_sweep(options, options.epoch)) {
    epoch_.number = options.epoch;
    epoch_.base = ring.tail();
    if (options.expires()) {
      selector_ = std::make_unique<ExpirySelector>(options, *versions);
      begin_selecting();
    }
    if (rows.table) begin_segments(rows);
  }

  /// The last position that is missing, so that a segment costs one wake-up; if that is
  /// there and others are late, or may never come because upstream has ended, the first
  /// hole; and what is on its way first of all. Where it is not known which record
  /// fills a segment, the first that may.
  std::uint64_t wanted() override {
    const typename Ring::Extent extent = ring_.extent();
    if (catching_up_) return extent.committed;
    const std::uint64_t need =
        need_ == SegmentTable::kUnknown ? segments_->soonest_end(sweep_) : need_;
    const std::uint64_t last = epoch_.position(std::max(need, epoch_.required_end)) - 1;
    const bool first_hole = extent.closed || ring_.is_committed(last);
    return first_hole ? extent.committed : last;
  }

  std::uint64_t expired() const override { return expired_; }

  const Epoch& epoch() const { return epoch_; }
  const Sweep& sweep() const override { return sweep_; }

  void restart(const Epoch& epoch) override {
    restore(epoch, make_sweep(options_, epoch.number));
  }

 protected:
  /// What upstream has put by now, for `walk`, which goes on from sweep().
  template <class S>
  UpstreamProgress look(const S& walk) {
    UpstreamProgress progress;
    const typename Ring::Extent extent = ring_.extent();
    progress.committed = epoch_.record(extent.committed);
    progress.ended = extent.closed && extent.committed == extent.tail;
    if (selector_) selector_->note_put(epoch_.record(ring_.put_end()));
    if constexpr (S::kDrawsPartly)
      progress.held_back = walk.between_passes() && !crossed_ && ring_.held_back();
    if (segments_)
      segments_->note(
          progress.committed, sweep_, walk, epoch_,
          [this](std::uint64_t i) { return ring_.slot(epoch_.position(i)); });
    return progress;
  }

  /// Returns what ends a draw before `walk` takes a step, if anything does; else
  /// `progress` is what upstream has put by now.
  template <class S>
  std::optional<Outcome> look(const S& walk, UpstreamProgress& progress) {
    if (crosses(walk) && is_catching_up()) return Outcome::kWait;
    progress = look(walk);
    if (!lacking(progress)) return std::nullopt;
    note_need(walk);
    return why_lacking(progress);
  }

  /// Returns whether a step goes over to another pass, which "auto" decides upon.
  template <class S>
  static bool crosses(const S& walk) {
    if constexpr (S::kDrawsPartly) return walk.between_passes();
    return false;
  }

  /// A loaded state demands records that are not there (yet), or others.
  bool lacking(const UpstreamProgress& progress) const {
    if (are_strange()) return true;
    if (epoch_.total && progress.committed > *epoch_.total) return true;
    if (epoch_.total && progress.ended && progress.committed != *epoch_.total)
      return true;
    return progress.committed < epoch_.required_end;
  }
  Outcome why_lacking(const UpstreamProgress& progress) const {
    const bool too_many = epoch_.total && progress.committed > *epoch_.total;
    return progress.ended || too_many || are_strange() ? Outcome::kShort
                                                       : Outcome::kWait;
  }

  /// The walk waits.
  template <class S>
  void note_need(const S& walk) {
    need_ = walk.need();
  }

  /// On a device, all records that were put by now decide what "auto" sweeps next,
  /// however far the uploader is: a draw waits for these, and not for later ones.
  bool is_catching_up() {
    if (ring_.behind()) {
      if (!catching_up_) catching_up_ = ring_.staged_end();
      if (ring_.extent().committed < *catching_up_) return true;
    }
    catching_up_.reset();
    return false;
  }
  /// Returns whether it waits for what is on its way alone.
  bool catching_up() const { return catching_up_.has_value(); }

  const Permutation& order_of(const Part& part) {
    const auto size = static_cast<std::uint32_t>(part.swept());
    if (!order_ || order_pass_ != part.pass || order_epoch_ != epoch_.number ||
        order_->size() != size) {
      order_.emplace(size, permutation_key(options_.seed, epoch_.number, part.pass));
      order_pass_ = part.pass;
      order_epoch_ = epoch_.number;
    }
    return *order_;
  }

  /// The echoes of a part, the last step of `walk`; null where draws do not ask for
  /// them. Throws std::bad_alloc.
  template <class S>
  std::shared_ptr<const Echoes> echoes_of(const S& walk, const Part& part) {
    if (!options_.echoes) return nullptr;
    // Of a pass that was planned and not drawn, "auto" may change the window.
    if (echoes_ && echoes_pass_ == part.pass && echoes_window_ == part.window)
      return echoes_;
    const auto echoes = std::make_shared<Echoes>();
    walk.for_segments(part, [&](std::uint64_t start, std::uint64_t echo) {
      const std::uint64_t first = part.window.first;
      echoes->add(static_cast<std::uint32_t>(std::max(start, first) - first),
                  static_cast<std::uint32_t>(echo));
    });
    echoes_ = echoes;
    echoes_pass_ = part.pass;
    echoes_window_ = part.window;
    return echoes;
  }

  /// What was drawn is drawn; give_back() follows once its places are not read.
  void go_ahead(const Sweep& after) {
    sweep_ = after;
    if (segments_) segments_->forget_before(sweep_);
  }
  void give_back() {
    const std::uint64_t position = epoch_.position(oldest_record(sweep_));
    ring_.release(std::min(position, ring_.extent().committed));
  }

  void move_to(const Epoch& epoch, const Sweep& sweep) {
    epoch_ = epoch;
    sweep_ = sweep;
    echoes_.reset();
    catching_up_.reset();
    if (selector_) begin_selecting();
    if (segments_) segments_->begin(sweep_, epoch_);
    need_ = segments_ ? SegmentTable::kUnknown : 0;
  }

  /// Passes leave out records that have expired.
  bool expires() const { return selector_ != nullptr; }

  /// `walk` has come to the end: the last passes may have had no draws.
  template <class S>
  void note_finished(const S& walk) {
    expired_ = walk.expired();
  }

  const BufferOptions& options_;
  Ring& ring_;
  Epoch epoch_;
  Sweep sweep_;
  std::optional<RowsSegments> segments_;  // none: records have no rows
  bool crossed_ = false;  // the walk has ended a pass, and was told who was held back

 private:
  void begin_segments(const WindowRows& rows) {
    segments_.emplace(rows);
    segments_->begin(sweep_, epoch_);
    need_ = SegmentTable::kUnknown;
  }

  bool are_strange() const { return segments_ && segments_->are_strange(); }

  void begin_selecting() {
    std::visit(
        [&](auto& sweep) {
          selector_->begin(epoch_, sweep.newest());
          sweep.select_by(selector_.get());
        },
        sweep_);
  }

  std::uint64_t expired_ = 0;
  std::unique_ptr<ExpirySelector> selector_;  // null: passes leave nothing out
  std::optional<Permutation> order_;
  std::uint64_t order_pass_ = 0;
  std::uint64_t order_epoch_ = 0;
  std::shared_ptr<const Echoes> echoes_;  // of the last pass that was asked for
  std::uint64_t echoes_pass_ = 0;
  Span echoes_window_{};
  std::uint64_t need_ = 0;  // records that the walk waits for; kUnknown: see wanted()
  std::optional<std::uint64_t> catching_up_;  // with what is below this position
};

}  // namespace echobuf
