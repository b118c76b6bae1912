// The buffer as Python sees it: arrays in, arrays out.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "echobuf/buffer.hpp"

namespace echobuf::python {

namespace py = pybind11;

/// One leaf of the spec: of one example, or of one whole batch.
struct Leaf {
  py::dtype dtype;
  std::vector<py::ssize_t> shape;
  std::size_t row_bytes;  // of one example; of one row of a whole batch
};

/// Codes that calls return beside Status; Python makes them into exceptions.
inline constexpr int kForked = 100;
inline constexpr int kMismatch = 101;
inline constexpr int kLeft = 102;  // the context was left

class PythonBuffer {
 public:
  PythonBuffer(const py::list& leaves, const BufferOptions& options);

  /// Puts one example, or those stacked on axis 0. Returns None, or a tuple of a code
  /// and the number of examples put (kMismatch: of the leaf that does not fit, or is no
  /// array whose rows are contiguous).
  py::object put(const py::list& arrays, bool stacked, std::optional<double> timeout_s);

  /// The leaves of the next batch, or a code.
  py::object next(std::optional<double> timeout_s);

  /// Draws into arrays that are as the spec says, contiguous, writable and apart. The
  /// length of the batch, or minus a code (kMismatch: Python must look at the arrays).
  py::ssize_t next_into(const py::list& arrays, std::optional<double> timeout_s);

  /// 0, 1, or a code.
  int ready();
  int close();
  int fail();
  int reset(std::uint64_t epoch);

  /// An epoch opened for upstream before this one is served out: 0, 1, or a code.
  int draining();
  int open_ahead(std::uint64_t epoch);
  int go_ahead();

  py::object checkpoint();
  /// 0, a code, or kMismatch if the buffer has been used.
  int restore(const py::dict& state);
  py::object stats();

  /// Ends all calls and gives the memory back, once the last call has left.
  void release();

  static BufferOptions options(
      const py::list& leaves, bool ragged, std::uint64_t batch_size,
      std::uint64_t window,
      std::optional<std::pair<std::uint64_t, std::uint64_t>> factor,
      std::uint32_t max_factor, std::uint64_t seed, std::uint64_t epoch, bool drop_last,
      std::uint32_t prefetch);

 private:
  /// The buffer, kept alive for a call; empty after release().
  std::shared_ptr<Buffer> hold() const;
  /// 0 if a call may go on, else the code that ends it.
  static int refuse(const std::shared_ptr<Buffer>& buffer);
  struct Sources;
  std::optional<std::size_t> bind(const Buffer& buffer, const py::list& arrays,
                                  bool stacked, Sources& sources) const;
  bool bind_out(const Buffer& buffer, const py::list& arrays,
                std::vector<std::byte*>& leaves) const;
  py::list wrap(const Buffer& buffer, Batch batch) const;

  std::vector<Leaf> leaves_;        // never changed
  std::shared_ptr<Buffer> buffer_;  // empty after release()
#ifdef Py_GIL_DISABLED
  const std::uint32_t generation_ = fork_generation();
  mutable std::mutex holding_;  // guards buffer_, where the GIL does not
#endif
};

}  // namespace echobuf::python
