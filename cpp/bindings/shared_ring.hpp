// SharedRing as Python has it: the put of a buffer, epochs, and seats of jobs.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bound_buffer.hpp"
#include "echobuf/shared/shared_ring.hpp"

namespace echobuf::python {

inline py::bytes show_session(const std::array<unsigned char, 16>& session) {
  return {reinterpret_cast<const char*>(session.data()), session.size()};
}

class BoundSharedRing : public BoundBuffer<serve::SharedRing, AnyPuts> {
  using Core = serve::SharedRing;

 public:
  BoundSharedRing(const py::list& leaves, std::uint64_t slots, int memory,
                  double lease_s, std::uint64_t window, std::uint64_t payload_bytes)
      : BoundSharedRing(leaves,
                        std::make_shared<Core>(options(leaves, window, payload_bytes),
                                               slots, memory, lease_s)) {}

  /// Goes on with the ring that a server which has gone shared with its jobs.
  static std::unique_ptr<BoundSharedRing> adopt(const py::list& leaves, int header,
                                                int memory, double lease_s,
                                                std::uint64_t window,
                                                std::uint64_t payload_bytes) {
    return std::unique_ptr<BoundSharedRing>(new BoundSharedRing(
        leaves,
        Core::adopt(options(leaves, window, payload_bytes), header, memory, lease_s)));
  }

  /// The bytes of a ring's memory, but for its header.
  static std::size_t bytes(const py::list& leaves, std::uint64_t slots,
                           std::uint64_t window, std::uint64_t payload_bytes) {
    return serve::window_of(options(leaves, window, payload_bytes), slots).bytes();
  }

  int header_fd() const { return core()->mapped_header().fd(); }
  int memory_fd() const { return core()->shared_memory()->fd(); }
  /// The most bytes of the rows of an example; 0 where there are none.
  std::uint64_t share() const { return core()->most_bytes(); }
  std::uint64_t slots() const { return core()->slots(); }
  py::bytes session() const { return show_session(core()->mapped_header()->session); }

  std::optional<std::uint64_t> resume_offset() const { return core()->resume_offset(); }
  /// The numbers of epochs that were begun and that have ended.
  std::pair<std::uint64_t, std::uint64_t> epochs() const {
    const std::shared_ptr<Core> ring = core();
    const serve::RingHeader& header = *ring->mapped_header();
    return {header.begun, header.ended};
  }
  std::uint64_t published() const { return core()->mapped_header()->published; }

  bool begin_epoch(std::uint64_t jobs, double timeout_s) const {
    const std::shared_ptr<Core> ring = core();
    const GilRelease released;
    return ring->begin_epoch(jobs, deadline_after(Clock::now(), timeout_s));
  }
  bool end_epoch() const {
    const std::shared_ptr<Core> ring = core();
    const GilRelease released;
    return ring->end_epoch();
  }
  void finish(const std::string& reason, bool failed) const {
    core()->finish(reason, failed);
  }

  std::optional<std::pair<std::uint64_t, std::uint64_t>> take_seat() const {
    return core()->seats().take();
  }
  void leave_seat(std::uint64_t seat, std::uint64_t holder) const {
    core()->seats().leave(seat, holder);
  }
  bool holds(std::uint64_t seat, std::uint64_t holder) const {
    return core()->seats().holds(seat, holder);
  }
  std::vector<serve::JobReport> jobs() const { return core()->seats().reports(); }

 private:
  BoundSharedRing(const py::list& leaves, std::shared_ptr<Core> core)
      : BoundBuffer(leaves, leaves, std::move(core)) {
    const std::shared_ptr<Core> ring = hold();
    if (ring->options().lengths.any())
      leaves_.limit(ring->options().lengths, ring->most_bytes());
  }

  std::shared_ptr<Core> core() const {
    std::shared_ptr<Core> core = hold();
    if (!core) throw std::runtime_error("the server has ended");
    return core;
  }

  static BufferOptions options(const py::list& leaves, std::uint64_t window,
                               std::uint64_t payload_bytes) {
    BufferOptions options;
    options.fields = Leaves(leaves, false).fields();
    options.window = window;
    options.lengths.fields = ragged_fields(leaves, {}, {});
    options.lengths.payload_bytes = payload_bytes;
    return options;
  }
};

}  // namespace echobuf::python
