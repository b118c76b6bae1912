// Aligned host memory, in huge pages where it is large: fresh pages cost many times
// the copy that fills them.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>

#include "echobuf/store/record.hpp"

namespace echobuf {

/// Memory of whatever kind, given back with it.
class Memory {
 public:
  virtual ~Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t bytes() const { return bytes_; }

  Memory* next = nullptr;  // for the pool that keeps it in a list

 protected:
  explicit Memory(std::size_t bytes) : bytes_(bytes) {}

  void* data_ = nullptr;
  std::size_t bytes_;
};

/// A block of host memory aligned to 64 bytes. Throws std::bad_alloc.
class HostMemory final : public Memory {
 public:
  explicit HostMemory(std::size_t bytes)
      : Memory(round_up(bytes ? bytes : 1, kLeafAlignment)),
        mapped_(bytes >= kMapFrom) {
    if (!mapped_) {
      data_ = std::aligned_alloc(kLeafAlignment, bytes_);
      if (!data_) throw std::bad_alloc();
      return;
    }
    data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
                 -1, 0);
    if (data_ == MAP_FAILED) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
    madvise(data_, bytes_, MADV_HUGEPAGE);  // a wish; refusal costs only speed
#endif
  }

  ~HostMemory() override {
    if (mapped_)
      munmap(data_, bytes_);
    else
      std::free(data_);
  }

 private:
  static constexpr std::size_t kMapFrom = std::size_t{1} << 20;

  bool mapped_;
};

}  // namespace echobuf
