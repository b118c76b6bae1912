// The tables of a draw of records that differ in length: written on the host, read by
// the kernel.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "echobuf/cuda/handles.hpp"
#include "echobuf/store/record.hpp"

namespace echobuf::cuda {

/// Words of 8 bytes in the device's memory, and the same in pinned memory a few times,
/// since a copy may still be on its way when the next batch is planned.
class DrawTable {
 public:
  DrawTable(const SharedContext& context, std::size_t words,
            std::size_t copies = kCopies)
      : context_(context),
        words_(words),
        device_(make_device_memory(context, words * sizeof(std::uint64_t))),
        noted_(context->driver().note_host_access()) {
    for (std::size_t i = 0; i < copies; ++i)
      copies_.push_back({make_pinned_memory(context, words * sizeof(std::uint64_t)),
                         make_event(context)});
  }

  static std::size_t bytes(std::size_t words) { return words * sizeof(std::uint64_t); }
  static constexpr std::size_t kCopies = 4;
  std::size_t device_bytes() const { return bytes(words_); }

  /// Begins the table of another batch.
  void begin() {
    next_ = (next_ + 1) % copies_.size();
    used_ = 0;
    if (copies_[next_].enqueued)
      context_->driver().event_synchronize(copies_[next_].arrived->get());
  }

  /// The next `words` of the table, at a multiple of 16 bytes.
  std::uint64_t* add(std::size_t words) {
    std::uint64_t* const at = host() + used_;
    used_ += round_up(words, 2);
    return at;
  }
  /// Where a table begins on the device.
  Address begin_address() const { return device_->get(); }
  /// Where a word of this table will be on the device.
  Address address(const std::uint64_t* word) const {
    return device_->get() + static_cast<Address>(word - host()) * sizeof(std::uint64_t);
  }

  /// Enqueues the copy to the device.
  void send(StreamHandle stream) {
    Copy& copy = copies_[next_];
    const std::size_t bytes = used_ * sizeof(std::uint64_t);
    if (noted_) noted_(host(), bytes, 1);
    context_->driver().copy_to_device(device_->get(), static_cast<const void*>(host()),
                                      bytes, stream);
    context_->driver().event_record(copy.arrived->get(), stream);
    copy.enqueued = true;
  }

 private:
  struct Copy {
    std::unique_ptr<PinnedMemory> memory;
    std::unique_ptr<Event> arrived;
    bool enqueued = false;
  };

  std::uint64_t* host() const {
    return static_cast<std::uint64_t*>(copies_[next_].memory->get());
  }

  const SharedContext context_;
  const std::size_t words_;
  const std::unique_ptr<DeviceMemory> device_;
  const NoteHostAccess noted_;
  std::vector<Copy> copies_;
  std::size_t next_ = 0;
  std::size_t used_ = 0;
};

}  // namespace echobuf::cuda
