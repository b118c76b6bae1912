#include "ptx/memory.hpp"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

namespace echobuf::ptx {

namespace {

constexpr std::uint64_t kAlign = 256;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 32;

}  // namespace

std::string hexadecimal(std::uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string Allocation::text() const {
  return name + ", " + std::to_string(bytes) + " bytes from " + hexadecimal(address);
}

Allocation& Memory::add(std::uint64_t address, std::uint64_t bytes,
                        const std::string& name) {
  Allocation& allocation = allocations_[address];
  allocation = {};
  allocation.address = address;
  allocation.bytes = bytes;
  const std::string number = std::to_string(++count_);
  allocation.name = name.empty() ? "allocation " + number : name;
  allocation.shadow.resize(bytes);
  last_ = nullptr;
  return allocation;
}

std::uint64_t Memory::allocate(std::uint64_t bytes, const std::string& name) {
  if (bytes > kMostBytes) throw HostError("too many bytes to allocate");
  const std::uint64_t address = next_;
  Allocation& allocation = add(address, bytes, name);
  allocation.data.assign(bytes, 0xA5);
  allocation.written.assign(bytes, 0);
  next_ += (bytes + 2 * kAlign - 1) / kAlign * kAlign;  // with a gap behind it
  return address;
}

void Memory::free(std::uint64_t address) {
  const auto found = allocations_.find(address);
  if (found == allocations_.end())
    throw HostError("no allocation begins at " + hexadecimal(address));
  if (found->second.freed) throw HostError(found->second.text() + ", is freed twice");
  found->second.freed = true;
  found->second.written = {};
  found->second.shadow = {};
  found->second.data = {};
}

Allocation& Memory::find(std::uint64_t address, std::uint64_t bytes) {
  Allocation* allocation = last_;
  if (allocation == nullptr || address < allocation->address ||
      address - allocation->address >= allocation->bytes) {
    const auto above = allocations_.upper_bound(address);
    if (above == allocations_.begin())
      throw Complaint{FaultKind::kOutOfBounds, "there is no allocation"};
    allocation = &std::prev(above)->second;
  }
  const std::uint64_t offset = address - allocation->address;
  if (offset > allocation->bytes || allocation->bytes - offset < bytes)
    throw Complaint{FaultKind::kOutOfBounds,
                    "the nearest allocation below is " + allocation->text()};
  if (allocation->freed)
    throw Complaint{FaultKind::kFreed, "was freed: " + allocation->text()};
  last_ = allocation;
  return *allocation;
}

Allocation& Memory::find_for_host(std::uint64_t address, std::uint64_t bytes) {
  try {
    return find(address, bytes);
  } catch (const Complaint& complaint) {
    throw HostError(std::to_string(bytes) + " bytes at " + hexadecimal(address) + ": " +
                    complaint.text);
  }
}

void Memory::write(std::uint64_t address, std::span<const unsigned char> bytes) {
  if (bytes.empty()) return;
  Allocation& to = find_for_host(address, bytes.size());
  const std::uint64_t offset = address - to.address;
  std::memcpy(to.data.data() + offset, bytes.data(), bytes.size());
  std::memset(to.written.data() + offset, 1, bytes.size());
}

void Memory::read(std::uint64_t address, std::span<unsigned char> bytes) {
  if (bytes.empty()) return;
  const Allocation& from = find_for_host(address, bytes.size());
  const std::uint64_t offset = address - from.address;
  const auto* const begin = from.written.data() + offset;
  const auto* const end = begin + bytes.size();
  const auto* const hole = std::find(begin, end, 0);
  if (hole != end)
    throw HostError("the byte at " +
                    hexadecimal(address + static_cast<std::uint64_t>(hole - begin)) +
                    " was never written: " + from.text());
  std::memcpy(bytes.data(), from.data.data() + offset, bytes.size());
}

Place Memory::find_place(std::uint64_t address, std::uint64_t bytes, bool,
                         std::uint32_t) {
  Allocation& found = find(address, bytes);
  const std::uint64_t begin = address - found.address;
  return {found.data.data() + begin, found.written.data() + begin,
          found.read_only ? nullptr : &found.shadow, begin, found.read_only};
}

void Memory::set_read_only(std::uint64_t address) {
  find_for_host(address, 1).read_only = true;
}

}  // namespace echobuf::ptx
