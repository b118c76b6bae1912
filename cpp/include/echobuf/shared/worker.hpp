// Runs in a worker process: takes tickets and writes records into the ring's slots.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "echobuf/shared/worker_queue.hpp"
#include "echobuf/store/host_store.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/sync/wait_for.hpp"

namespace echobuf::workers {

/// A worker process's end of its queue, and the slots. For one thread.
class Worker : public QueueWorker {
 public:
  /// `slots`: of the trainer's ring, `capacity` of them.
  Worker(int control_block, std::uint64_t queues, std::uint64_t queue, int slots,
         RecordLayout layout, std::uint64_t capacity)
      : QueueWorker(control_block, queues, queue),
        layout_(std::move(layout)),
        capacity_(capacity),
        slots_(slots, size_product(capacity, layout_.stride())),
        stream_(HostStore::streams(slots_.bytes())) {}

  const RecordLayout& layout() const { return layout_; }

  /// Writes the example that was taken. One leaf for each field.
  Status write(const SourceLeaf* leaves, Deadline /*deadline*/ = kAtOnce) {
    std::byte* slot = slots_.data() + position() % capacity_ * layout_.stride();
    write_record(layout_, slot, leaves, 0, 0, stream_);
    if (stream_) finish_streaming();
    return Status::kOk;
  }

 private:
  const RecordLayout layout_;
  const std::uint64_t capacity_;
  SharedMemory slots_;
  const RowCopy stream_;
};

}  // namespace echobuf::workers
