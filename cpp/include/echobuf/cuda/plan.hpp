// The plan of the next batch on the device: parts of passes, in the order of its rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "echobuf/draw/draw_kernel.hpp"
#include "echobuf/draw/leaf_plan.hpp"
#include "echobuf/options.hpp"

namespace echobuf::cuda {

/// Returns how many parts a batch can have: each but the first begins a pass. With a
/// fixed factor passes are short at an epoch's start and end, or all of them, if the
/// epoch is shorter than a segment: then there are ceil(factor) in all. The segments of
/// "auto" are at least an eighth of a batch. Passes that leave records out may be of
/// any length, and are one part that lists its records, behind those that were held.
inline std::uint64_t most_parts(const BufferOptions& options) {
  constexpr std::uint64_t kMostOfAuto = 16;
  if (options.expires()) return 2;
  return std::min(options.batch_size,
                  options.automatic ? kMostOfAuto : options.factor.ceil() + 2);
}

class Plan {
 public:
  /// Throws std::bad_alloc. Nothing is allocated later.
  explicit Plan(const BufferOptions& options) : most_(most_parts(options)) {
    parts_.reserve(most_);
    if (options.echoes) uses_.reserve(options.batch_size);
    if (options.expires()) slots_.reserve(options.batch_size);
  }

  /// Begins the plan of a batch.
  void begin(const BatchNumber& number) {
    parts_.clear();
    number_ = number;
    uses_.clear();
    slots_.clear();
    rows_ = 0;
    end_ = 0;
  }

  /// Adds the use of a record that the next row is, where draws know it.
  void add_use(const DrawnUse& use) { uses_.push_back(use); }
  const std::vector<DrawnUse>& uses() const { return uses_; }

  /// Adds the next rows: they are there once all records below `end` are.
  void add(DrawPart part, std::uint64_t end) {
    part.row = static_cast<std::uint32_t>(rows_);
    rows_ += part.count;
    end_ = std::max(end_, end);
    if (part.is_listed()) {
      part.offset = part.row;
      if (!parts_.empty() && parts_.back().is_listed()) {
        parts_.back().count += part.count;
        return;
      }
      slots_.resize(part.row);  // of rows before that are in no list
    }
    if (parts_.size() == most_) throw std::logic_error("a batch of too many parts");
    parts_.push_back(part);
  }
  /// Adds the slot of the next row of a part that lists them, which was added before.
  void add_slot(std::uint64_t slot) {
    slots_.push_back(static_cast<std::uint32_t>(slot));
  }
  /// Those of all rows, where parts list them.
  const std::vector<std::uint32_t>& slots() const { return slots_; }

  std::span<const DrawPart> parts() const { return parts_; }
  const BatchNumber& number() const { return number_; }
  std::uint64_t rows() const { return rows_; }
  /// Ring position up to which records are read.
  std::uint64_t end() const { return end_; }

 private:
  const std::uint64_t most_;
  std::vector<DrawPart> parts_;
  std::vector<DrawnUse> uses_;        // of all rows, or none
  std::vector<std::uint32_t> slots_;  // the same
  BatchNumber number_;
  std::uint64_t rows_ = 0;
  std::uint64_t end_ = 0;
};

/// Calls `use` with as many parts of batch `number` at a time as a launch takes,
/// numbered from `first` on.
template <class Use>
void for_launches(std::span<const DrawPart> parts, const BatchNumber& number,
                  Use&& use) {
  for (std::size_t first = 0; first < parts.size(); first += kDrawParts) {
    const auto some =
        parts.subspan(first, std::min<std::size_t>(kDrawParts, parts.size() - first));
    DrawParts launch;
    launch.batch = number;
    launch.first = static_cast<std::uint32_t>(first);
    launch.count = static_cast<std::uint32_t>(some.size());
    std::copy(some.begin(), some.end(), launch.part);
    use(launch);
  }
}

}  // namespace echobuf::cuda
