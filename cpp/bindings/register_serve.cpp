#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "device_buffer.hpp"
#include "echobuf/serve/follower.hpp"
#include "echobuf/serve/place.hpp"
#include "echobuf/serve/station.hpp"
#include "host_buffer.hpp"
#include "leaves.hpp"
#include "register.hpp"
#include "register_methods.hpp"
#include "station.hpp"
#include "waiting.hpp"

namespace py = pybind11;

namespace {

using echobuf::BorrowedSlots;
using echobuf::Clock;
using echobuf::Deadline;
using echobuf::SharedMemory;
using echobuf::python::BoundStation;
using echobuf::python::deadline_after;
using echobuf::python::GilRelease;
using echobuf::serve::Followed;
using echobuf::serve::Follower;
using echobuf::serve::Header;
using echobuf::serve::JobReport;
using echobuf::serve::Place;

constexpr std::size_t kReport = 6;

py::tuple report(const JobReport& job) {
  return py::make_tuple(job.seat, job.waiting, job.epoch, job.taken, job.held,
                        job.silent_s);
}
static_assert(sizeof(JobReport) <= kReport * sizeof(std::uint64_t));

Deadline after(double seconds) { return deadline_after(Clock::now(), seconds); }

/// Waits for an epoch to begin; `first`: whichever is the job's first. A code of
/// Followed, and the epoch and where it begins.
py::tuple wait_epoch(const Place& place, std::optional<std::uint64_t> epoch,
                     double timeout_s) {
  const GilRelease released;
  const Deadline deadline = after(timeout_s);
  Header& header = place.header();
  Followed came = Followed::kTimeout;
  std::uint64_t number = 0;
  std::uint64_t base = 0;
  for (;;) {
    const std::uint32_t key = header.news.prepare();
    const std::uint32_t phase = header.phase.load(std::memory_order_acquire);
    const auto wanted = epoch ? epoch : place.first_epoch();
    const auto begins = wanted ? place.base_of(*wanted) : std::nullopt;
    if (!place.is_held()) {
      came = Followed::kDropped;
    } else if (begins) {
      came = Followed::kEnded;
      number = *wanted;
      base = *begins;
    } else if (phase == Header::kFailed) {
      came = Followed::kFailed;
    } else if (phase == Header::kOver) {
      came = Followed::kOver;
    } else if (Clock::now() < deadline) {
      header.news.wait(key, deadline);
      continue;
    }
    break;
  }
  const py::gil_scoped_acquire acquired;
  return py::make_tuple(static_cast<int>(came), number, base);
}

/// Returns text of another process; bytes that are no UTF-8 are escaped.
template <std::size_t N>
py::str text_of(const std::array<char, N>& written) {
  const std::size_t bytes = strnlen(written.data(), N);
  PyObject* text = PyUnicode_DecodeUTF8(written.data(), static_cast<py::ssize_t>(bytes),
                                        "backslashreplace");
  if (text == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(text);
}

/// What of a server's slots is lent to a buffer that begins at position `base`.
std::shared_ptr<const BorrowedSlots> lend(const std::shared_ptr<Place>& place,
                                          int memory, std::uint64_t base,
                                          bool writable) {
  const Header& header = place->header();
  const std::size_t bytes = echobuf::size_product(header.slots, header.stride);
  auto slots = std::make_shared<const SharedMemory>(memory, bytes, writable);
  place->shift(base - base % header.slots);
  return std::make_shared<const BorrowedSlots>(
      BorrowedSlots{std::move(slots), header.slots, base % header.slots, place});
}

/// What a job's thread has of its upstream. `Bound`: the buffer as Python has it.
template <class Bound, class Core>
void register_follower(py::module_& m, const char* name) {
  using F = Follower<Core>;
  py::class_<F>(m, name)
      .def(py::init([](const Bound& buffer, std::shared_ptr<Place> place) {
        return std::make_unique<F>(buffer.share(), std::move(place));
      }))
      .def("gap", &F::gap)
      .def("begin", &F::begin)
      .def("term", &F::term)
      .def("position", &F::position)
      .def("follow",
           [](F& follower, std::uint64_t term, std::uint64_t epoch, double timeout_s) {
             const GilRelease released;
             return static_cast<int>(follower.follow(term, epoch, after(timeout_s)));
           });
}

}  // namespace

void register_serve(py::module_& m) {
  m.attr("FOLLOWED_TIMEOUT") = static_cast<int>(Followed::kTimeout);
  m.attr("FOLLOWED_CLOSED") = static_cast<int>(Followed::kClosed);
  m.attr("FOLLOWED_DROPPED") = static_cast<int>(Followed::kDropped);
  m.attr("FOLLOWED_OVER") = static_cast<int>(Followed::kOver);
  m.attr("FOLLOWED_FAILED") = static_cast<int>(Followed::kFailed);

  auto station = py::class_<BoundStation>(m, "Station");
  echobuf::python::register_puts<BoundStation>(station);
  station
      .def(py::init<const py::list&, std::uint64_t, int, double>(), py::arg("leaves"),
           py::arg("slots"), py::arg("memory"), py::arg("lease_s"))
      .def_static("adopt", &BoundStation::adopt, py::arg("leaves"), py::arg("feed"),
                  py::arg("memory"), py::arg("lease_s"))
      .def("close", &BoundStation::close)
      .def("term", &BoundStation::term)
      .def("release", &BoundStation::release)
      .def("feed", &BoundStation::feed)
      .def("memory", &BoundStation::memory)
      .def("slots", &BoundStation::slots)
      .def("session", &BoundStation::session)
      .def("begun_before", &BoundStation::begun_before)
      .def("epochs", &BoundStation::epochs)
      .def("published", &BoundStation::published)
      .def("begin_epoch", &BoundStation::begin_epoch)
      .def("end_epoch", &BoundStation::end_epoch)
      .def("finish", &BoundStation::finish)
      .def("take_seat", &BoundStation::take_seat)
      .def("leave_seat", &BoundStation::leave_seat)
      .def("holds", &BoundStation::holds)
      .def("jobs", [](const BoundStation& station) {
        py::list jobs;
        for (const JobReport& job : station.jobs()) jobs.append(report(job));
        return jobs;
      });

  const py::class_<BorrowedSlots, std::shared_ptr<BorrowedSlots>> lent(m,
                                                                       "BorrowedSlots");
  py::class_<Place, std::shared_ptr<Place>>(m, "Place")
      .def(py::init<int, std::uint64_t, std::uint64_t, double>(), py::arg("feed"),
           py::arg("seat"), py::arg("holder"), py::arg("lease_s"))
      .def("is_held", &Place::is_held)
      .def("slots", [](const Place& place) { return place.header().slots; })
      .def(
          "session",
          [](const Place& place) { return BoundStation::show(place.header().session); })
      .def("why", [](const Place& place) { return text_of(place.header().why); })
      .def("leave", &Place::leave)
      .def("fall_silent", &Place::fall_silent)
      .def("wait_epoch", &wait_epoch)
      .def("lend", [](const std::shared_ptr<Place>& place, int memory,
                      std::uint64_t base, bool writable) {
        return std::const_pointer_cast<BorrowedSlots>(
            lend(place, memory, base, writable));
      });

  register_follower<echobuf::python::HostBuffer, echobuf::Buffer>(m, "Follower");
  register_follower<echobuf::python::DeviceBuffer, echobuf::python::DeviceCore>(
      m, "DeviceFollower");
}
