// The draws of passes that leave some of the window's records out. Values, and what
// chooses them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "echobuf/schedule/part.hpp"

namespace echobuf {

/// The part of a checkpoint that says which records the current pass draws.
struct SavedSelection {
  std::uint64_t first = 0;          // record at place 0
  std::vector<std::uint8_t> marks;  // of each place of the window: 1 where it is drawn

  bool operator==(const SavedSelection&) const = default;

  std::uint64_t draws() const {
    return static_cast<std::uint64_t>(std::count(marks.begin(), marks.end(), 1));
  }
};

/// The same of the whole walk.
struct SelectionState {
  SavedSelection pass;  // the current one
  std::uint64_t expired = 0;
  std::int64_t newest = -1;

  bool operator==(const SelectionState&) const = default;
};

/// Returns what a checkpoint holds of a selection.
inline SavedSelection save(const Selection& selection) {
  SavedSelection saved{selection.first, std::vector<std::uint8_t>(selection.places, 0)};
  for (const std::uint32_t place : selection.draws) saved.marks[place] = 1;
  return saved;
}

/// Chooses the draws of passes. One caller at a time.
class Selector {
 public:
  Selector() = default;
  Selector(const Selector&) = delete;
  Selector& operator=(const Selector&) = delete;
  virtual ~Selector() = default;

  /// Begins a pass.
  virtual SharedSelection select(const Part& pass) = 0;
  /// Goes on with a pass of which `drawn` draws were taken: leaves out what has expired
  /// since it was selected.
  virtual SharedSelection renew(const Part& pass, std::uint64_t drawn) = 0;
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

  /// Draws that passes over the whole window would have had, up to the end of this one:
  /// those of records that had expired.
  std::uint64_t expired() const { return expired_; }
  /// See Selector; of the last step.
  std::int64_t newest() const { return newest_; }

  /// Returns what a checkpoint holds of it; none before the first pass.
  std::optional<SelectionState> selection_state() const {
    if (saved_) return SelectionState{*saved_, expired_, newest_};
    if (!selection_) return std::nullopt;
    return SelectionState{save(*selection_), expired_, newest_};
  }

  /// Goes on from a checkpoint.
  void restore(SelectionState state) {
    expired_ = state.expired;
    newest_ = state.newest;
    saved_ = std::make_shared<const SavedSelection>(std::move(state.pass));
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
    saved_.reset();
    take(pass, selector_->select(pass), pass.swept());
  }

  /// `pass` goes on, from draw `drawn` on.
  void renew_selection(Part& pass, std::uint64_t drawn) {
    if (!selector_) return;
    newest_ = selector_->newest();
    if (saved_) selection_ = selector_->resume(pass, *saved_);
    saved_.reset();
    pass.selection = selection_;
    take(pass, selector_->renew(pass, drawn), pass.of_pass());
  }

 private:
  void take(Part& pass, SharedSelection selected, std::uint64_t before) {
    selection_ = std::move(selected);
    pass.selection = selection_;
    expired_ += before - pass.of_pass();
  }

  Selector* selector_ = nullptr;
  SharedSelection selection_;
  std::shared_ptr<const SavedSelection> saved_;  // of a pass that was begun before
  std::uint64_t expired_ = 0;
  std::int64_t newest_ = -1;
};

}  // namespace echobuf
