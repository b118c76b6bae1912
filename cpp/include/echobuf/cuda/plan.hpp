// The plan of the next batch on the device: parts of passes, in the order of its rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "echobuf/buffer/options.hpp"
#include "echobuf/draw/draw_kernel.hpp"

namespace echobuf::cuda {

/// Returns how many parts a batch can have: each but the first begins a pass. With a
/// fixed factor passes are short at an epoch's start and end, or all of them, if the
/// epoch is shorter than a segment: then there are ceil(factor) in all. The segments of
/// "auto" are at least an eighth of a batch.
inline std::uint64_t most_parts(const BufferOptions& options) {
  constexpr std::uint64_t kMostOfAuto = 16;
  return std::min(options.batch_size,
                  options.automatic ? kMostOfAuto : options.factor.ceil() + 2);
}

class Plan {
 public:
  /// `uses`: of records that it says at most. Throws std::bad_alloc. Nothing is
  /// allocated later.
  Plan(std::uint64_t most, std::uint64_t uses) : most_(most) {
    parts_.reserve(most);
    uses_.reserve(uses);
  }

  /// Begins the plan of a batch.
  void begin(const BatchNumber& number) {
    parts_.clear();
    number_ = number;
    uses_.clear();
    rows_ = 0;
    end_ = 0;
  }

  /// Adds the use of a record that the next row is, where draws know it.
  void add_use(const DrawnUse& use) { uses_.push_back(use); }
  const std::vector<DrawnUse>& uses() const { return uses_; }

  /// Adds the next rows: they are there once all records below `end` are.
  void add(DrawPart part, std::uint64_t end) {
    if (parts_.size() == most_) throw std::logic_error("a batch of too many parts");
    part.row = static_cast<std::uint32_t>(rows_);
    rows_ += part.count;
    end_ = std::max(end_, end);
    parts_.push_back(part);
  }

  std::span<const DrawPart> parts() const { return parts_; }
  const BatchNumber& number() const { return number_; }
  std::uint64_t rows() const { return rows_; }
  /// Ring position up to which records are read.
  std::uint64_t end() const { return end_; }

 private:
  const std::uint64_t most_;
  std::vector<DrawPart> parts_;
  std::vector<DrawnUse> uses_;  // of all rows, or none
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
