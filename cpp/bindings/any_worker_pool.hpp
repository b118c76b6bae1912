// The methods that all kinds of worker pools have for Python.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "bound_buffer.hpp"

namespace echobuf::python {

using Counts = std::vector<std::uint64_t>;

/// The methods of all kinds of pools: see AnyBuffer.
class AnyWorkerPool {
 public:
  using Indices = py::array_t<std::int64_t, py::array::c_style>;

  AnyWorkerPool() = default;
  AnyWorkerPool(const AnyWorkerPool&) = delete;
  AnyWorkerPool& operator=(const AnyWorkerPool&) = delete;
  virtual ~AnyWorkerPool() = default;

  virtual int control_block_fd() const = 0;
  virtual int memory_fd() const = 0;
  virtual std::uint64_t term() const = 0;
  virtual py::tuple submit(std::uint64_t term, const Indices& indices,
                           std::uint64_t submitted) = 0;
  virtual bool wait_committed(const Counts& counts, double timeout_s) = 0;
  virtual Counts submitted() const = 0;
  virtual void revoke(std::uint64_t term, const Counts& counts) = 0;
  virtual void abandon(std::uint64_t term) = 0;
  virtual void reap(std::uint64_t queue) = 0;
  virtual bool is_wanted(std::uint64_t queue, std::uint64_t ticket) const = 0;
  virtual void close() = 0;
  virtual std::uint64_t outstanding(std::uint64_t queue) const = 0;
  virtual std::optional<std::int64_t> making(std::uint64_t queue) const = 0;
};

/// A ragged buffer's own `share` is another one.
template <class Core, class Methods>
std::shared_ptr<Core> core_of(
    const echobuf::python::BoundBuffer<Core, Methods>& buffer) {
  return buffer.share();
}

}  // namespace echobuf::python
