#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "echobuf/draw/rows_plan.hpp"
#include "echobuf/transform/chain_plan.hpp"
#include "literals.hpp"
#include "operations.hpp"
#include "register.hpp"

namespace py = pybind11;
using namespace echobuf::transform;  // NOLINT(google-build-using-namespace)
using echobuf::RowsPlan;

namespace {

using Three = std::tuple<std::int32_t, std::int32_t, std::int32_t>;
using Strides = std::tuple<std::int64_t, std::int64_t, std::int64_t>;
/// Extent, type, bytes of an element, strides of rows, columns and channels.
using LayoutTuple = std::tuple<Three, std::uint32_t, std::uint32_t, Strides>;
using OpTuple = std::tuple<std::string, std::uint32_t, py::dict>;
/// Number; count, position and alternative of an order; bounds of a uniform.
using GateTuple = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, std::uint32_t,
                             double, double>;

Layout make_layout(const LayoutTuple& tuple) {
  const auto& [extent, type, bytes, strides] = tuple;
  const auto& [height, width, channels] = extent;
  const auto& [row, column, channel] = strides;
  return {{height, width, channels},
          static_cast<NumberType>(type),
          bytes,
          row,
          column,
          channel};
}

Stage make_stage(const LayoutTuple& source, const LayoutTuple& target, bool raw,
                 std::uint32_t core, std::uint32_t whole, std::int32_t before,
                 std::int32_t after, std::int32_t fill, std::int32_t statistic,
                 std::int32_t mix, std::int32_t frames, const std::vector<OpTuple>& ops,
                 std::int32_t from, std::int32_t to, bool doubled,
                 const std::vector<GateTuple>& gates) {
  if (ops.size() > static_cast<std::size_t>(kMostOps))
    throw py::value_error("too many operations in a stage");
  if (gates.size() > static_cast<std::size_t>(kMostGates))
    throw py::value_error("too many gates of a stage");
  Stage stage{};
  stage.source = make_layout(source);
  stage.target = make_layout(target);
  stage.raw = raw ? 1 : 0;
  stage.core = static_cast<Core>(core);
  stage.whole = static_cast<Whole>(whole);
  stage.before = before;
  stage.after = after;
  stage.count = static_cast<std::int32_t>(ops.size());
  stage.fill = fill;
  stage.statistic = statistic;
  stage.mix = mix;
  stage.frames = frames;
  for (std::size_t i = 0; i < ops.size(); ++i) {
    const auto& [kind, number, settings] = ops[i];
    stage.ops[i] = echobuf::python::make_operation(kind, number, settings);
  }
  stage.from = from;
  stage.to = to;
  stage.doubled = doubled ? 1 : 0;
  for (const auto& [number, order, position, alternative, low, high] : gates)
    stage.gates.gate[stage.gates.count++] = {number,      order, position,
                                             alternative, low,   high};
  return stage;
}

std::shared_ptr<RowsPlan> make_rows(
    const std::string& take, std::size_t row_bytes, std::size_t bytes,
    std::uint64_t length, std::uint32_t operation, bool mask,
    const std::vector<std::pair<std::uint64_t, std::shared_ptr<const ChainPlan>>>&
        pieces,
    std::uint32_t row_elements) {
  auto plan = std::make_shared<RowsPlan>();
  using Take = RowsPlan::Take;
  plan->take = take == "random"   ? Take::kRandom
               : take == "center" ? Take::kCenter
                                  : Take::kAll;
  plan->row_bytes = row_bytes;
  plan->bytes = bytes;
  plan->length = length;
  plan->operation = operation;
  plan->mask = mask;
  for (const auto& [rows, piece] : pieces) plan->pieces.push_back({rows, piece});
  plan->row_elements = row_elements;
  return plan;
}

/// The stages of a program, if there is one, in C++.
py::list literals_of(const Program* program) {
  py::list stages;
  if (!program) return stages;
  for (const Stage& stage : program->stages)
    stages.append(echobuf::python::stage_literals(stage));
  return stages;
}

}  // namespace

void register_transforms(py::module_& m) {
  m.attr("MOST_CHANNELS") = kMostChannels;
  m.attr("MOST_OPERATIONS") = kMostOps;
  m.attr("MOST_GATES") = kMostGates;
  m.attr("MOST_ORDERED") = kMostOrdered;
  m.attr("MOST_SPECIAL") = Mask::kMostSpecial;
  m.attr("MOST_BANDS") = Bands::kMost;
  m.attr("MOST_LEVELS") = Levels::kMost;
  py::class_<Stage>(m, "Stage")
      .def(py::init(&make_stage), py::kw_only(), py::arg("source"), py::arg("target"),
           py::arg("raw"), py::arg("core"), py::arg("whole"), py::arg("before"),
           py::arg("after"), py::arg("fill"), py::arg("statistic"), py::arg("mix"),
           py::arg("frames"), py::arg("ops"), py::arg("from_buffer"),
           py::arg("to_buffer"), py::arg("doubled"), py::arg("gates"));
  py::class_<ChainPlan, std::shared_ptr<ChainPlan>>(m, "ChainPlan")
      .def(py::init([](std::vector<Stage> stages) {
             return std::make_shared<ChainPlan>(Program{std::move(stages)});
           }),
           py::arg("stages"))
      .def_property_readonly("bytes", &ChainPlan::bytes)
      .def_property_readonly(
          "mixes",
          [](const ChainPlan& plan) { return plan.partner_operation().has_value(); })
      .def_property_readonly(
          "stages", [](const ChainPlan& plan) { return literals_of(plan.program()); });
  py::class_<RowsPlan, std::shared_ptr<RowsPlan>>(m, "RowsPlan")
      .def(py::init(&make_rows), py::kw_only(), py::arg("take"), py::arg("row_bytes"),
           py::arg("bytes"), py::arg("length") = 0, py::arg("operation") = 0,
           py::arg("mask") = false, py::arg("pieces"), py::arg("row_elements") = 0)
      .def_property_readonly("mask", [](const RowsPlan& plan) { return plan.mask; })
      .def_property_readonly("computes",
                             [](const RowsPlan& plan) { return !plan.pieces.empty(); })
      .def_property_readonly("stages", [](const RowsPlan& plan) {
        return literals_of(plan.pieces.empty() ? nullptr
                                               : plan.pieces.front().plan->program());
      });
}
