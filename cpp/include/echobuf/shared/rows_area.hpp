// Memory in which a worker process leaves examples that differ in length, until the
// trainer has put them into the ring.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "echobuf/length_options.hpp"
#include "echobuf/shared/area_record.hpp"
#include "echobuf/shared/control_block.hpp"
#include "echobuf/store/shared_memory.hpp"

namespace echobuf::workers {

/// The areas of all workers. In front of each lies where its examples are.
class RowsAreas {
 public:
  RowsAreas(std::uint64_t workers, AreaRecord record, const AreaSizes& sizes)
      : record_(std::move(record)),
        sizes_(sizes),
        memory_(size_product(workers, stride(sizes))) {
    for (std::uint64_t i = 0; i < workers; ++i)
      new (memory_.data() + i * stride(sizes)) Runs;
  }

  /// Maps those of another process. Throws what SharedMemory throws.
  RowsAreas(int fd, std::uint64_t workers, AreaRecord record, const AreaSizes& sizes)
      : record_(std::move(record)),
        sizes_(sizes),
        memory_(fd, size_product(workers, stride(sizes))) {}

  const SharedMemory& memory() const { return memory_; }
  const AreaRecord& record() const { return record_; }
  const AreaSizes& sizes() const { return sizes_; }
  std::byte* data(std::uint64_t worker) const {
    return memory_.data() + worker * stride(sizes_) + kHeader;
  }

  /// Examples that lie in a worker's area, by their entries in its queue: those from
  /// `read` on that are not `done`, as far as they were written.
  struct Unread {
    std::uint64_t read;
    std::uint64_t done;
  };

  /// Returns where the next example of so many bytes has room. A process that died may
  /// have written those that are there. With none there is room for the largest, so a
  /// worker whose example is the next to be put never waits here.
  std::optional<std::uint64_t> find(std::uint64_t worker, Unread there,
                                    std::uint64_t bytes) const {
    const Run* oldest = nullptr;
    for (auto t = there.read; t < there.done && !oldest; ++t) oldest = run(worker, t);
    if (!oldest) return 0;
    const Run* last = nullptr;
    for (auto t = there.done; !last;) last = run(worker, --t);
    if (last->end > oldest->begin) {
      if (last->end + bytes <= sizes_.usual) return last->end;
      if (bytes <= oldest->begin) return 0;
      return std::nullopt;
    }
    if (last->end + bytes <= oldest->begin) return last->end;
    return std::nullopt;
  }

  /// Writes the example of an entry where find() has found room for so many bytes.
  void write(std::uint64_t worker, std::uint64_t entry, std::uint64_t begin,
             std::uint64_t bytes, const SourceLeaf* leaves) const {
    record_.write(data(worker) + begin, leaves);
    runs(worker)[entry % DoneQueue::kDepth] = {entry + 1, begin, begin + bytes};
  }

  /// Returns the example of an entry; none if the worker has written nonsense.
  std::optional<std::vector<SourceLeaf>> read(std::uint64_t worker,
                                              std::uint64_t entry) const {
    const Run run = runs(worker)[entry % DoneQueue::kDepth];
    if (run.entry != entry + 1 || run.begin % kFieldAlignment != 0 ||
        run.begin > sizes_.all)
      return std::nullopt;
    return record_.read(data(worker) + run.begin, sizes_.all - run.begin);
  }

 private:
  struct Run {
    std::uint64_t entry;  // plus 1: 0 is of none
    std::uint64_t begin;
    std::uint64_t end;
  };
  /// Written by the worker; they come with DoneQueue::done.
  using Runs = std::array<Run, DoneQueue::kDepth>;

  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kHeader = (sizeof(Runs) + kPage - 1) / kPage * kPage;

  static std::size_t stride(const AreaSizes& sizes) {
    if (sizes.all > 2 * LengthOptions::kMostBytes) throw std::bad_alloc();
    return kHeader + round_up(sizes.all, kPage);
  }

  Runs& runs(std::uint64_t worker) const {
    return *std::launder(
        reinterpret_cast<Runs*>(memory_.data() + worker * stride(sizes_)));
  }
  /// Null for an item that was revoked, and marked as done unwritten.
  const Run* run(std::uint64_t worker, std::uint64_t entry) const {
    const Run& of = runs(worker)[entry % DoneQueue::kDepth];
    return of.entry == entry + 1 ? &of : nullptr;
  }

  const AreaRecord record_;
  const AreaSizes sizes_;
  const SharedMemory memory_;
};

}  // namespace echobuf::workers
