#include "memory.hpp"

#include <iterator>
#include <new>
#include <utility>

namespace echobuf::simulated {

namespace {

std::string bytes_text(std::size_t begin, std::size_t end) {
  return "bytes [" + std::to_string(begin) + ", " + std::to_string(end) + ")";
}

const char* verb(bool write) { return write ? "writes" : "reads"; }

}  // namespace

void Memory::keep_for_ever(Blocks::node_type block) {
  static auto* const kept = new std::vector<Blocks::node_type>;
  kept->push_back(std::move(block));
}

struct Memory::Outlived {
  std::mutex mutex;
  Blocks blocks;
};

Memory::Outlived& Memory::outlived() {
  static auto* const outlived = new Outlived;
  return *outlived;
}

bool Memory::free_outlived(std::uintptr_t address) {
  const std::lock_guard lock(outlived().mutex);
  return outlived().blocks.erase(address) != 0;
}

Memory::~Memory() {
  for (const std::uintptr_t begin : leaked_) keep_for_ever(blocks_.extract(begin));
  const std::lock_guard lock(outlived().mutex);
  for (auto block = blocks_.begin(); block != blocks_.end();) {
    const auto next = std::next(block);
    if (block->second.lent && !block->second.freed())
      outlived().blocks.insert(blocks_.extract(block));
    block = next;
  }
}

std::size_t& Memory::used(Kind kind, int device) {
  return kind == Kind::kPinned ? pinned_used_ : used_[static_cast<std::size_t>(device)];
}

void* Memory::allocate(Kind kind, int device, std::size_t bytes, bool lent) {
  const std::lock_guard lock(mutex_);
  const std::size_t limit = kind == Kind::kPinned ? pinned_bytes_ : bytes_per_device_;
  if (bytes > limit - used(kind, device)) return nullptr;
  try {
    Block block(made_, kind, device, bytes);
    block.lent = lent;
    const std::uintptr_t begin = block.begin();
    blocks_.emplace(begin, std::move(block));
    ++made_;
    used(kind, device) += bytes;
    return reinterpret_cast<void*>(begin);  // NOLINT(performance-no-int-to-ptr)
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

bool Memory::adopt(std::uintptr_t address, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto next = blocks_.lower_bound(address);
  if (find(address) != blocks_.end()) return false;
  if (next != blocks_.end() && next->first - address < bytes) return false;
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  blocks_.emplace(address, Block(made_, reinterpret_cast<void*>(address), bytes));
  ++made_;
  pinned_used_ += bytes;
  return true;
}

bool Memory::give_back(std::uintptr_t address, const Actor& host) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || !found->second.adopted()) return false;
  found->second.shadow.check(host, [&](const Conflict& conflict) {
    report_race(found->second, conflict, host, "unpins");
  });
  pinned_used_ -= found->second.bytes();
  blocks_.erase(found);  // others may be given these addresses
  return true;
}

bool Memory::free(Kind kind, std::uintptr_t address, const Actor& host,
                  bool check_order) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(address);
  if (found == blocks_.end() || found->second.kind() != kind ||
      found->second.adopted()) {
    reports_.add("wrong free: no " +
                 std::string(kind == Kind::kPinned ? "pinned" : "device") +
                 " memory begins at " + near(address));
    return false;
  }
  Block& block = found->second;
  if (block.freed()) {
    reports_.add("double free: " + block.text() + " by " + host.label->text());
    return false;
  }
  if (check_order)
    block.shadow.check(host, [&](const Conflict& conflict) {
      report_race(block, conflict, host, "frees");
    });
  if (block.guards_are_written())
    reports_.add("out of bounds: something wrote beyond an end of " + block.text() +
                 " without saying so");
  used(kind, block.device()) -= block.bytes();
  retire(found);
  return true;
}

void Memory::retire(Blocks::iterator block) {
  block->second.set_freed();
  block->second.give_back_pages();
  freed_.push_back(block->first);
  freed_bytes_ += block->second.bytes();
  while (freed_.size() > kMostFreedBlocks || freed_bytes_ > kMostFreedBytes) {
    const auto oldest = blocks_.find(freed_.front());
    freed_.pop_front();
    freed_bytes_ -= oldest->second.bytes();
    blocks_.erase(oldest);
  }
}

std::size_t Memory::bytes_free(int device) const {
  const std::lock_guard lock(mutex_);
  return bytes_per_device_ - used_[static_cast<std::size_t>(device)];
}

Memory::Blocks::const_iterator Memory::find(std::uintptr_t address) const {
  const auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return blocks_.end();
  const auto block = std::prev(next);
  return address - block->first < block->second.bytes() ? block : blocks_.end();
}

Memory::Blocks::iterator Memory::find(std::uintptr_t address) {
  const auto found = std::as_const(*this).find(address);
  return found == blocks_.end() ? blocks_.end() : blocks_.find(found->first);
}

std::optional<Kind> Memory::kind_of(std::uintptr_t address) const {
  const std::lock_guard lock(mutex_);
  const auto block = find(address);
  if (block == blocks_.end()) return std::nullopt;
  return block->second.kind();
}

std::optional<Memory::Range> Memory::range_of(std::uintptr_t address) const {
  const std::lock_guard lock(mutex_);
  const auto block = find(address);
  if (block == blocks_.end()) return std::nullopt;
  return Range{block->first, block->second.bytes()};
}

/// The place of an address that is in no block.
std::string Memory::near(std::uintptr_t address) const {
  const auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return "an unknown address";
  const auto& [begin, block] = *std::prev(next);
  return "an address " + std::to_string(address - begin) +
         " bytes after the begin of " + block.text() +
         (block.freed() ? ", which was freed" : "");
}

bool Memory::access(const Actor& by, std::uintptr_t address, std::size_t bytes,
                    bool write) {
  if (bytes == 0) return true;
  const std::lock_guard lock(mutex_);
  const auto found = find(address);
  if (found == blocks_.end()) {
    reports_.add("unknown memory: " + by.label->text() + " " + verb(write) + " " +
                 std::to_string(bytes) + " bytes at " + near(address));
    return false;
  }
  Block& block = found->second;
  const std::size_t begin = address - found->first;
  const bool inside = bytes <= block.bytes() - begin;
  const std::size_t end = inside ? begin + bytes : block.bytes();
  const bool right_device =
      block.kind() == Kind::kPinned || by.device == block.device();
  if (!inside || block.freed() || !right_device)
    report_misuse(block, {by, begin, bytes, write});
  if (!write && !block.freed() && block.kind() == Kind::kDevice)
    report_unwritten(block, by, block.shadow.first_unwritten(begin, end), end);
  if (!block.freed())
    block.shadow.access(begin, end, by, write, [&](const Conflict& conflict) {
      report_race(block, conflict, by, verb(write));
    });
  return inside;
}

void Memory::report_misuse(const Block& block, const Access& access) {
  const auto& [by, begin, bytes, write] = access;
  const std::string who = by.label->text() + " " + verb(write) + " ";
  const std::string key = block.text() + who;
  if (bytes > block.bytes() - begin)
    reports_.add("bounds " + key, "out of bounds: " + who + std::to_string(bytes) +
                                      " bytes from byte " + std::to_string(begin) +
                                      " of " + block.text());
  if (block.freed())
    reports_.add("freed " + key, "use after free: " + who +
                                     bytes_text(begin, begin + bytes) + " of " +
                                     block.text() + ", which was freed");
  else if (block.kind() == Kind::kPinned || by.device == block.device())
    return;
  else if (by.device < 0)
    reports_.add("host " + key, "wrong device: " + who + block.text() +
                                    ", which only operations of streams may touch");
  else
    reports_.add("device " + key, "wrong device: " + who + block.text() +
                                      " from device " + std::to_string(by.device));
}

void Memory::report_unwritten(const Block& block, const Actor& by, std::size_t at,
                              std::size_t end) {
  if (at >= end) return;
  reports_.add("unwritten " + block.text() + by.label->text(),
               "unwritten memory: " + by.label->text() + " reads byte " +
                   std::to_string(at) + " of " + block.text() +
                   ", which nothing has written");
}

void Memory::report_race(const Block& block, const Conflict& conflict, const Actor& by,
                         const char* does) {
  const std::string pair = conflict.earlier->text() + by.label->text();
  reports_.add("race " + block.text() + pair,
               "race: " + by.label->text() + " " + does + " " +
                   bytes_text(conflict.begin, conflict.end) + " of " + block.text() +
                   ", which " + conflict.earlier->text() + " " +
                   verb(conflict.earlier_writes) + ": nothing orders them");
}

void Memory::report_leaks(int device) {
  const std::lock_guard lock(mutex_);
  const Kind kind = device < 0 ? Kind::kPinned : Kind::kDevice;
  for (auto& [begin, block] : blocks_) {
    const bool here = kind == Kind::kPinned || block.device() == device;
    if (block.kind() != kind || !here || block.freed() || block.lent) continue;
    reports_.add("leak: " + block.text());
    used(kind, device) -= block.bytes();
    block.set_freed();
    leaked_.push_back(begin);
  }
}

}  // namespace echobuf::simulated
