// Helpers of the tests of the simulated driver.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "control.hpp"
#include "echobuf/cuda/driver.hpp"

namespace echobuf::simulated::test {

using cuda::Driver;
using cuda::EventHandle;

inline constexpr std::size_t kBlockBytes = 1024;

void* pointer(Address address);

/// All reports so far.
std::vector<std::string> reports();

/// How many reports begin with `kind`, and hold each of `words`.
std::size_t found(const std::string& kind, const std::vector<std::string>& words = {});

/// Kernels: `fill` writes `value` to `bytes` at `to`; `add` reads `from`, adds one to
/// each byte and writes that to `to`.
FunctionHandle fill_kernel();
FunctionHandle add_kernel();

/// A started driver with device 0's context pushed; stops it at the end, and then
/// expects no report unless the test asked for them (`expect_reports`).
class Simulated : public testing::Test {
 protected:
  void SetUp() override { begin(1); }
  void TearDown() override;

  void begin(std::uint64_t seed, int devices = 2, std::size_t bytes = 1 << 20);
  /// Gives the context back and stops the driver.
  void end();
  /// Reports are what the test is about.
  void expect_reports() { reports_expected_ = true; }

  const Driver::Calls& calls() const { return driver_->calls(); }
  const Driver& driver() const { return *driver_; }

  Address device_memory(std::size_t bytes = kBlockBytes);
  unsigned char* pinned_memory(std::size_t bytes = kBlockBytes);
  StreamHandle stream(unsigned flags = cuda::kStreamNonBlocking);
  EventHandle event();

  void fill(Address to, std::size_t bytes, unsigned char value, StreamHandle stream);
  void add(Address to, Address from, std::size_t bytes, StreamHandle stream);
  /// Returns the bytes there, read on `stream`, which the host then waits for.
  std::vector<unsigned char> read(Address from, std::size_t bytes, StreamHandle stream);

  void free(Address address) { driver().memory_free(address); }
  void destroy(StreamHandle stream) { driver().stream_destroy(stream); }

 private:
  std::shared_ptr<const Driver> driver_;
  bool reports_expected_ = false;
  bool running_ = false;
};

}  // namespace echobuf::simulated::test
