#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "echobuf/shared/client_slot.hpp"
#include "echobuf/shared/ring_reader.hpp"
#include "echobuf/shared/shared_ring.hpp"
#include "register.hpp"
#include "register_methods.hpp"
#include "shared_ring.hpp"
#include "waiting.hpp"

namespace py = pybind11;

namespace {

using echobuf::BorrowedSlots;
using echobuf::Clock;
using echobuf::Deadline;
using echobuf::SharedMemory;
using echobuf::python::AnyPuts;
using echobuf::python::BoundSharedRing;
using echobuf::python::deadline_after;
using echobuf::python::GilRelease;
using echobuf::python::show_session;
using echobuf::serve::ClientSlot;
using echobuf::serve::JobReport;
using echobuf::serve::ReadResult;
using echobuf::serve::RingHeader;
using echobuf::serve::RingReader;

constexpr std::size_t kReport = 6;

py::tuple report(const JobReport& job) {
  return py::make_tuple(job.seat, job.waiting, job.epoch, job.taken, job.held,
                        job.silent_s);
}
static_assert(sizeof(JobReport) <= kReport * sizeof(std::uint64_t));

Deadline after(double seconds) { return deadline_after(Clock::now(), seconds); }

/// The outcome of a wait for an epoch: how it ended, its number, and the position at
/// which it begins.
struct EpochBegun {
  ReadResult came = ReadResult::kTimeout;
  std::uint64_t number = 0;
  std::uint64_t base = 0;
};

/// Waits for an epoch to begin; without `epoch`, for the job's first.
EpochBegun wait_begun(const ClientSlot& client, std::optional<std::uint64_t> epoch,
                      Deadline deadline) {
  RingHeader& header = client.header();
  for (;;) {
    const std::uint32_t key = header.news.prepare();
    const std::uint32_t phase = header.phase.load(std::memory_order_acquire);
    const auto wanted = epoch ? epoch : client.first_epoch();
    const auto begins = wanted ? client.base_of(*wanted) : std::nullopt;
    if (!client.is_held()) return {ReadResult::kDropped};
    if (begins) return {ReadResult::kEnded, *wanted, *begins};
    if (phase == RingHeader::kFailed) return {ReadResult::kFailed};
    if (phase == RingHeader::kOver) return {ReadResult::kOver};
    if (Clock::now() >= deadline) return {ReadResult::kTimeout};
    header.news.wait(key, deadline);
  }
}

/// The same without the GIL: a code of ReadResult, the epoch, and the position.
py::tuple wait_epoch(const ClientSlot& client, std::optional<std::uint64_t> epoch,
                     double timeout_s) {
  EpochBegun begun;
  {
    const GilRelease released;
    begun = wait_begun(client, epoch, after(timeout_s));
  }
  return py::make_tuple(static_cast<int>(begun.came), begun.number, begun.base);
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

/// Maps a server's slots for a buffer that begins at position `base`.
std::shared_ptr<const BorrowedSlots> borrow(const std::shared_ptr<ClientSlot>& client,
                                            int memory, std::uint64_t base,
                                            bool writable) {
  const RingHeader& header = client->header();
  const echobuf::SharedWindow window = header.window();
  auto slots = std::make_shared<const SharedMemory>(memory, window.bytes(), writable);
  client->shift(base - base % header.slots);
  return std::make_shared<const BorrowedSlots>(BorrowedSlots{
      std::move(slots), header.slots, base % header.slots, client, window});
}

void register_reader(py::module_& m) {
  py::class_<RingReader>(m, "RingReader")
      .def(py::init([](const AnyPuts& buffer, std::shared_ptr<ClientSlot> client) {
        return std::make_unique<RingReader>(buffer.sink(), std::move(client));
      }))
      .def("gap", &RingReader::gap)
      .def("begin", &RingReader::begin)
      .def("term", &RingReader::term)
      .def("position", &RingReader::position)
      .def("misfit",
           [](const RingReader& reader) {
             const echobuf::Misfit misfit = reader.misfit();
             return py::make_tuple(static_cast<int>(misfit.kind), misfit.size);
           })
      .def("settle", &RingReader::settle)
      .def("read", [](RingReader& reader, std::uint64_t term, std::uint64_t epoch,
                      double timeout_s) {
        const GilRelease released;
        return static_cast<int>(reader.read(term, epoch, after(timeout_s)));
      });
}

void register_ring(py::module_& m) {
  using Ring = BoundSharedRing;
  auto ring = py::class_<Ring, AnyPuts>(m, "SharedRing");
  echobuf::python::add_put_tree<Ring>(ring);
  ring.def(py::init<const py::list&, std::uint64_t, int, double, std::uint64_t,
                    std::uint64_t>(),
           py::arg("leaves"), py::arg("slots"), py::arg("memory"), py::arg("lease_s"),
           py::arg("window") = 1, py::arg("payload_bytes") = 0)
      .def_static("adopt", &Ring::adopt, py::arg("leaves"), py::arg("header"),
                  py::arg("memory"), py::arg("lease_s"), py::arg("window") = 1,
                  py::arg("payload_bytes") = 0)
      .def_static("bytes_of", &Ring::bytes, py::arg("leaves"), py::arg("slots"),
                  py::arg("window") = 1, py::arg("payload_bytes") = 0)
      .def("close", &Ring::close)
      .def("term", &Ring::term)
      .def("release", &Ring::release)
      .def("header_fd", &Ring::header_fd)
      .def("memory_fd", &Ring::memory_fd)
      .def_property_readonly("share_bytes", &Ring::share)
      .def("slots", &Ring::slots)
      .def("session", &Ring::session)
      .def("resume_offset", &Ring::resume_offset)
      .def("epochs", &Ring::epochs)
      .def("published", &Ring::published)
      .def("begin_epoch", &Ring::begin_epoch)
      .def("end_epoch", &Ring::end_epoch)
      .def("finish", &Ring::finish)
      .def("take_seat", &Ring::take_seat)
      .def("leave_seat", &Ring::leave_seat)
      .def("holds", &Ring::holds)
      .def("jobs", [](const Ring& self) {
        py::list jobs;
        for (const JobReport& job : self.jobs()) jobs.append(report(job));
        return jobs;
      });
}

}  // namespace

void register_serve(py::module_& m) {
  using echobuf::Misfit;
  m.attr("READ_TIMEOUT") = static_cast<int>(ReadResult::kTimeout);
  m.attr("READ_CLOSED") = static_cast<int>(ReadResult::kClosed);
  m.attr("READ_DROPPED") = static_cast<int>(ReadResult::kDropped);
  m.attr("READ_OVER") = static_cast<int>(ReadResult::kOver);
  m.attr("READ_FAILED") = static_cast<int>(ReadResult::kFailed);
  m.attr("READ_MISFIT") = static_cast<int>(ReadResult::kMisfit);
  m.attr("MISFIT_SHARE") = static_cast<int>(Misfit::kShare);
  m.attr("MISFIT_LENGTH") = static_cast<int>(Misfit::kLength);

  register_ring(m);

  const py::class_<BorrowedSlots, std::shared_ptr<BorrowedSlots>> borrowed(
      m, "BorrowedSlots");
  py::class_<ClientSlot, std::shared_ptr<ClientSlot>>(m, "ClientSlot")
      .def(py::init<int, std::uint64_t, std::uint64_t, double>(), py::arg("header"),
           py::arg("seat"), py::arg("holder"), py::arg("lease_s"))
      .def("is_held", &ClientSlot::is_held)
      .def("slots", [](const ClientSlot& client) { return client.header().slots; })
      .def("session",
           [](const ClientSlot& client) {
             return show_session(client.header().session);
           })
      .def("reason",
           [](const ClientSlot& client) { return text_of(client.header().reason); })
      .def("skip_to", &ClientSlot::skip_to)
      .def("detach", &ClientSlot::detach)
      .def("wait_epoch", &wait_epoch)
      .def("borrow", [](const std::shared_ptr<ClientSlot>& client, int memory,
                        std::uint64_t base, bool writable) {
        return std::const_pointer_cast<BorrowedSlots>(
            borrow(client, memory, base, writable));
      });

  register_reader(m);
}
