// Pinned memory for the slots of records on their way to the device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "echobuf/cuda/handles.hpp"
#include "echobuf/store/borrowed_slots.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/store/shared_memory.hpp"
#include "echobuf/store/slots.hpp"
#include "echobuf/store/source_leaf.hpp"

namespace echobuf::cuda {

inline constexpr std::size_t kStagingBytes = std::size_t{64} << 20;

/// Bytes of a run of records that are uploaded together, or one record.
inline constexpr std::uint64_t kRunBytes = std::uint64_t{4} << 20;

class StagedSlots {
 public:
  /// `slots` of staging; lengths of ragged records are kept for `lengths` positions.
  /// `shared`: with processes that write records themselves.
  StagedSlots(const SharedContext& context, RecordLayout layout, std::uint64_t slots,
              std::uint64_t lengths, bool shared = false)
      : context_(context),
        layout_(std::move(layout)),
        slots_(slots),
        memory_(shared ? nullptr : make_pinned_memory(context, bytes())),
        shared_(shared ? std::make_unique<SharedPinnedMemory>(context, bytes())
                       : nullptr),
        base_(static_cast<std::byte*>(shared_ ? shared_->memory().data()
                                              : memory_->get())),
        stream_(Slots::streams(bytes())),
        lengths_(layout_.in_batches() ? lengths : 0),
        noted_(context->driver().note_host_access()) {}

  /// The slots are borrowed: nothing is written.
  StagedSlots(const SharedContext& context, RecordLayout layout,
              const BorrowedSlots& borrowed)
      : context_(context),
        layout_(std::move(layout)),
        slots_(borrowed.slots),
        shared_(std::make_unique<SharedPinnedMemory>(context, borrowed.memory)),
        base_(shared_->memory().data()),
        borrowed_(true),
        noted_(context->driver().note_host_access()) {}

  const RecordLayout& layout() const { return layout_; }
  std::uint64_t slots() const { return slots_; }

  bool is_borrowed() const { return borrowed_; }
  /// Returns the memory of the slots, if they are shared.
  const SharedMemory* shared_memory() const {
    return shared_ ? &shared_->memory() : nullptr;
  }

  /// Writes examples as Slots does.
  void write(std::uint64_t position, std::uint64_t count, const SourceLeaf* leaves,
             std::uint64_t from, std::size_t rows) {
    const RowCopy large = count * layout_.stride() >= kStreamPut ? stream_ : nullptr;
    for (std::uint64_t i = 0; i < count; ++i) {
      std::byte* record = at(position + i);
      write_record(layout_, record, leaves, from + i, rows, large);
      if (noted_) noted_(record, layout_.stride(), 1);
      if (!lengths_.empty()) lengths_[(position + i) % lengths_.size()] = rows;
    }
    if (large) finish_streaming();
  }

  /// Writes one field of an example, of so many bytes.
  void write_field(std::uint64_t position, std::size_t field, const SourceLeaf& leaf,
                   std::uint64_t index, std::size_t bytes) const {
    std::byte* const to = at(position) + layout_.fields()[field].offset;
    echobuf::detail::copy_field(
        to, leaf.data + static_cast<std::ptrdiff_t>(index) * leaf.stride, bytes);
    if (noted_ && bytes > 0) noted_(to, bytes, 1);
  }
  /// Notes the examples of whole batches that do not come this way.
  void note_length(std::uint64_t position, std::uint64_t count, std::size_t rows) {
    for (std::uint64_t i = 0; !lengths_.empty() && i < count; ++i)
      lengths_[(position + i) % lengths_.size()] = rows;
  }

  /// Notes that another process writes at these positions.
  void note_writes(std::uint64_t position, std::uint64_t count) const {
    for (std::uint64_t i = 0; noted_ && i < count; ++i)
      noted_(at(position + i), layout_.stride(), 1);
  }

  std::byte* at(std::uint64_t position) const {
    return base_ + position % slots_ * layout_.stride();
  }

  // ---- the uploader

  /// Records of a run at most.
  std::uint64_t most_of_run() const {
    return std::max<std::uint64_t>(1, kRunBytes / layout_.stride());
  }
  /// Enqueues the copy of a run, which lies in one piece on both sides.
  /// `window`: `capacity` slots on the device.
  void upload(std::uint64_t first, std::uint64_t count, Address window,
              std::uint64_t capacity, StreamHandle stream) const {
    const std::size_t stride = layout_.stride();
    context_->driver().copy_to_device(window + first % capacity * stride,
                                      static_cast<const void*>(at(first)),
                                      count * stride, stream);
  }

  /// The examples of a whole batch, until its slot in the window is taken.
  std::size_t length(std::uint64_t position) const {
    return lengths_[position % lengths_.size()];
  }

 private:
  std::size_t bytes() const { return size_product(slots_, layout_.stride()); }

  const SharedContext context_;
  const RecordLayout layout_;
  const std::uint64_t slots_;
  const std::unique_ptr<PinnedMemory> memory_;  // or
  const std::unique_ptr<SharedPinnedMemory> shared_;
  std::byte* const base_;
  const RowCopy stream_ = nullptr;  // where the device alone reads what is written
  const bool borrowed_ = false;
  std::vector<std::uint64_t> lengths_;
  const NoteHostAccess noted_;
};

}  // namespace echobuf::cuda
