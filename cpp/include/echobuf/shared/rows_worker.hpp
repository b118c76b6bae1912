// Runs in a worker process: takes tickets, and leaves examples that differ in length in
// the worker's area.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "echobuf/shared/rows_area.hpp"
#include "echobuf/shared/worker_queue.hpp"
#include "echobuf/sync/wait_for.hpp"

namespace echobuf::workers {

/// A worker process's end of its queue, and its area. For one thread.
class RowsWorker : public QueueWorker {
 public:
  RowsWorker(int control_block, std::uint64_t queues, std::uint64_t queue, int areas,
             const AreaSizes& sizes, AreaRecord record)
      : QueueWorker(control_block, queues, queue),
        record_(std::move(record)),
        areas_(areas, queues, sizes),
        header_(areas_.header(queue)),
        data_(areas_.data(queue)) {}

  /// Writes the example of the ticket that was taken, once the trainer has put enough
  /// of those before. One leaf for each field. kClosed: the pool is closed, or the
  /// ticket is revoked, and may be marked as done unwritten.
  Status write(const SourceLeaf* leaves, Deadline deadline) {
    const std::uint64_t bytes = record_.bytes_of(leaves);
    std::uint64_t begin = 0;
    const Status status = wait_for(deadline, nullptr, [&]() -> Attempt {
      if (is_closed() || is_revoked()) return {Status::kClosed};
      const std::optional<std::uint64_t> place = find(bytes);
      if (!place) return {Status::kTimeout, &work()};
      begin = *place;
      return {Status::kOk};
    });
    if (status != Status::kOk) return status;
    record_.write(data_ + begin, leaves);
    header_.runs[ticket() % WorkerQueue::kDepth] = {ticket() + 1, begin, begin + bytes};
    return Status::kOk;
  }

 private:
  /// Returns where so many bytes have room. The examples that lie in the area are those
  /// of the tickets that are not collected, in their order; a process that died may
  /// have written them. With none there is room for the largest, so a worker whose
  /// example is the next to be put never waits here.
  std::optional<std::uint64_t> find(std::uint64_t bytes) const {
    const std::optional<AreaHeader::Run> oldest = first_run();
    if (!oldest) return 0;
    const std::uint64_t end = last_run()->end;
    if (end > oldest->begin) {
      if (end + bytes <= areas_.sizes().usual) return end;
      if (bytes <= oldest->begin) return 0;
      return std::nullopt;
    }
    if (end + bytes <= oldest->begin) return end;
    return std::nullopt;
  }

  std::optional<AreaHeader::Run> run_of(std::uint64_t ticket) const {
    // Another's: the ticket was revoked, and marked as done unwritten.
    const AreaHeader::Run& run = header_.runs[ticket % WorkerQueue::kDepth];
    if (run.ticket != ticket + 1) return std::nullopt;
    return run;
  }
  std::optional<AreaHeader::Run> first_run() const {
    // Acquire: see AreaHeader::collected.
    for (auto t = header_.collected.load(std::memory_order_acquire); t < ticket(); ++t)
      if (const auto run = run_of(t)) return run;
    return std::nullopt;
  }
  std::optional<AreaHeader::Run> last_run() const {
    for (std::uint64_t t = ticket(); t-- > 0;)
      if (const auto run = run_of(t)) return run;
    return std::nullopt;
  }

  const AreaRecord record_;
  const RowsAreas areas_;
  AreaHeader& header_;
  std::byte* const data_;
};

}  // namespace echobuf::workers
