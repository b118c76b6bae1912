// The choice of the draws of a pass, by the losses and the versions of records.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "echobuf/buffer/options.hpp"
#include "echobuf/schedule/epoch.hpp"
#include "echobuf/schedule/permutation.hpp"
#include "echobuf/schedule/permutation_range.hpp"
#include "echobuf/schedule/selection.hpp"
#include "echobuf/schedule/thinning.hpp"
#include "echobuf/store/losses.hpp"
#include "echobuf/store/versions.hpp"

namespace echobuf {

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
    losses_.clear();
  }

  /// The records of the epoch below `end` have been put.
  void note_put(std::uint64_t end) {
    if (!versions_) return;
    for (; seen_ < end; ++seen_)
      newest_ = std::max(newest_, versions_->at(epoch_.position(seen_)));
  }

  std::int64_t newest() const override { return newest_; }
  Losses& losses() { return losses_; }
  const Losses& losses() const { return losses_; }

  Selected select(const Part& pass, const Selection* before) override {
    const auto selection = plain(pass);
    marks_.assign(pass.window.count, SavedSelection::kDrawn);
    if (options_.thins()) thin(pass, *selection);
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

  /// Marks the records whose last loss is below the mean of the window.
  void thin(const Part& pass, Selection& selection) {
    const std::uint64_t count = pass.window.count;
    found_.resize(count);
    if (!losses_.read(pass.window.first, count, found_.data())) return;
    double sum = 0;
    std::uint64_t known = 0;
    for (const float loss : found_) {
      const bool is_known = loss == loss;
      sum += is_known ? loss : 0;
      known += is_known ? 1 : 0;
    }
    const double mean = known > 0 ? sum / static_cast<double>(known) : 0;
    const Thinning coins(options_.seed, epoch_.number, pass.pass, options_.thin);
    for (std::uint64_t place = 0; place < count; ++place) {
      const bool is_low = static_cast<double>(found_[place]) < mean;  // no NaN is
      const bool is_out = coins.leaves_out(pass.window.first + place);
      constexpr std::uint8_t kStays = SavedSelection::kDrawn;
      constexpr std::uint8_t kCounts = kStays | SavedSelection::kWeighted;
      marks_[place] = is_low ? (is_out ? 0 : kCounts) : kStays;
    }
    selection.weight = weight();
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
    uses.assign(pass.window.count, 0);
    if (before) {
      // Records have left, and others have come.
      const std::uint64_t left =
          std::min<std::uint64_t>(pass.window.first - before->first, before->uses.size());
      const std::uint64_t stay =
          std::min<std::uint64_t>(before->uses.size() - left, uses.size());
      std::copy_n(before->uses.begin() + static_cast<std::ptrdiff_t>(left), stay,
                  uses.begin());
    }
    for (const std::uint32_t draw : selection.draws) ++uses[draw & Selection::kPlace];
  }

  const BufferOptions& options_;
  const Versions* const versions_;
  Losses losses_;
  Epoch epoch_;
  std::int64_t newest_ = -1;
  std::uint64_t seen_ = 0;  // records whose versions are known

  std::vector<std::uint8_t> marks_;  // of the places of a window: SavedSelection's
  std::vector<float> found_;         // their losses
};

}  // namespace echobuf
