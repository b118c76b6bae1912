// The schedules as pure values, for len(), for checkpoints and for the tests.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

#include "echobuf/schedule/auto_schedule.hpp"
#include "echobuf/schedule/fixed_schedule.hpp"
#include "register.hpp"

namespace py = pybind11;
using echobuf::AutoSchedule;
using echobuf::FixedSchedule;
using echobuf::UpstreamProgress;

namespace {

using Spans = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

FixedSchedule fixed(std::uint64_t window, std::uint64_t num, std::uint64_t den,
                    std::uint64_t phase = 0) {
  return {window, {num, den}, phase};
}

Spans fixed_passes(std::uint64_t window, std::uint64_t num, std::uint64_t den,
                   std::uint64_t n, std::uint64_t phase) {
  const FixedSchedule schedule = fixed(window, num, den, phase);
  Spans spans;
  for (std::uint64_t pass = 0; pass < schedule.passes(n); ++pass) {
    const std::uint64_t first = schedule.oldest_record(pass);
    const std::uint64_t end = std::min(n, schedule.segment_start(pass + 1));
    spans.emplace_back(first, end - first);
  }
  return spans;
}

std::string name(AutoSchedule::Next next) {
  switch (next) {
    case AutoSchedule::Next::kPass:
      return "pass";
    case AutoSchedule::Next::kWait:
      return "wait";
    case AutoSchedule::Next::kFinished:
      break;
  }
  return "finished";
}

std::vector<std::uint32_t> uses(const AutoSchedule& schedule) {
  std::vector<std::uint32_t> uses;
  for (std::uint64_t i = schedule.state().lo; i < schedule.state().hi; ++i)
    uses.push_back(schedule.uses(i));
  return uses;
}

}  // namespace

void register_schedule(py::module_& m) {
  m.def(
      "epoch_phase",
      [](std::uint64_t num, std::uint64_t den, std::uint64_t seed,
         std::uint64_t epoch) { return echobuf::epoch_phase({num, den}, seed, epoch); },
      py::arg("num"), py::arg("den"), py::arg("seed"), py::arg("epoch"));
  m.def("fixed_passes", &fixed_passes, py::arg("window"), py::arg("num"),
        py::arg("den"), py::arg("n"), py::arg("phase") = 0);
  m.def(
      "fixed_total_draws",
      [](std::uint64_t window, std::uint64_t num, std::uint64_t den, std::uint64_t n,
         std::uint64_t phase) { return fixed(window, num, den, phase).total_draws(n); },
      py::arg("window"), py::arg("num"), py::arg("den"), py::arg("n"),
      py::arg("phase") = 0);
  m.def(
      "fixed_segment_start",
      [](std::uint64_t window, std::uint64_t num, std::uint64_t den, std::uint64_t i) {
        return fixed(window, num, den).segment_start(i);
      },
      py::arg("window"), py::arg("num"), py::arg("den"), py::arg("segment"));
  m.def(
      "fixed_capacity",
      [](std::uint64_t window, std::uint64_t num, std::uint64_t den) {
        return fixed(window, num, den).capacity();
      },
      py::arg("window"), py::arg("num"), py::arg("den"));

  py::class_<AutoSchedule>(m, "AutoSchedule")
      .def(py::init<std::uint64_t, std::uint64_t, std::uint32_t>(), py::arg("window"),
           py::arg("batch_size"), py::arg("max_factor"))
      .def_property_readonly("capacity", &AutoSchedule::capacity)
      .def_property_readonly("segments", &AutoSchedule::segments)
      .def("start", &AutoSchedule::segment_start)
      .def(
          "advance",
          [](AutoSchedule& schedule, std::uint64_t committed, bool held_back,
             bool ended) {
            return name(schedule.advance({committed, held_back, ended}));
          },
          py::arg("committed"), py::kw_only(), py::arg("held_back"), py::arg("ended"))
      .def_property_readonly("lo", [](const AutoSchedule& s) { return s.state().lo; })
      .def_property_readonly("hi", [](const AutoSchedule& s) { return s.state().hi; })
      .def_property_readonly("limit",
                             [](const AutoSchedule& s) { return s.state().limit; })
      .def_property_readonly("uses", &uses);
}
