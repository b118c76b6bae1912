// Plain accesses: whether they race, by happens-before, and what is remembered of them.
#include <algorithm>
#include <cstring>

#include "machine.hpp"
#include "runtime.hpp"

namespace echobuf::model {

namespace {

/// The bytes of one word that an access touches, as a bit set.
std::uint8_t bytes_in(std::uint64_t word, std::uint64_t address, std::uint64_t size) {
  std::uint32_t bytes = 0;
  for (std::uint64_t i = 0; i < 8; ++i) {
    const std::uint64_t at = word * 8 + i;
    if (at >= address && at < address + size) bytes |= 1u << i;
  }
  return static_cast<std::uint8_t>(bytes);
}

}  // namespace

bool Access::operator<(const Access& other) const {
  return std::memcmp(this, &other, sizeof(Access)) < 0;
}

/// True if no thread could race for a word, as far as is known.
bool Machine::is_private(std::uint32_t word, int thread, bool write) {
  WordHabits& habits = words_[word];
  const auto threads = static_cast<std::uint8_t>(habits.threads | 1u << thread);
  const bool written = habits.written || write;
  if (threads != habits.threads || written != habits.written) habits_grew_ = true;
  habits = {threads, written};
  return !written || (threads & (threads - 1)) == 0;
}

bool Machine::races(int thread, std::uint64_t address, std::uint64_t size,
                    bool write) const {
  const View& view = threads_[thread].view;
  const std::uint64_t base = arena_begin();
  for (const Access& other : accesses_) {
    const std::uint64_t word = base / 8 + other.word;
    if (word < address / 8 || word > (address + size - 1) / 8) continue;
    if (!(other.bytes & bytes_in(word, address, size))) continue;
    if (!write && !other.write) continue;
    if (other.thread != thread && other.clock > view.clock[other.thread]) return true;
  }
  return false;
}

bool Machine::access(int thread, std::uint64_t address, std::uint64_t size,
                     bool write) {
  if (races(thread, address, size, write)) return false;
  const auto mine = static_cast<std::uint8_t>(thread);
  const std::uint8_t clock = threads_[thread].view.clock[thread];
  const std::uint64_t base = arena_begin();
  for (std::uint64_t word = address / 8; word <= (address + size - 1) / 8; ++word) {
    const std::uint8_t bytes = bytes_in(word, address, size);
    const auto at = static_cast<std::uint32_t>(word - base / 8);
    if (is_private(at, thread, write)) continue;
    for (Access& other : accesses_)
      if (other.word == at && (write || (other.thread == mine && !other.write)))
        other.bytes = static_cast<std::uint8_t>(other.bytes & ~bytes);
    std::erase_if(accesses_, [](const Access& a) { return a.bytes == 0; });
    bool merged = false;
    for (Access& other : accesses_)
      if (other.word == at && other.thread == mine && other.clock == clock &&
          (other.write != 0) == write) {
        other.bytes |= bytes;
        merged = true;
      }
    if (!merged)
      accesses_.push_back({at, mine, clock, bytes, static_cast<std::uint8_t>(write)});
  }
  if (write)  // an atomic made anew: its first message is what memory holds now
    for (std::size_t i = 0; i < habits_.size(); ++i)
      if (habits_[i].address >= address && habits_[i].address < address + size)
        forget(habits_[i].address, 1);
  return true;
}

void Machine::forget(std::uint64_t address, std::uint64_t size) {
  for (std::size_t i = 0; i < habits_.size(); ++i) {
    if (habits_[i].address < address || habits_[i].address >= address + size) continue;
    locations_[i].messages.clear();
    each_view([&](View& view) { view.seen[i] = 0; });
  }
  if (size == 1) return;
  const std::uint64_t first = (address - arena_begin()) / 8;
  std::erase_if(accesses_, [&](const Access& a) {
    return a.word >= first && a.word < first + size / 8;
  });
  std::erase_if(locks_, [&](const Lock& lock) {
    return lock.address >= address && lock.address < address + size;
  });
}

}  // namespace echobuf::model
