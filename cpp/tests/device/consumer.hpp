// A consumer of a buffer on the simulated device: call by call, and by graphs.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "echobuf/cuda/driver.hpp"
#include "run.hpp"
#include "simulated/graphs.hpp"

namespace echobuf::test {

/// Device memory for batches: it is freed when all work is done, whatever orders it.
class Targets {
 public:
  Targets(const cuda::Driver& driver, const BatchLayout& layout)
      : driver_(driver), layout_(layout) {}
  ~Targets();
  Targets(const Targets&) = delete;
  Targets& operator=(const Targets&) = delete;

  /// The leaves of a batch of its own.
  std::vector<std::byte*> take();

 private:
  const cuda::Driver& driver_;
  const BatchLayout& layout_;
  std::vector<cuda::Address> taken_;
};

/// Draws of a buffer that were captured, as one graph.
class CapturedDraw {
 public:
  /// Captures one, on `stream`, into `leaves`.
  CapturedDraw(DeviceBuffer& buffer, std::vector<std::byte*> leaves,
               cuda::StreamHandle stream);
  ~CapturedDraw();
  CapturedDraw(const CapturedDraw&) = delete;
  CapturedDraw& operator=(const CapturedDraw&) = delete;

  void enqueue(cuda::StreamHandle stream) const;
  /// The same, and waits for it without ordering anything.
  void launch(cuda::StreamHandle stream) const;

  const std::byte* block() const { return leaves_[0]; }
  std::uint64_t count() const { return count_; }

 private:
  std::vector<std::byte*> leaves_;
  std::uint64_t count_ = 0;
  simulated::GraphExecHandle graph_ = nullptr;
};

class Consumer {
 public:
  /// On so many streams, and on the default stream if that is asked for.
  Consumer(DeviceBuffer& buffer, const cuda::Driver& driver, int streams,
           bool default_stream = false);
  /// Ends the last replay before its stream goes.
  ~Consumer();
  Consumer(const Consumer&) = delete;
  Consumer& operator=(const Consumer&) = delete;

  cuda::StreamHandle stream(std::uint64_t random) const {
    return streams_[random % streams_.size()];
  }
  Targets& targets() { return targets_; }

  /// Draws a batch into memory that no batch had before.
  Status draw(cuda::StreamHandle stream, BatchBytes& bytes,
              Deadline deadline = Deadline::max());

  /// Gets a batch from a graph, an old one or a new one. Some are launched twice: if
  /// the second launch gives other bytes, there are none.
  Status replay(std::uint64_t random, cuda::StreamHandle stream, BatchBytes& bytes);

 private:
  DeviceBuffer& buffer_;
  const cuda::Driver& driver_;
  std::vector<cuda::StreamHandle> created_;
  std::vector<cuda::StreamHandle> streams_;  // these, and the default stream's names
  Targets targets_;
  std::vector<std::unique_ptr<CapturedDraw>> graphs_;
};

}  // namespace echobuf::test
