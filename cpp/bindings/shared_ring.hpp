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

class BoundSharedRing : public BoundBuffer<serve::SharedRing> {
  using Core = serve::SharedRing;

 public:
  BoundSharedRing(const py::list& leaves, std::uint64_t slots, int memory,
                  double lease_s)
      : BoundBuffer(leaves, leaves,
                    std::make_shared<Core>(options(leaves), slots, memory, lease_s)) {}

  /// Goes on with the ring that a server which has gone shared with its jobs.
  static std::unique_ptr<BoundSharedRing> adopt(const py::list& leaves, int header,
                                                int memory, double lease_s) {
    return std::unique_ptr<BoundSharedRing>(new BoundSharedRing(
        leaves, Core::adopt(options(leaves), header, memory, lease_s)));
  }

  int header_fd() const { return core()->mapped_header().fd(); }
  int memory_fd() const { return core()->shared_memory()->fd(); }
  std::uint64_t slots() const { return core()->slots(); }
  py::bytes session() const { return show(core()->mapped_header()->session); }
  static py::bytes show(const std::array<unsigned char, 16>& session) {
    return {reinterpret_cast<const char*>(session.data()), session.size()};
  }

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
      : BoundBuffer(leaves, leaves, std::move(core)) {}

  std::shared_ptr<Core> core() const {
    std::shared_ptr<Core> core = hold();
    if (!core) throw std::runtime_error("the server has ended");
    return core;
  }

  static BufferOptions options(const py::list& leaves) {
    BufferOptions options;
    options.fields = Leaves(leaves, false).fields();
    return options;
  }
};

}  // namespace echobuf::python
