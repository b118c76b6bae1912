// A buffer on the simulated device beside one on the host, put the same examples.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "echobuf/buffer/buffer.hpp"
#include "echobuf/cuda/backend.hpp"
#include "echobuf/cuda/driver.hpp"
#include "echobuf/options.hpp"

namespace echobuf::test {

/// Records to put, and the way in which they are drawn.
struct Plan {
  BufferOptions options;
  std::uint64_t examples;
  std::uint64_t seed;  // of delays, of put sizes and of the streams
  unsigned largest_delay_us = 20;
  int streams = 2;
  bool default_stream = false;                 // by both of its names, too
  int replays = 0;                             // of four batches, by launches of graphs
  int device_puts = 0;                         // of four puts, from the device
  bool claimed = false;                        // what is put, as by other processes
  const char* refused = nullptr;               // a call of the driver, by its symbol
  int nth = 1;                                 // of these calls
  std::vector<std::uint64_t> left_after = {};  // epochs that a reset ends, in batches
};

/// A window that is gone around many times.
Plan small_plan();

/// A configuration that the seed chooses.
Plan random_plan(std::uint64_t seed);

/// A batch: the bytes of its leaves, one after another.
using BatchBytes = std::vector<std::uint8_t>;

/// Of a batch of `count` in `block`, which the host can read.
BatchBytes bytes_of(const BatchLayout& layout, const std::byte* block,
                    std::uint64_t count);

/// All batches of all epochs.
std::vector<BatchBytes> on_host(const Plan& plan);

struct Outcome {
  std::vector<BatchBytes> batches;
  std::vector<std::string> reports;
  std::string error;  // what a call that was refused is said to be
};

/// Changes calls of the driver before the buffer is made; null for none.
using Change = void (*)(cuda::Driver::Calls& calls);

using DeviceBuffer = BasicBuffer<cuda::DeviceBackend>;

/// Calls of a buffer on the simulated device; the buffer is gone afterwards.
using Script = std::function<void(DeviceBuffer& buffer, const cuda::Driver& driver)>;

/// Runs it on a driver started for it; reports are those of the whole run.
Outcome with_device(const Plan& plan, Change change, const Script& script);

/// The batches of all epochs.
Outcome on_device(const Plan& plan, Change change = nullptr);

}  // namespace echobuf::test
