// One block of memory that the simulated driver gave out, with a guard on both sides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "shadow.hpp"

namespace echobuf::simulated {

enum class Kind { kDevice, kPinned };

class Block {
 public:
  /// Throws std::bad_alloc. Small blocks begin with bytes that are not zeros: the
  /// driver promises nothing about what is in them.
  Block(int number, Kind kind, int device, std::size_t bytes);

  /// Pinned memory that is the program's own, without guards.
  Block(int number, void* memory, std::size_t bytes)
      : number_(number),
        kind_(Kind::kPinned),
        device_(-1),
        bytes_(bytes),
        adopted_(static_cast<unsigned char*>(memory)) {}

  std::uintptr_t begin() const;
  bool adopted() const { return adopted_ != nullptr; }
  std::size_t bytes() const { return bytes_; }
  Kind kind() const { return kind_; }
  int device() const { return device_; }
  bool freed() const { return freed_; }

  /// From now on any access is a use after free. The block stays where it is.
  void set_freed() { freed_ = true; }
  /// Gives whole pages within back to the system.
  void give_back_pages();

  /// True if something wrote beyond either end.
  bool guards_are_written() const;

  /// "device memory block 3 (4096 bytes, device 0)"
  std::string text() const;

  Shadow shadow;
  bool lent = false;  // its borrower may keep it longer than the driver lives

 private:
  struct Free {
    void operator()(unsigned char* memory) const { std::free(memory); }
  };
  static constexpr std::size_t kGuard = 512;  // and the alignment that cuMemAlloc gives

  int number_;
  Kind kind_;
  int device_;
  std::size_t bytes_;
  bool freed_ = false;
  unsigned char* adopted_ = nullptr;
  std::unique_ptr<unsigned char[], Free> memory_;  // guard, bytes, guard
};

}  // namespace echobuf::simulated
