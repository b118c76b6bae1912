// The choice of the draws of a pass, by the losses and the versions of records.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "echobuf/options.hpp"
#include "echobuf/schedule/epoch.hpp"
#include "echobuf/schedule/permutation.hpp"
#include "echobuf/schedule/permutation_range.hpp"
#include "echobuf/schedule/selection.hpp"
#include "echobuf/schedule/thinning.hpp"
#include "echobuf/store/losses.hpp"
#include "echobuf/store/versions.hpp"

namespace echobuf {

/// The mean of losses, of those that are known: the same in whatever runs they come.
class LossSum {
 public:
  void add(const float* losses, std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i, ++next_) {
      const float loss = losses[i];
      const bool is_known = loss == loss;
      sums_[next_ % kLanes] += is_known ? static_cast<double>(loss) : 0.0;
      known_ += is_known ? 1 : 0;
    }
  }
  double mean() const {
    double sum = 0;
    for (const double each : sums_) sum += each;
    return known_ > 0 ? sum / static_cast<double>(known_) : 0;
  }

 private:
  static constexpr std::uint64_t kLanes = 8;  // that need not wait for each other
  double sums_[kLanes] = {};
  std::uint64_t next_ = 0;
  std::uint64_t known_ = 0;
};

/// The draws that are left keep the order that they have in a pass over all of the
/// window: an order as random, and the same for any other choice of records.
class PassSelector final : public Selector {
 public:
  /// Throws std::bad_alloc. `versions`: of the records; null: there are none.
  PassSelector(const BufferOptions& options, const Versions* versions,
               std::uint64_t capacity)
      : options_(options),
        versions_(options.expires() ? versions : nullptr),
        losses_(options.thins() ? capacity : 0) {}

  /// Begins an epoch, or goes on in it where `newest` was the highest version.
  void begin(const Epoch& epoch, std::int64_t newest) {
    epoch_ = epoch;
    newest_ = newest;
    seen_ = epoch.origin;
    losses_.clear(epoch.origin);
  }

  /// The records of the epoch below `end` have been put.
  void note_put(std::uint64_t end) {
    if (!versions_) return;
    for (; seen_ < end; ++seen_)
      newest_ = std::max(newest_, versions_->at(epoch_.position(seen_)));
  }

  std::int64_t newest() const override { return newest_; }
  Losses& losses() { return losses_; }

  Selected select(const Part& pass, const Selection* before) override {
    const auto selection = plain(pass);
    marks_.resize(pass.window.count);
    if (!options_.thins() || !thin(pass, *selection))
      std::fill(marks_.begin(), marks_.end(), SavedSelection::kDrawn);
    Selected selected{selection};
    selection->oldest = oldest();
    selected.expired = expire(pass, *selection);
    keep(selection->draws);
    if (options_.thins()) count_uses(pass, before, *selection);
    return selected;
  }

  Selected renew(const Part& pass, std::uint64_t drawn) override {
    const Selection& now = *pass.selection;
    if (!versions_ || oldest() <= now.oldest) return {pass.selection};
    const auto renewed = std::make_shared<Selection>(now);
    renewed->oldest = oldest();
    std::vector<std::uint32_t>& draws = renewed->draws;
    const auto is_late = [&](std::uint32_t draw) {
      return is_expired(pass, draw & Selection::kPlace);
    };
    const auto rest = draws.begin() + static_cast<std::ptrdiff_t>(drawn);
    draws.erase(std::remove_if(rest, draws.end(), is_late), draws.end());
    return {renewed, now.draws.size() - draws.size()};
  }

  SharedSelection resume(const Part& pass, const SavedSelection& saved) override {
    if (saved.first != pass.window.first || saved.marks.size() != pass.window.count)
      throw std::invalid_argument("the selection is of another pass");
    const auto selection = plain(pass);
    marks_ = saved.marks;
    if (options_.thins()) selection->weight = weight();
    keep(selection->draws);
    selection->uses = saved.uses;
    return selection;
  }

 private:
  /// All that the pass sweeps.
  std::shared_ptr<Selection> plain(const Part& pass) const {
    auto selection = std::make_shared<Selection>();
    const auto count = static_cast<std::uint32_t>(pass.swept());
    selection->first = pass.window.first;
    selection->places = pass.window.count;
    selection->draws.resize(count);
    const Permutation order(count,
                            permutation_key(options_.seed, epoch_.number, pass.pass));
    permute_range(order, 0, count, selection->draws.data());
    pass.sparse.place_all(selection->draws.data(), count);
    return selection;
  }

  float weight() const { return static_cast<float>(1 / (1 - options_.thin)); }

  /// Marks the records whose last loss is below the mean of the window; false, if there
  /// was no report.
  bool thin(const Part& pass, Selection& selection) {
    const Thinning coins(options_.seed, epoch_.number, pass.pass, options_.thin);
    bool any = false;
    losses_.look(pass.window.first, pass.window.count,
                 [&](const float* one, std::uint64_t run, const float* other,
                     std::uint64_t rest) {
                   any = run > 0;
                   if (!any) return;
                   LossSum sum;
                   sum.add(one, run);
                   sum.add(other, rest);
                   coins.mark(pass.window.first, one, run, sum.mean(), marks_.data());
                   coins.mark(pass.window.first + run, other, rest, sum.mean(),
                              marks_.data() + run);
                 });
    selection.weight = weight();
    return any;
  }

  /// Records with lower versions are drawn no more.
  std::int64_t oldest() const {
    if (!versions_ || newest_ <= options_.max_staleness) return 0;
    return newest_ - options_.max_staleness;
  }
  bool is_expired(const Part& pass, std::uint32_t place) const {
    return versions_->at(epoch_.position(pass.window.first + place)) < oldest();
  }

  /// Unmarks records that have expired; the draws that they would have had.
  std::uint64_t expire(const Part& pass, const Selection& selection) {
    if (!versions_ || oldest() <= 0) return 0;
    std::uint64_t expired = 0;
    for (const std::uint32_t place : selection.draws) {
      if (!is_expired(pass, place)) continue;
      ++expired;
      marks_[place] = 0;
    }
    return expired;
  }

  /// Leaves the draws of places that are marked.
  void keep(std::vector<std::uint32_t>& draws) const {
    static_assert(SavedSelection::kWeighted == 2 && SavedSelection::kDrawn == 1);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < draws.size(); ++i) {
      const std::uint32_t place = draws[i];
      const std::uint32_t mark = marks_[place];
      draws[kept] = place | mark >> 1 << 31;
      kept += mark & 1;
    }
    draws.resize(kept);
  }

  void count_uses(const Part& pass, const Selection* before,
                  Selection& selection) const {
    std::vector<std::uint32_t>& uses = selection.uses;
    uses.resize(pass.window.count);
    if (before) {
      // Records have left, and others have come.
      const std::uint64_t left = std::min<std::uint64_t>(
          pass.window.first - before->first, before->uses.size());
      const std::uint64_t stay =
          std::min<std::uint64_t>(before->uses.size() - left, uses.size());
      std::copy_n(before->uses.begin() + static_cast<std::ptrdiff_t>(left), stay,
                  uses.begin());
    }
    if (pass.sparse.left_out() == 0)
      for (std::uint64_t i = 0; i < uses.size(); ++i)
        uses[i] += marks_[i] & SavedSelection::kDrawn;
    else  // the pass does not sweep all that are marked
      for (const std::uint32_t draw : selection.draws) ++uses[draw & Selection::kPlace];
  }

  const BufferOptions& options_;
  const Versions* const versions_;
  Losses losses_;
  Epoch epoch_;
  std::int64_t newest_ = -1;
  std::uint64_t seen_ = 0;  // records whose versions are known

  std::vector<std::uint8_t> marks_;  // of the places of a window: SavedSelection's
};

}  // namespace echobuf
