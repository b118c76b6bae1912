// A cursor over the passes of an epoch: the part that drawers on the CPU and on devices
// share.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>

#include "echobuf/draw/expiry_selector.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/echoes.hpp"
#include "echobuf/schedule/epoch.hpp"
#include "echobuf/schedule/permutation.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/store/versions.hpp"

namespace echobuf {

/// kCaptured: nothing was drawn, but will be whenever a graph is launched. kTwice: it
/// is in that graph already. kCapturing: the call cannot be captured. kResize: the
/// batch is of another size than the caller's memory.
enum class DrawOutcome {
  kBatch,
  kWait,
  kFinished,
  kShort,
  kInterrupted,
  kCaptured,
  kTwice,
  kCapturing,
  kResize
};

/// `Ring`: the consumer's side of a ring.
template <class Ring>
class PassCursor {
 public:
  using Outcome = DrawOutcome;

  /// `versions`: of the records in the ring; null only where none expires. Throws
  /// std::bad_alloc.
  PassCursor(const BufferOptions& options, Ring& ring, const Versions* versions)
      : options_(options), ring_(ring), sweep_(make_sweep(options, options.epoch)) {
    epoch_.number = options.epoch;
    epoch_.base = ring.tail();
    if (!options.expires()) return;
    selector_ = std::make_unique<ExpirySelector>(options, *versions);
    begin_selecting();
  }

  /// True if a draw would not wait. Changes nothing.
  bool ready() { return look_ahead() != Outcome::kWait; }

  /// True if there is no further batch. Changes nothing that is drawn.
  bool finished() { return look_ahead() == Outcome::kFinished; }

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

  /// The draws that were given up in the epoch, once it is served out.
  std::uint64_t expired() const { return expired_; }

  const Epoch& epoch() const { return epoch_; }
  const Sweep& sweep() const { return sweep_; }

 protected:
  template <class S>
  UpstreamProgress look(const S& sweep) {
    UpstreamProgress progress;
    const typename Ring::Extent extent = ring_.extent();
    progress.committed = epoch_.record(extent.committed);
    progress.ended = extent.closed && extent.committed == extent.tail;
    if (selector_) selector_->note_put(epoch_.record(ring_.put_end()));
    if constexpr (S::kDrawsPartly)
      progress.held_back = sweep.between_passes() && ring_.held_back();
    return progress;
  }

  /// A loaded state demands records that are not there (yet).
  bool lacking(const UpstreamProgress& progress) const {
    if (epoch_.total && progress.committed > *epoch_.total) return true;
    if (epoch_.total && progress.ended && progress.committed != *epoch_.total)
      return true;
    return progress.committed < epoch_.required_end;
  }
  Outcome why_lacking(const UpstreamProgress& progress) const {
    const bool too_many = epoch_.total && progress.committed > *epoch_.total;
    return progress.ended || too_many ? Outcome::kShort : Outcome::kWait;
  }

  bool servable(std::uint64_t count) const {
    return count == options_.batch_size || (count > 0 && !options_.drop_last);
  }

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
  const Echoes* echoes_of(const S& walk, const Part& part) {
    if (!options_.echoes) return nullptr;
    if (echoes_pass_ == part.pass) return &echoes_;
    echoes_pass_.reset();
    echoes_.clear();
    walk.for_segments(part, [&](std::uint64_t start, std::uint64_t echo) {
      const std::uint64_t first = part.window.first;
      echoes_.add(static_cast<std::uint32_t>(std::max(start, first) - first),
                  static_cast<std::uint32_t>(echo));
    });
    echoes_pass_ = part.pass;
    return &echoes_;
  }

  void release(std::uint64_t oldest) {
    const std::uint64_t position = epoch_.position(oldest);
    ring_.release(std::min(position, ring_.extent().committed));
  }

  void move_to(const Epoch& epoch, const Sweep& sweep) {
    epoch_ = epoch;
    sweep_ = sweep;
    echoes_pass_.reset();
    if (selector_) begin_selecting();
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
  std::uint64_t partial_count_ = 0;  // of a batch that a wait has cut

 private:
  /// Returns what a draw would, on a copy of the walk.
  Outcome look_ahead() {
    return std::visit(
        [&](auto sweep) {
          std::uint64_t count = partial_count_;
          Part part;
          while (count < options_.batch_size) {
            const UpstreamProgress progress = look(sweep);
            if (lacking(progress)) return why_lacking(progress);
            const Step step = sweep.step(progress, options_.batch_size - count, part);
            if (step == Step::kWait) return Outcome::kWait;
            if (step == Step::kFinished) break;
            count += part.count;
          }
          return servable(count) ? Outcome::kBatch : Outcome::kFinished;
        },
        sweep_);
  }

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
  Echoes echoes_;
  std::optional<std::uint64_t> echoes_pass_;  // none: they are of none
};

}  // namespace echobuf
