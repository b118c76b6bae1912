// All memory of the simulated driver, and the checks of every access to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "block.hpp"
#include "clock.hpp"
#include "reports.hpp"

namespace echobuf::simulated {

class Memory {
 public:
  Memory(Reports& reports, int devices, std::size_t bytes_per_device,
         std::size_t pinned_bytes)
      : reports_(reports),
        bytes_per_device_(bytes_per_device),
        pinned_bytes_(pinned_bytes),
        used_(static_cast<std::size_t>(devices)) {}
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// Null where it does not fit. `device` is of no meaning for pinned memory. Memory
  /// that is lent is no leak, and outlives this.
  void* allocate(Kind kind, int device, std::size_t bytes, bool lent = false);

  /// Pins memory that is the program's own; false where some of it is pinned already.
  bool adopt(std::uintptr_t address, std::size_t bytes);
  /// False unless such memory begins at `address`.
  bool give_back(std::uintptr_t address, const Actor& host);

  /// Frees a block that has outlived its driver; false if there is none at `address`.
  static bool free_outlived(std::uintptr_t address);

  /// False unless a live block of that kind begins at `address`. With `check_order`,
  /// accesses that are not ordered before `host` are reported.
  bool free(Kind kind, std::uintptr_t address, const Actor& host, bool check_order);

  std::size_t bytes_free(int device) const;
  std::size_t bytes_total() const { return bytes_per_device_; }

  /// The kind of the block that `address` lies in, also of one freed of late.
  std::optional<Kind> kind_of(std::uintptr_t address) const;

  struct Range {
    std::uintptr_t begin;
    std::size_t bytes;
  };
  /// The block that `address` lies in, also one freed of late.
  std::optional<Range> range_of(std::uintptr_t address) const;

  /// Notes an access and reports what is wrong with it. False if the bytes are not
  /// there, so that they must not be touched.
  bool access(const Actor& by, std::uintptr_t address, std::size_t bytes, bool write);

  /// Reports all that is left of one device, or (-1) pinned. It is freed, but never
  /// given back: the program may still have a view of it.
  void report_leaks(int device);

 private:
  using Blocks = std::map<std::uintptr_t, Block>;  // by begin

  std::size_t& used(Kind kind, int device);
  Blocks::iterator find(std::uintptr_t address);
  Blocks::const_iterator find(std::uintptr_t address) const;
  std::string near(std::uintptr_t address) const;
  struct Access {
    const Actor& by;
    std::size_t begin, bytes;
    bool write;
  };
  void report_misuse(const Block& block, const Access& access);
  void report_unwritten(const Block& block, const Actor& by, std::size_t at,
                        std::size_t end);
  void report_race(const Block& block, const Conflict& conflict, const Actor& by,
                   const char* does);
  static void keep_for_ever(Blocks::node_type block);
  struct Outlived;
  static Outlived& outlived();
  void retire(Blocks::iterator block);

  // Freed blocks that are kept, so that a use after the free is found. Only small ones
  // hold memory.
  static constexpr std::size_t kMostFreedBlocks = 1024;
  static constexpr std::size_t kMostFreedBytes = std::size_t{1} << 32;

  mutable std::mutex mutex_;
  Reports& reports_;
  std::size_t bytes_per_device_, pinned_bytes_;
  std::vector<std::size_t> used_;  // by device
  std::size_t pinned_used_ = 0;
  int made_ = 0;
  Blocks blocks_;
  std::deque<std::uintptr_t> freed_;
  std::size_t freed_bytes_ = 0;
  std::vector<std::uintptr_t> leaked_;
};

}  // namespace echobuf::simulated
