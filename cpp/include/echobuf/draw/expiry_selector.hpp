// The choice of the draws of a pass: those of records that have not expired.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>

#include "echobuf/options.hpp"
#include "echobuf/schedule/epoch.hpp"
#include "echobuf/schedule/permutation.hpp"
#include "echobuf/schedule/permutation_range.hpp"
#include "echobuf/schedule/selection.hpp"
#include "echobuf/store/versions.hpp"

namespace echobuf {

/// The draws that are left keep the order that they have in a pass over all of the
/// window: an order as random, and the same for any other choice of records.
class ExpirySelector final : public Selector {
 public:
  /// `versions`: of the records in the ring; they must outlive this.
  ExpirySelector(const BufferOptions& options, const Versions& versions)
      : options_(options), versions_(versions) {}

  /// Begins an epoch, or goes on in it where `newest` was the highest version.
  void begin(const Epoch& epoch, std::int64_t newest) {
    epoch_ = epoch;
    newest_ = newest;
    seen_ = epoch.origin;
  }

  /// The records of the epoch below `end` have been put.
  void note_put(std::uint64_t end) {
    for (; seen_ < end; ++seen_)
      newest_ = std::max(newest_, versions_.at(epoch_.position(seen_)));
  }
  std::int64_t newest() const override { return newest_; }

  SharedSelection select(const Part& pass) override {
    const auto selection = whole(pass);
    drop_expired(pass, 0, *selection);
    return selection;
  }

  SharedSelection renew(const Part& pass, std::uint64_t drawn) override {
    if (oldest() <= pass.selection->oldest) return pass.selection;
    const auto renewed = std::make_shared<Selection>(*pass.selection);
    drop_expired(pass, drawn, *renewed);
    return renewed;
  }

  SharedSelection resume(const Part& pass, const SavedSelection& saved) override {
    if (saved.first != pass.window.first || saved.marks.size() != pass.window.count)
      throw std::invalid_argument("the selection is of another pass");
    const auto selection = whole(pass);
    std::erase_if(selection->draws,
                  [&](std::uint32_t place) { return saved.marks[place] == 0; });
    return selection;
  }

 private:
  /// All that the pass sweeps.
  std::shared_ptr<Selection> whole(const Part& pass) const {
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

  /// Records with lower versions are drawn no more.
  std::int64_t oldest() const {
    return std::max<std::int64_t>(newest_ - options_.max_staleness, 0);
  }

  /// Leaves out the records that have expired, from draw `drawn` of the pass on.
  void drop_expired(const Part& pass, std::uint64_t drawn, Selection& selection) const {
    selection.oldest = oldest();
    if (selection.oldest == 0) return;
    const std::uint64_t window = epoch_.position(pass.window.first);
    const auto rest = selection.draws.begin() + static_cast<std::ptrdiff_t>(drawn);
    const auto left = std::remove_if(rest, selection.draws.end(), [&](auto place) {
      return versions_.at(window + place) < selection.oldest;
    });
    selection.draws.erase(left, selection.draws.end());
  }

  const BufferOptions& options_;
  const Versions& versions_;
  Epoch epoch_;
  std::int64_t newest_ = -1;
  std::uint64_t seen_ = 0;  // records whose versions are known
};

}  // namespace echobuf
