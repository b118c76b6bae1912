// What Python has of a server's ring: the put of a buffer, epochs, and seats of jobs.
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
#include "echobuf/serve/station.hpp"

namespace echobuf::python {

class BoundStation : public BoundBuffer<serve::Station> {
  using Core = serve::Station;

 public:
  BoundStation(const py::list& leaves, std::uint64_t slots, int memory, double lease_s)
      : BoundBuffer(leaves, leaves,
                    std::make_shared<Core>(options(leaves), slots, memory, lease_s)) {}

  /// Goes on with what a server that is gone has left to its jobs.
  static std::unique_ptr<BoundStation> adopt(const py::list& leaves, int feed,
                                             int memory, double lease_s) {
    return std::unique_ptr<BoundStation>(
        new BoundStation(leaves, Core::adopt(options(leaves), feed, memory, lease_s)));
  }

  int feed() const { return core()->feed().fd(); }
  int memory() const { return core()->shared_memory()->fd(); }
  std::uint64_t slots() const { return core()->slots(); }
  py::bytes session() const { return show(core()->feed()->session); }
  static py::bytes show(const std::array<unsigned char, 16>& session) {
    return {reinterpret_cast<const char*>(session.data()), session.size()};
  }

  std::optional<std::uint64_t> begun_before() const { return core()->begun_before(); }
  /// How many were begun, and how many have ended.
  std::pair<std::uint64_t, std::uint64_t> epochs() const {
    const std::shared_ptr<Core> station = core();
    const serve::Header& header = *station->feed();
    return {header.begun, header.ended};
  }
  std::uint64_t published() const { return core()->feed()->published; }

  bool begin_epoch(std::uint64_t jobs, double timeout_s) const {
    const std::shared_ptr<Core> station = core();
    const GilRelease released;
    return station->begin_epoch(jobs, deadline_after(Clock::now(), timeout_s));
  }
  bool end_epoch() const {
    const std::shared_ptr<Core> station = core();
    const GilRelease released;
    return station->end_epoch();
  }
  void finish(const std::string& why, bool failed) const {
    core()->finish(why, failed);
  }

  std::optional<std::pair<std::uint64_t, std::uint64_t>> take_seat() const {
    return core()->take_seat();
  }
  void leave_seat(std::uint64_t seat, std::uint64_t holder) const {
    core()->leave_seat(seat, holder);
  }
  bool holds(std::uint64_t seat, std::uint64_t holder) const {
    return core()->holds(seat, holder);
  }
  std::vector<serve::JobReport> jobs() const { return core()->jobs(); }

 private:
  BoundStation(const py::list& leaves, std::shared_ptr<Core> core)
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
