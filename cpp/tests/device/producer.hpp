// A producer of records that lie on the simulated device.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "echobuf/cuda/device_puts.hpp"
#include "echobuf/cuda/driver.hpp"
#include "run.hpp"

namespace echobuf::test {

/// Puts on streams of its own, some of whose leaves stay on the host. What it puts is
/// overwritten in the order of the stream as soon as a put returns.
class DeviceProducer {
 public:
  DeviceProducer(DeviceBuffer& buffer, const cuda::Driver& driver, std::uint64_t seed);
  /// Waits for the device, and frees what was put.
  ~DeviceProducer();
  DeviceProducer(const DeviceProducer&) = delete;
  DeviceProducer& operator=(const DeviceProducer&) = delete;

  /// Puts `n` examples, which lie one behind another in each leaf; `rows`: of each, if
  /// it is a whole batch. Throws cuda::Error.
  Status put(std::uint64_t term, const SourceLeaf* leaves, std::uint64_t n,
             std::size_t rows);

 private:
  void place(const SourceLeaf& leaf, std::uint64_t n, std::size_t bytes,
             cuda::StreamHandle stream, SourceLeaf& placed);

  DeviceBuffer& buffer_;
  const cuda::Driver& driver_;
  std::mt19937_64 random_;
  std::vector<cuda::StreamHandle> streams_;
  std::vector<cuda::Address> taken_;
  struct Piece {
    cuda::Address address;
    std::size_t bytes;
  };
  std::vector<Piece> of_put_;
};

}  // namespace echobuf::test
