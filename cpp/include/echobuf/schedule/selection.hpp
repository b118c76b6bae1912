// The draws of passes that leave some of the window's records out. Values, and what
// chooses them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "echobuf/schedule/part.hpp"

namespace echobuf {

/// What a checkpoint holds of a selection: enough to choose the same again.
struct SavedSelection {
  static constexpr std::uint8_t kDrawn = 1;
  static constexpr std::uint8_t kWeighted = 2;

  std::uint64_t first = 0;          // record at place 0
  std::vector<std::uint8_t> marks;  // of each place of the window
  std::vector<std::uint32_t> uses;  // as Selection's

  bool operator==(const SavedSelection&) const = default;

  std::uint64_t draws() const {
    std::uint64_t drawn = 0;
    for (const std::uint8_t mark : marks) drawn += mark & kDrawn;
    return drawn;
  }
};

/// The same of the whole walk.
struct SelectionState {
  SavedSelection pass;  // the current one
  std::uint64_t left_out = 0;
  std::uint64_t expired = 0;
  std::int64_t newest = -1;

  bool operator==(const SelectionState&) const = default;
};

/// Returns what a checkpoint holds of a selection.
inline SavedSelection save(const Selection& selection) {
  SavedSelection saved{selection.first, std::vector<std::uint8_t>(selection.places, 0),
                       selection.uses};
  for (const std::uint32_t draw : selection.draws) {
    const bool weighted = (draw & Selection::kWeighted) != 0;
    saved.marks[draw & Selection::kPlace] = static_cast<std::uint8_t>(
        SavedSelection::kDrawn | (weighted ? SavedSelection::kWeighted : 0));
  }
  return saved;
}

/// Chooses the draws of passes. One caller at a time.
class Selector {
 public:
  /// A selection, and the draws that expired since the last one of the pass.
  struct Selected {
    SharedSelection selection;
    std::uint64_t expired = 0;
  };

  Selector() = default;
  Selector(const Selector&) = delete;
  Selector& operator=(const Selector&) = delete;
  virtual ~Selector() = default;

  /// Begins a pass. `before`: the selection of the pass before, if there was one.
  virtual Selected select(const Part& pass, const Selection* before) = 0;
  /// Goes on with a pass of which `drawn` draws were taken: leaves out what has expired
  /// since it was selected.
  virtual Selected renew(const Part& pass, std::uint64_t drawn) = 0;
  /// Chooses again what a checkpoint holds. Throws std::invalid_argument where it is of
  /// another pass.
  virtual SharedSelection resume(const Part& pass, const SavedSelection& saved) = 0;

  /// Returns the highest version that was put; negative, if there was none.
  virtual std::int64_t newest() const = 0;
};

/// The selection of a walk's pass: the part that walks over passes share. A copy of a
/// walk has the same draws, until it begins another pass.
class Selecting {
 public:
  /// Passes leave out what `selector` says, which must outlive this and its copies;
  /// null: nothing. Before the first step.
  void select_by(Selector* selector) { selector_ = selector; }
  bool selects() const { return selector_ != nullptr; }

  /// Draws that passes over the whole window would have had, up to the end of this one.
  std::uint64_t left_out() const { return left_out_; }
  /// Of these, those of records that had expired.
  std::uint64_t expired() const { return expired_; }
  /// See Selector; of the last step.
  std::int64_t newest() const { return newest_; }

  /// Returns what a checkpoint holds of it; none before the first pass.
  std::optional<SelectionState> selection_state() const {
    if (saved_) return SelectionState{*saved_, left_out_, expired_, newest_};
    if (!selection_) return std::nullopt;
    return SelectionState{save(*selection_), left_out_, expired_, newest_};
  }

  /// Goes on from a checkpoint. `pass_done`: its pass is over.
  void restore(SelectionState state, bool pass_done) {
    left_out_ = state.left_out;
    expired_ = state.expired;
    newest_ = state.newest;
    if (!pass_done) {
      saved_ = std::make_shared<const SavedSelection>(std::move(state.pass));
      return;
    }
    // Its draws are over: their number, and the uses, are what is needed of it.
    auto over = std::make_shared<Selection>();
    over->first = state.pass.first;
    over->places = state.pass.marks.size();
    for (std::uint32_t place = 0; place < over->places; ++place) {
      const std::uint8_t mark = state.pass.marks[place];
      const bool weighted = (mark & SavedSelection::kWeighted) != 0;
      if (mark & SavedSelection::kDrawn)
        over->draws.push_back(place | (weighted ? Selection::kWeighted : 0));
    }
    over->uses = std::move(state.pass.uses);
    selection_ = std::move(over);
  }

 protected:
  /// The draws of a pass that has so many if nothing is left out.
  std::uint64_t size(std::uint64_t swept) const {
    if (saved_) return saved_->draws();
    return selection_ ? selection_->draws.size() : swept;
  }

  /// `pass` begins.
  void begin_selection(Part& pass) {
    if (!selector_) return;
    newest_ = selector_->newest();
    take(pass, selector_->select(pass, selection_.get()), pass.swept());
  }

  /// `pass` goes on, from draw `drawn` on.
  void renew_selection(Part& pass, std::uint64_t drawn) {
    if (!selector_) return;
    newest_ = selector_->newest();
    if (saved_) selection_ = selector_->resume(pass, *saved_);
    saved_.reset();
    pass.selection = selection_;
    const std::uint64_t before = pass.of_pass();
    take(pass, selector_->renew(pass, drawn), before);
  }

 private:
  void take(Part& pass, Selector::Selected&& selected, std::uint64_t before) {
    selection_ = std::move(selected.selection);
    pass.selection = selection_;
    left_out_ += before - pass.of_pass();
    expired_ += selected.expired;
  }

  Selector* selector_ = nullptr;
  SharedSelection selection_;
  std::shared_ptr<const SavedSelection> saved_;
  std::uint64_t left_out_ = 0;
  std::uint64_t expired_ = 0;
  std::int64_t newest_ = -1;
};

}  // namespace echobuf
