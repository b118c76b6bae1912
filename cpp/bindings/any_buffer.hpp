// The methods of all kinds of buffers. pybind11 makes functions for each method of each
// class; with these one class has them, and its kinds inherit.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "echobuf/shared/record_sink.hpp"
#include "structure.hpp"

namespace echobuf::python {

/// What examples are put into; BoundBuffer says what the methods do.
class AnyPuts {
 public:
  AnyPuts() = default;
  AnyPuts(const AnyPuts&) = delete;
  AnyPuts& operator=(const AnyPuts&) = delete;
  virtual ~AnyPuts() = default;

  virtual void use(std::shared_ptr<const Structure> structure) = 0;
  virtual void take_foreign(const std::vector<std::optional<std::string>>& names) = 0;
  virtual py::object put(const py::list& arrays, bool stacked,
                         std::optional<double> timeout_s,
                         const py::object& version) = 0;
  virtual py::tuple put_all(bool stacked, std::uint64_t term, const py::object& items,
                            std::uint64_t most, const py::object& carried) = 0;
  /// For who works on it beside Python. Throws std::invalid_argument once it was
  /// released.
  virtual std::unique_ptr<RecordSink> sink() const = 0;
};

/// A buffer, which has epochs, too.
class AnyBuffer : public AnyPuts {
 public:
  virtual int close() = 0;
  virtual int fail() = 0;
  virtual int abandon(std::uint64_t term) = 0;
  virtual std::uint64_t term() const = 0;
  virtual std::uint64_t oldest_needed() = 0;
  virtual int reset(std::uint64_t epoch, std::uint64_t skipped) = 0;
  virtual int draining() = 0;
  virtual int open_ahead(std::uint64_t epoch) = 0;
  virtual int go_ahead() = 0;
  virtual py::object checkpoint() = 0;
  virtual int restore(const py::dict& state) = 0;
  virtual py::object stats() = 0;
  virtual void release() = 0;
  virtual bool gone() const = 0;
};

}  // namespace echobuf::python
