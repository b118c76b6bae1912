// A warp: 32 threads that run together until they part at a branch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ptx/launch.hpp"

namespace echobuf::ptx {

class Block;

class Warp {
 public:
  Warp(Block& block, std::uint32_t first, std::uint32_t threads);

  /// Forgets the block before, and goes to the first instruction.
  void begin();

  bool ended() const { return live_ == 0; }
  /// False at the end, and at a barrier that all its threads have come to.
  bool can_run() const { return live_ != 0 && !at_barrier_; }
  void run(std::uint64_t instructions);

  /// The place of the barrier that it has come to.
  std::uint32_t barrier() const { return barrier_; }
  void pass_barrier();
  [[noreturn]] void fail_at_barrier(const Warp& other) const;

 private:
  /// Threads that run together. At a divergence a group is made for each way, which
  /// end at the instruction where the ways meet; then the group that they came from
  /// goes on.
  struct Group {
    std::uint32_t place = 0;  // next instruction
    std::uint32_t join = 0;   // where it ends
    std::uint32_t mask = 0;   // of its threads
    std::int32_t parent = -1;
    std::uint32_t children = 0;  // that have not ended
    bool waits = false;          // at a barrier
    bool used = false;
  };

  void run_group(std::size_t index, std::uint64_t instructions);
  /// One instruction; false if the group ended or waits.
  bool step(std::size_t index);
  bool branch(std::size_t index, const Instruction& at, std::uint32_t taken);
  bool wait(std::size_t index, const Instruction& at, std::uint32_t mask);
  bool leave(std::size_t index, std::uint32_t mask);
  void end_group(std::size_t index);
  std::size_t add_group(const Group& group);
  void check_barrier();

  std::uint32_t guarded(const Instruction& at, std::uint32_t mask) const;
  void check_written(const Instruction& at, const Slot& slot, std::uint32_t mask) const;
  std::uint64_t value(const Slot& slot, unsigned lane) const;
  std::uint64_t special(Special which, unsigned lane) const;
  void set(const Instruction& at, const Slot& slot, unsigned lane, std::uint64_t value);

  void compute(const Instruction& at, std::uint32_t mask);
  void pack(const Instruction& at, std::uint32_t mask);
  void unpack(const Instruction& at, std::uint32_t mask);
  void load(const Instruction& at, std::uint32_t mask);
  void store(const Instruction& at, std::uint32_t mask);
  template <class Body>
  void access(const Instruction& at, std::uint32_t mask, Body body);

  [[noreturn]] void fail(const Instruction& at, unsigned lane,
                         const Complaint& complaint) const;

  Block& block_;
  const Kernel& kernel_;
  std::uint32_t first_;  // thread
  std::uint32_t all_;    // mask of its threads
  std::uint32_t live_ = 0;
  bool at_barrier_ = false;
  std::uint32_t barrier_ = 0;
  std::vector<Group> groups_;
  std::vector<std::uint64_t> values_;   // of registers, by register and lane
  std::vector<std::uint32_t> written_;  // of registers: mask of lanes
};

}  // namespace echobuf::ptx
