#include "block.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>

namespace echobuf::simulated {

namespace {

constexpr unsigned char kGuardByte = 0xC3;
constexpr unsigned char kFreshByte = 0xA5;
constexpr std::size_t kMostFilled = std::size_t{1} << 20;
constexpr std::size_t kMostKept = std::size_t{1} << 16;

bool all_are(const unsigned char* bytes, std::size_t count, unsigned char value) {
  return std::all_of(bytes, bytes + count, [&](auto byte) { return byte == value; });
}

}  // namespace

Block::Block(int number, Kind kind, int device, std::size_t bytes)
    : number_(number), kind_(kind), device_(device), bytes_(bytes) {
  if (bytes > std::numeric_limits<std::size_t>::max() / 2) throw std::bad_alloc();
  const std::size_t all = (bytes + 3 * kGuard - 1) / kGuard * kGuard;
  memory_.reset(static_cast<unsigned char*>(std::aligned_alloc(kGuard, all)));
  if (!memory_) throw std::bad_alloc();
  std::memset(memory_.get(), kGuardByte, kGuard);
  std::memset(memory_.get() + kGuard, kFreshByte, std::min(bytes, kMostFilled));
  std::memset(memory_.get() + kGuard + bytes, kGuardByte, kGuard);
}

std::uintptr_t Block::begin() const {
  if (adopted_) return reinterpret_cast<std::uintptr_t>(adopted_);
  return reinterpret_cast<std::uintptr_t>(memory_.get()) + kGuard;
}

void Block::give_back_pages() {
  if (adopted_) return;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const std::uintptr_t first = (begin() + page - 1) / page * page;
  const std::uintptr_t last = (begin() + bytes_) / page * page;
  if (last > first && bytes_ > kMostKept)
    madvise(reinterpret_cast<void*>(first),  // NOLINT(performance-no-int-to-ptr)
            last - first, MADV_DONTNEED);
}

bool Block::guards_are_written() const {
  if (adopted_) return false;
  return !all_are(memory_.get(), kGuard, kGuardByte) ||
         !all_are(memory_.get() + kGuard + bytes_, kGuard, kGuardByte);
}

std::string Block::text() const {
  const std::string size = std::to_string(bytes_) + " bytes";
  if (kind_ == Kind::kPinned)
    return "pinned memory block " + std::to_string(number_) + " (" + size + ")";
  return "device memory block " + std::to_string(number_) + " (" + size + ", device " +
         std::to_string(device_) + ")";
}

}  // namespace echobuf::simulated
