// Memory of the device: allocations, with the bytes of each that were written.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "ptx/errors.hpp"
#include "ptx/shadow.hpp"

namespace echobuf::ptx {

struct Allocation {
  std::uint64_t address = 0;
  std::uint64_t bytes = 0;
  std::string name;
  std::vector<unsigned char> data;
  std::vector<unsigned char> written;  // of each byte
  Shadow shadow;
  bool freed = false;
  bool read_only = false;

  /// "allocation 3, 64 bytes from 0x..."
  std::string text() const;
};

/// Bytes that an instruction reads or writes, for as long as it runs.
struct Place {
  unsigned char* data;
  unsigned char* written;  // null: all are
  Shadow* shadow;          // null: no other thread accesses them
  std::uint64_t begin;     // of the bytes, in the shadow
  bool read_only;
};

/// Memory that kernels reach by their addresses.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  /// The bytes of an access, of which `used` has a bit each; a load looks at no others.
  /// Throws Complaint.
  virtual Place find_place(std::uint64_t address, std::uint64_t bytes, bool write,
                           std::uint32_t used) = 0;
};

/// Addresses of Memory begin here, above those of the host's own memory.
inline constexpr std::uint64_t kMemoryBegin = std::uint64_t{1} << 52;

class Memory : public DeviceMemory {
 public:
  /// Returns the address, a multiple of 256 as the driver gives. No byte is written.
  std::uint64_t allocate(std::uint64_t bytes, const std::string& name = "");
  void free(std::uint64_t address);

  void write(std::uint64_t address, std::span<const unsigned char> bytes);
  /// Bytes that were never written are an error.
  void read(std::uint64_t address, std::span<unsigned char> bytes);
  void set_read_only(std::uint64_t address);

  Place find_place(std::uint64_t address, std::uint64_t bytes, bool write,
                   std::uint32_t used) override;

  /// The allocation that holds `bytes` from `address` on. Throws Complaint.
  Allocation& find(std::uint64_t address, std::uint64_t bytes);

 private:
  Allocation& add(std::uint64_t address, std::uint64_t bytes, const std::string& name);
  Allocation& find_for_host(std::uint64_t address, std::uint64_t bytes);

  std::map<std::uint64_t, Allocation> allocations_;  // by address
  Allocation* last_ = nullptr;                       // that was found
  std::uint64_t next_ = kMemoryBegin;
  std::uint32_t count_ = 0;
};

/// "0x7f0000000000"
std::string hexadecimal(std::uint64_t value);

}  // namespace echobuf::ptx
