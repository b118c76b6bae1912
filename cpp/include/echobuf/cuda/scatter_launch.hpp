// The launches that write records into the window, of fields that lie anywhere.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "echobuf/cuda/draw_launch.hpp"
#include "echobuf/cuda/handles.hpp"
#include "echobuf/cuda/put_leaf.hpp"
#include "echobuf/draw/scatter_layout.hpp"

namespace echobuf::cuda {

/// The records of a launch, in slots that follow each other.
struct ScatterSlots {
  Address slots;
  std::uint64_t stride;
  std::uint64_t capacity;
  std::uint64_t first;  // slot
  std::uint64_t count;  // records

  /// One record, whose fields go to addresses.
  static ScatterSlots anywhere() { return {0, 0, 1, 0, 1}; }
};

/// Collects fields, and launches a kernel for as many as it takes.
class ScatterLaunch {
 public:
  /// `least_blocks`: for these there is room on the device at once.
  ScatterLaunch(const Driver& driver, FunctionHandle kernel, std::uint32_t least_blocks,
                const ScatterSlots& to, StreamHandle stream)
      : driver_(driver),
        kernel_(kernel),
        least_blocks_(least_blocks),
        to_(to),
        stream_(stream) {}

  /// Adds the field of each record at byte `to` of its slot. `from`: address of the
  /// first record's, the next one's `step` bytes on.
  void add(Address from, std::int64_t step, std::uint64_t to, std::uint64_t bytes,
           const FieldItems& items) {
    if (bytes == 0 || to_.count == 0) return;
    if (to_.count == 1) step = 0;
    std::vector<ScatterAxis> axes = merged(items, bytes);
    const std::uint64_t item =
        grain(axes, from | static_cast<std::uint64_t>(step) | kWord);
    const bool whole = item == kWord && axes.size() == 1 && axes[0].stride == 1;
    if (!whole) divide(axes, item);
    if (fields() == kScatterFields || axes_.size() + axes.size() > kScatterAxes)
      flush();
    ScatterField field{from, step, to, bytes, (bytes + kWord - 1) / kWord, 0, 0, 0};
    if (!whole) {
      field.item = static_cast<std::uint32_t>(item);
      field.axes = static_cast<std::uint32_t>(axes.size());
      field.axis = static_cast<std::uint32_t>(axes_.size());
      axes_.insert(axes_.end(), axes.begin(), axes.end());
    }
    (whole ? whole_ : other_).push_back(field);
  }

  /// Launches what was added and not launched. Throws Error.
  void flush() {
    if (fields() == 0) return;
    ScatterLayout layout;
    layout.slots = to_.slots;
    layout.stride = to_.stride;
    layout.capacity = to_.capacity;
    layout.first = to_.first;
    layout.count = static_cast<std::uint32_t>(to_.count);
    std::int32_t next = 0;
    for (auto [kind, fields] :
         {std::pair(&layout.whole, &whole_), std::pair(&layout.other, &other_)}) {
      kind->begin = next;
      for (ScatterField field : *fields) {
        kind->words += field.words;
        field.words = kind->words;
        layout.field[next++] = field;
      }
      fields->clear();
    }
    std::copy(axes_.begin(), axes_.end(), layout.axis);
    axes_.clear();
    auto [spread_out, blocks] = spread(layout, least_blocks_);
    void* arguments[] = {&spread_out};
    driver_.launch(kernel_, blocks, 1u, 1u, spread_out.threads, 1u, 1u, 0u, stream_,
                   arguments, static_cast<void**>(nullptr));
  }

 private:
  static constexpr std::uint64_t kWord = 16;

  std::size_t fields() const { return whole_.size() + other_.size(); }

  /// The axes of single bytes, without those of one entry, and with each that goes on
  /// where the one behind it ends made one with it.
  static std::vector<ScatterAxis> merged(const FieldItems& items, std::uint64_t bytes) {
    if (items.axes.empty()) return {{bytes, 1}};
    std::vector<ScatterAxis> axes;
    const auto add = [&](const ScatterAxis& axis) {
      if (axis.extent == 1) return;
      ScatterAxis* const last = axes.empty() ? nullptr : &axes.back();
      if (last && last->stride == static_cast<std::int64_t>(axis.extent) * axis.stride)
        *last = {last->extent * axis.extent, axis.stride};
      else
        axes.push_back(axis);
    };
    for (const ScatterAxis& axis : items.axes) add(axis);
    add({items.item, 1});
    if (axes.empty()) axes.push_back({1, 1});
    return axes;
  }

  /// The most bytes, a power of two, that lie together and that all addresses are
  /// multiples of; `known`: of these it is a divisor.
  static std::uint64_t grain(const std::vector<ScatterAxis>& axes,
                             std::uint64_t known) {
    const bool together = axes.back().stride == 1;
    if (together) known |= axes.back().extent;
    for (std::size_t i = 0; i + (together ? 1 : 0) < axes.size(); ++i)
      known |= static_cast<std::uint64_t>(axes[i].stride);
    if (!together) return 1;
    return known & (~known + 1);
  }

  /// Makes axes of bytes those of items.
  static void divide(std::vector<ScatterAxis>& axes, std::uint64_t item) {
    ScatterAxis& last = axes.back();
    if (last.stride != 1) return;  // of single bytes
    last = {last.extent / item, static_cast<std::int64_t>(item)};
    if (last.extent == 1 && axes.size() > 1) axes.pop_back();
  }

  const Driver& driver_;
  const FunctionHandle kernel_;
  const std::uint32_t least_blocks_;
  const ScatterSlots to_;
  const StreamHandle stream_;
  std::vector<ScatterField> whole_;
  std::vector<ScatterField> other_;
  std::vector<ScatterAxis> axes_;
};

}  // namespace echobuf::cuda
