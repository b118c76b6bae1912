#include <poll.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "device_buffer.hpp"
#include "echobuf/process.hpp"
#include "echobuf/workers/crew.hpp"
#include "echobuf/workers/worker.hpp"
#include "host_buffer.hpp"
#include "leaves.hpp"
#include "register.hpp"
#include "station.hpp"
#include "waiting.hpp"

namespace py = pybind11;

namespace {

using echobuf::Deadline;
using echobuf::Poll;
using echobuf::Status;
using echobuf::WaitLimit;
using echobuf::python::code;
using echobuf::python::Does;

using Counts = std::vector<std::uint64_t>;

constexpr auto kNever = [] { return false; };

/// Ends this process, whatever it is doing, once one of `fds` has something to say: on
/// a thread that needs no GIL, which native code of a dataset may keep for ever.
void follow(const std::vector<int>& fds, int code) {
  std::thread([fds, code] {
    std::vector<pollfd> each;
    each.reserve(fds.size());
    for (const int fd : fds) each.push_back({fd, POLLIN, 0});
    while (poll(each.data(), each.size(), -1) <= 0) {
    }
    _exit(code);
  }).detach();
}

/// What a trainer has of its worker processes. `Core`: a BasicBuffer.
template <class Core>
class BoundCrew {
 public:
  BoundCrew(const echobuf::python::BoundBuffer<Core>& buffer, std::uint64_t workers,
            std::uint64_t ahead)
      : buffer_(buffer.share()), slots_(buffer_ ? buffer_->shared_memory() : nullptr) {
    if (!slots_) throw std::invalid_argument("the buffer's slots are not shared");
    crew_ = std::make_unique<Crew>(buffer_, workers, ahead);
  }

  /// In a forked child the thread that commits is not there to be joined.
  ~BoundCrew() {
    if (!buffer_->of_this_process()) {
      static_cast<void>(crew_.release());  // NOLINT: the parent's
      return;
    }
    const echobuf::python::GilRelease released;
    crew_.reset();
    buffer_.reset();
  }
  BoundCrew(const BoundCrew&) = delete;
  BoundCrew& operator=(const BoundCrew&) = delete;

  int board() const { return crew_->board().fd(); }
  int slots() const { return slots_->fd(); }
  std::uint64_t term() const { return buffer_->term(); }

  /// A code, and how many of `indices` have been given out by now.
  py::tuple give(std::uint64_t term,
                 const py::array_t<std::int64_t, py::array::c_style>& indices,
                 std::uint64_t given) {
    const auto n = static_cast<std::uint64_t>(indices.size());
    const std::int64_t* data = indices.data();
    const Status status = echobuf::python::run(
        Does::kOther, true, true, std::nullopt,
        [&](const WaitLimit& wait_limit, Poll*) {
          return crew_->give(term, data, n, given, wait_limit.end);
        },
        kNever);
    return py::make_tuple(code(status), given);
  }

  /// Whether all that was given up to `counts` has been committed within the time.
  bool settle(const Counts& counts, double timeout_s) {
    check(counts);
    const Status status = echobuf::python::run(
        Does::kOther, false, true, timeout_s,
        [&](const WaitLimit& wait_limit, Poll*) {
          return crew_->settle(counts, wait_limit.end);
        },
        kNever);
    if (status == Status::kInterrupted) throw py::error_already_set();
    return status == Status::kOk;
  }

  Counts given() const { return crew_->given(); }
  void revoke(std::uint64_t term, const Counts& counts) {
    check(counts);
    const echobuf::python::GilRelease released;  // a draw that it waits for may want it
    crew_->revoke(term, counts);
  }
  /// In a forked child it does nothing: the term is the parent's.
  void abandon(std::uint64_t term) {
    if (!buffer_->of_this_process()) return;
    const echobuf::python::GilRelease released;
    crew_->abandon(term);
  }
  void bury(std::uint64_t lane) { crew_->bury(lane); }
  bool is_wanted(std::uint64_t lane, std::uint64_t ticket) const {
    return crew_->is_wanted(lane, ticket);
  }
  void close() { crew_->close(); }
  std::uint64_t outstanding(std::uint64_t lane) const {
    return crew_->outstanding(lane);
  }

 private:
  using Crew = echobuf::workers::Crew<Core>;

  void check(const Counts& counts) const {
    if (counts.size() != crew_->board().lanes())
      throw std::invalid_argument("there must be one count for each worker");
  }

  std::shared_ptr<Core> buffer_;
  const echobuf::SharedMemory* slots_;  // the buffer's
  std::unique_ptr<Crew> crew_;
};

/// What a worker process has of its trainer.
class BoundWorker {
 public:
  BoundWorker(int board, std::uint64_t lanes, std::uint64_t lane, int slots,
              const py::list& leaves, std::uint64_t capacity)
      : leaves_(leaves, false),
        worker_(board, lanes, lane, slots, {leaves_.fields(), false}, capacity) {}

  /// A code, and the index of the example to make now.
  py::tuple take(double timeout_s) {
    std::int64_t index = 0;
    const int status = wait(
        timeout_s, [&](Deadline deadline) { return worker_.take(index, deadline); });
    return py::make_tuple(status, index);
  }

  int wait_revoked(double timeout_s) {
    return wait(timeout_s,
                [&](Deadline deadline) { return worker_.wait_revoked(deadline); });
  }

  /// Writes the leaves of the example; the index of one that does not fit.
  std::optional<std::size_t> write(const py::list& arrays) {
    echobuf::python::Sources sources;
    if (const auto leaf = leaves_.bind(arrays, false, sources)) return leaf;
    const echobuf::python::GilRelease released;
    worker_.write(sources.leaves.data());
    return std::nullopt;
  }

  std::uint64_t ticket() const { return worker_.ticket(); }
  void done() { worker_.done(); }

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

  const echobuf::python::Leaves leaves_;
  echobuf::workers::Worker worker_;
};

/// `Bound`: the buffer as Python has it.
template <class Bound, class Core>
void register_crew(py::module_& m, const char* name) {
  using Crew = BoundCrew<Core>;
  py::class_<Crew>(m, name)
      .def(py::init<const Bound&, std::uint64_t, std::uint64_t>(), py::arg("buffer"),
           py::arg("workers"), py::arg("ahead"))
      .def("board", &Crew::board)
      .def("slots", &Crew::slots)
      .def("term", &Crew::term)
      .def("give", &Crew::give, py::arg("term"), py::arg("indices"), py::arg("given"))
      .def("given", &Crew::given)
      .def("settle", &Crew::settle)
      .def("revoke", &Crew::revoke)
      .def("abandon", &Crew::abandon)
      .def("bury", &Crew::bury)
      .def("is_wanted", &Crew::is_wanted)
      .def("close", &Crew::close)
      .def("outstanding", &Crew::outstanding);
}

}  // namespace

void register_workers(py::module_& m) {
  m.def("follow", &follow);

  register_crew<echobuf::python::HostBuffer, echobuf::Buffer>(m, "Crew");
  register_crew<echobuf::python::BoundStation, echobuf::serve::Station>(m,
                                                                        "StationCrew");
  register_crew<echobuf::python::DeviceBuffer, echobuf::python::DeviceCore>(
      m, "DeviceCrew");

  py::class_<BoundWorker>(m, "Worker")
      .def(py::init<int, std::uint64_t, std::uint64_t, int, const py::list&,
                    std::uint64_t>(),
           py::arg("board"), py::arg("lanes"), py::arg("lane"), py::arg("slots"),
           py::arg("leaves"), py::arg("capacity"))
      .def("take", &BoundWorker::take)
      .def("wait_revoked", &BoundWorker::wait_revoked)
      .def("write", &BoundWorker::write)
      .def("ticket", &BoundWorker::ticket)
      .def("done", &BoundWorker::done);
}
