// A block of threads while it runs: its shared and local memory, and its barrier.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ptx/launch.hpp"
#include "ptx/shadow.hpp"
#include "ptx/warp.hpp"

namespace echobuf::ptx {

class Block {
 public:
  explicit Block(Launch& launch);

  /// Runs the block with this number from beginning to end. Throws Fault.
  void run(std::uint32_t number);

  Launch& launch() { return launch_; }
  std::uint32_t number() const { return number_; }
  Extent place() const { return launch_.settings.grid.place(number_); }
  std::uint32_t epoch() const { return epoch_; }
  std::uint32_t threads() const { return threads_; }

  /// True if an address of this space is one of global memory.
  static bool is_global(Space space, std::uint64_t address);
  /// The place of an access, of which `used` has a bit for each byte. Throws Complaint.
  Place find(Space space, std::uint64_t address, std::uint64_t bytes, bool write,
             std::uint32_t used, std::uint32_t thread);

 private:
  /// Memory of threads or of the block, which no launch before has written.
  struct Bytes {
    std::vector<unsigned char> data;
    std::vector<unsigned char> written;
    void assign(std::uint64_t bytes);
  };

  Place find_shared(std::uint64_t address, std::uint64_t bytes);
  Place find_local(std::uint64_t address, std::uint64_t bytes, std::uint32_t thread);
  Place find_parameter(std::uint64_t address, std::uint64_t bytes);
  void release_barrier();

  Launch& launch_;
  std::uint32_t threads_;
  std::uint32_t number_ = 0;
  std::uint32_t epoch_ = 0;
  Bytes shared_;
  Bytes local_;  // of all threads
  Shadow shared_shadow_;
  std::vector<Warp> warps_;
};

}  // namespace echobuf::ptx
