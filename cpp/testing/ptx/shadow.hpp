// Accesses to each byte during a launch, and those that nothing orders.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace echobuf::ptx {

/// The thread that accesses memory, and the time of the access: barriers that its block
/// has passed, within one launch of the machine.
struct Accessor {
  std::uint32_t launch;
  std::uint32_t block;
  std::uint32_t thread;  // in the block
  std::uint32_t epoch;   // barriers passed
  std::uint32_t line;
};

/// The last write of a byte, and the reads since. Two accesses are ordered if one
/// thread makes both, or if threads of one block make them with a barrier between.
/// Nothing orders two blocks of one launch; launches follow each other.
class Cell {
 public:
  /// The access that races with this one, or null. Takes note of this one.
  const Accessor* touch(const Accessor& now, bool write);
  bool written_in(std::uint32_t launch) const {
    return has_write_ && write_.launch == launch;
  }
  /// Notes a read by ld.nc: nothing may write the byte in that launch.
  void note_read_only(std::uint32_t launch) { read_only_in_ = launch; }
  bool read_only_in(std::uint32_t launch) const { return read_only_in_ == launch; }

 private:
  static bool races(const Accessor& then, const Accessor& now);

  Accessor write_{};
  Accessor read_{};        // the last
  Accessor other_read_{};  // one by another thread than the last, not yet ordered
  std::uint32_t read_only_in_ = 0;  // the last such launch; they are numbered from 1
  bool has_write_ = false;
  bool has_read_ = false;
  bool has_other_read_ = false;
};

/// Cells of a range of memory, made where they are needed.
class Shadow {
 public:
  void resize(std::uint64_t bytes) { pages_.resize((bytes + kPage - 1) / kPage); }
  Cell& at(std::uint64_t byte) {
    auto& page = pages_[byte / kPage];
    if (!page) page = std::make_unique<Cell[]>(kPage);
    return page[byte % kPage];
  }

 private:
  static constexpr std::uint64_t kPage = 1024;
  std::vector<std::unique_ptr<Cell[]>> pages_;
};

}  // namespace echobuf::ptx
