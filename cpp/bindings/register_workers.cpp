// Registers the pool of worker processes, for buffers of all kinds, and a worker's end.
#include <poll.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "bound_buffer.hpp"
#include "echobuf/shared/worker.hpp"
#include "echobuf/shared/worker_pool.hpp"
#include "leaves.hpp"
#include "register.hpp"
#include "waiting.hpp"

namespace py = pybind11;

namespace {

namespace workers = echobuf::workers;
using echobuf::Deadline;
using echobuf::Poll;
using echobuf::Status;
using echobuf::WaitLimit;
using echobuf::python::AnyPuts;
using echobuf::python::code;
using echobuf::python::Does;
using echobuf::python::GilRelease;

constexpr auto kNever = [] { return false; };

/// Ends this process once one of `fds` is readable: on a thread that needs no GIL,
/// which native code of a dataset may keep for ever.
void exit_when_readable(const std::vector<int>& fds, int code) {
  std::thread([fds, code] {
    std::vector<pollfd> each;
    each.reserve(fds.size());
    for (const int fd : fds) each.push_back({fd, POLLIN, 0});
    while (poll(each.data(), each.size(), -1) <= 0) {
    }
    _exit(code);
  }).detach();
}

/// WorkerPool as Python has it.
class BoundWorkerPool {
 public:
  using Indices = py::array_t<std::int64_t, py::array::c_style>;

  BoundWorkerPool(const AnyPuts& buffer, std::uint64_t workers, std::uint64_t ahead,
                  std::uint64_t keep)
      : pool_(std::make_unique<workers::WorkerPool>(buffer.sink(), workers, ahead,
                                                    keep)) {}

  /// In a forked child there is no thread to be joined.
  ~BoundWorkerPool() {
    if (!of_this_process()) {
      static_cast<void>(pool_.release());  // NOLINT: the parent's
      return;
    }
    const GilRelease released;
    pool_.reset();
  }

  int control_block_fd() const { return pool_->control_block().fd(); }
  /// Of the memory that workers write examples into.
  int memory_fd() const { return pool_->memory()->fd(); }
  /// Bytes: of a worker's area, usual and all, and of an example's rows.
  py::object sizes() const {
    const workers::RowsAreas* const areas = pool_->areas();
    if (!areas) return py::none();
    return py::make_tuple(areas->sizes().usual, areas->sizes().all,
                          areas->record().most());
  }
  std::uint64_t term() const { return pool_->sink().term(); }

  void begin(std::uint64_t term, std::optional<std::uint64_t> ordered) {
    const GilRelease released;
    pool_->begin(term, ordered);
  }

  /// Returns a code, and how many of `indices` have been submitted so far.
  py::tuple submit(std::uint64_t term, const Indices& indices,
                   std::uint64_t submitted) {
    const auto n = static_cast<std::uint64_t>(indices.size());
    const std::int64_t* data = indices.data();
    const Status status = echobuf::python::run(
        Does::kOther, true, true, std::nullopt,
        [&](const WaitLimit& wait_limit, Poll*) {
          return pool_->submit(term, data, n, submitted, wait_limit.end);
        },
        kNever);
    return py::make_tuple(code(status), submitted);
  }

  /// Returns true once all items below `count` are in the ring, false after the time.
  bool wait_committed(std::uint64_t count, double timeout_s) {
    const Status status = echobuf::python::run(
        Does::kOther, false, true, timeout_s,
        [&](const WaitLimit& wait_limit, Poll*) {
          return pool_->wait_committed(count, wait_limit.end);
        },
        kNever);
    if (status == Status::kInterrupted) throw py::error_already_set();
    return status == Status::kOk;
  }

  std::uint64_t submitted() const { return pool_->submitted(); }
  void revoke(std::uint64_t term, std::uint64_t count) {
    const GilRelease released;  // a draw that it waits for may need the GIL
    pool_->revoke(term, count);
  }
  /// Does nothing in a forked child: the term is the parent's.
  void abandon(std::uint64_t term) {
    if (!of_this_process()) return;
    const GilRelease released;
    pool_->abandon(term);
  }
  void reap(std::uint64_t worker) {
    if (worker >= pool_->control_block().workers())
      throw std::invalid_argument("there is no such worker");
    const GilRelease released;
    pool_->reap(worker);
  }
  bool is_wanted(std::uint64_t item) const { return pool_->is_wanted(item); }
  void close() { pool_->close(); }
  std::optional<std::int64_t> making(std::uint64_t worker) const {
    return pool_->making(worker);
  }

  /// Returns the items that have entered, from entry `from` of a term on; those that
  /// have not, before one that has; and the first behind all of them. None of a term
  /// that is in order, or was not begun.
  py::object entered(std::uint64_t term, std::uint64_t from) const {
    const auto found = pool_->entered(term, from);
    if (!found) return py::none();
    return py::make_tuple(found->first.order, found->first.missing, found->second);
  }

 private:
  bool of_this_process() const { return pool_->sink().of_this_process(); }

  std::unique_ptr<workers::WorkerPool> pool_;
};

/// A worker as Python has it.
class BoundWorker {
 public:
  BoundWorker(echobuf::python::Leaves leaves, std::unique_ptr<workers::Worker> worker)
      : leaves_(std::move(leaves)), worker_(std::move(worker)) {}

  /// Returns a code, and the index of the example to make.
  py::tuple take(double timeout_s) {
    std::int64_t index = 0;
    const int status = wait(
        timeout_s, [&](Deadline deadline) { return worker_->take(index, deadline); });
    return py::make_tuple(status, index);
  }

  int wait_revoked(double timeout_s) {
    return wait(timeout_s,
                [&](Deadline deadline) { return worker_->wait_revoked(deadline); });
  }

  /// Writes the leaves of the example; returns the index of one that does not fit.
  std::optional<std::size_t> write(const py::list& arrays) {
    echobuf::python::Sources sources;
    if (const auto leaf = leaves_.bind(arrays, false, sources)) return leaf;
    const GilRelease released;
    Status status = Status::kTimeout;  // until there is room, or nobody wants it
    while (status == Status::kTimeout)
      status = worker_->write(sources.leaves.data(), echobuf::Clock::now() + kSecond);
    return std::nullopt;
  }

  std::uint64_t item() const { return worker_->item(); }
  void done() { worker_->done(); }

 private:
  template <class Call>
  int wait(double timeout_s, Call&& call) {
    const Status status = echobuf::python::run(
        Does::kOther, true, true, timeout_s,
        [&](const WaitLimit& wait_limit, Poll*) { return call(wait_limit.end); },
        kNever);
    if (status == Status::kInterrupted) throw py::error_already_set();
    return code(status);
  }

  static constexpr std::chrono::seconds kSecond{1};

  const echobuf::python::Leaves leaves_;
  const std::unique_ptr<workers::Worker> worker_;
};

/// WorkerPool::sizes().
using Sizes = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;

/// `capacity`: of the ring, in whose slots examples of one size are written. `sizes`,
/// `max_lengths`, `row_length`, `cut`: of examples that differ in length.
std::unique_ptr<BoundWorker> make_worker(int control_block, int memory,
                                         std::uint64_t count, std::uint64_t number,
                                         const py::list& leaves, std::uint64_t capacity,
                                         const std::optional<Sizes>& sizes,
                                         const std::vector<std::uint64_t>& max_lengths,
                                         std::uint64_t row_length, bool cut) {
  echobuf::python::Leaves own(leaves, false);
  const echobuf::RecordLayout layout(own.fields(), false);
  if (!sizes)
    return std::make_unique<BoundWorker>(
        own, std::make_unique<workers::Worker>(
                 control_block, count, number,
                 std::make_unique<workers::RingSlots>(memory, layout, capacity)));
  const auto [usual, all, most] = *sizes;
  echobuf::LengthOptions lengths;
  lengths.fields = echobuf::python::ragged_fields(leaves, max_lengths, {});
  lengths.pack_into(row_length, cut);
  own.limit(lengths, most);
  return std::make_unique<BoundWorker>(
      own, std::make_unique<workers::Worker>(
               control_block, count, number,
               std::make_unique<workers::RowsAreas>(
                   memory, count, workers::AreaRecord(layout, lengths.fields, most),
                   workers::AreaSizes{usual, all})));
}

}  // namespace

void register_workers(py::module_& m) {
  m.def("exit_when_readable", &exit_when_readable);

  py::class_<BoundWorkerPool>(m, "WorkerPool")
      .def(py::init<const AnyPuts&, std::uint64_t, std::uint64_t, std::uint64_t>(),
           py::arg("buffer"), py::arg("workers"), py::arg("ahead"), py::arg("keep"))
      .def("control_block_fd", &BoundWorkerPool::control_block_fd)
      .def("memory_fd", &BoundWorkerPool::memory_fd)
      .def("sizes", &BoundWorkerPool::sizes)
      .def("term", &BoundWorkerPool::term)
      .def("begin", &BoundWorkerPool::begin)
      .def("submit", &BoundWorkerPool::submit, py::arg("term"), py::arg("indices"),
           py::arg("submitted"))
      .def("submitted", &BoundWorkerPool::submitted)
      .def("wait_committed", &BoundWorkerPool::wait_committed)
      .def("revoke", &BoundWorkerPool::revoke)
      .def("abandon", &BoundWorkerPool::abandon)
      .def("reap", &BoundWorkerPool::reap)
      .def("is_wanted", &BoundWorkerPool::is_wanted)
      .def("close", &BoundWorkerPool::close)
      .def("making", &BoundWorkerPool::making)
      .def("entered", &BoundWorkerPool::entered);

  py::class_<BoundWorker>(m, "Worker")
      .def(py::init(&make_worker), py::kw_only(), py::arg("control_block"),
           py::arg("memory"), py::arg("workers"), py::arg("number"), py::arg("leaves"),
           py::arg("capacity") = 0, py::arg("sizes") = py::none(),
           py::arg("max_lengths") = std::vector<std::uint64_t>(),
           py::arg("row_length") = 0, py::arg("cut") = false)
      .def("take", &BoundWorker::take)
      .def("wait_revoked", &BoundWorker::wait_revoked)
      .def("write", &BoundWorker::write)
      .def("item", &BoundWorker::item)
      .def("done", &BoundWorker::done);
}
