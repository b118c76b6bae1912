#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <utility>
#include <vector>

#include "echobuf/transform/chain_plan.hpp"
#include "host_buffer.hpp"
#include "register.hpp"
#include "register_methods.hpp"

namespace py = pybind11;
using echobuf::BufferOptions;
using echobuf::LeafOptions;
using echobuf::RowsPlan;
using echobuf::python::ExportedLeaf;
using echobuf::python::HeldLeaves;
using echobuf::python::HostBuffer;
using echobuf::python::padding;
using echobuf::python::Structure;
using echobuf::transform::ChainPlan;

namespace {

bool alternates(const LeafOptions& leaf) {
  return (leaf.plan && leaf.plan->alternates()) ||
         (leaf.rows && leaf.rows->alternates());
}

BufferOptions make_options(
    const py::list& leaves, bool ragged, std::uint64_t batch_size, std::uint64_t window,
    std::optional<std::pair<std::uint64_t, std::uint64_t>> factor,
    std::uint32_t max_factor, std::uint64_t seed, std::uint64_t epoch, bool drop_last,
    std::uint32_t prefetch, bool shared,
    std::shared_ptr<const echobuf::BorrowedSlots> borrowed,
    const std::vector<std::pair<std::size_t, std::shared_ptr<const ChainPlan>>>& output,
    const std::vector<std::shared_ptr<const RowsPlan>>& rows,
    const std::vector<py::bytes>& row_pads, std::uint64_t payload_bytes,
    const std::vector<std::uint64_t>& max_lengths, const std::string& form,
    std::uint64_t pad_to, const std::vector<py::bytes>& pad_values,
    std::uint64_t max_rows, std::uint64_t pack_to, bool cut, std::uint64_t examples,
    bool echoes, std::int64_t max_staleness) {
  BufferOptions options;
  options.fields = echobuf::python::Leaves(leaves, ragged).fields();
  options.ragged = ragged;
  options.batch_size = batch_size;
  options.window = window;
  options.automatic = !factor;
  if (factor) options.factor = {factor->first, factor->second};
  options.max_factor = max_factor;
  options.seed = seed;
  options.epoch = epoch;
  options.drop_last = drop_last;
  options.prefetch = prefetch;
  options.shared = shared;
  options.borrowed = std::move(borrowed);
  options.echoes = echoes;
  options.max_staleness = max_staleness;
  std::uint8_t infos = 0;
  for (const auto& [field, plan] : output) {
    const std::size_t i = options.leaves.size();
    options.leaves.push_back({field, plan});
    if (field == echobuf::kNoField) {  // infos, in the order of their kinds
      options.leaves.back().info = static_cast<echobuf::InfoLeaf>(++infos);
      options.echoes = true;
    }
    if (i < rows.size()) options.leaves[i].rows = rows[i];
    if (i < row_pads.size()) options.leaves[i].pad = padding(row_pads[i]);
    options.echoes = options.echoes || alternates(options.leaves[i]);
  }
  echobuf::LengthOptions& lengths = options.lengths;
  lengths.fields = echobuf::python::ragged_fields(leaves, max_lengths, pad_values);
  lengths.payload_bytes = payload_bytes;
  using Form = echobuf::LengthOptions::Form;
  lengths.form = form == "padded" ? Form::kPadded : Form::kPacked;
  lengths.pad_to = pad_to;
  lengths.max_rows = max_rows;
  lengths.pack_to = pack_to;
  lengths.cut = cut;
  lengths.examples = examples;
  return options;
}

}  // namespace

void register_buffer(py::module_& m) {
  using echobuf::Status;
  m.attr("TIMEOUT") = static_cast<int>(Status::kTimeout);
  m.attr("CLOSED") = static_cast<int>(Status::kClosed);
  m.attr("FAILED") = static_cast<int>(Status::kFailed);
  m.attr("FINISHED") = static_cast<int>(Status::kFinished);
  m.attr("SHORT") = static_cast<int>(Status::kShort);
  m.attr("NO_MEMORY") = static_cast<int>(Status::kNoMemory);
  m.attr("BROKEN") = static_cast<int>(Status::kBroken);
  m.attr("REENTRANT") = static_cast<int>(Status::kReentrant);
  m.attr("FORKED") = echobuf::python::kForked;
  m.attr("MISMATCH") = echobuf::python::kMismatch;
  m.attr("LEFT") = echobuf::python::kLeft;
  m.attr("VERSIONS") = echobuf::python::kVersions;
  m.attr("NO_FIELD") = echobuf::kNoField;  // of a leaf of infos

  py::class_<BufferOptions>(m, "BufferOptions")
      .def(py::init(&make_options), py::kw_only(), py::arg("leaves"), py::arg("ragged"),
           py::arg("batch_size"), py::arg("window"), py::arg("factor"),
           py::arg("max_factor"), py::arg("seed"), py::arg("epoch"),
           py::arg("drop_last"), py::arg("prefetch"), py::arg("shared"),
           py::arg("borrowed"), py::arg("output"),
           py::arg("rows") = std::vector<std::shared_ptr<const RowsPlan>>(),
           py::arg("row_pads") = std::vector<py::bytes>(), py::arg("payload_bytes") = 0,
           py::arg("max_lengths") = std::vector<std::uint64_t>(),
           py::arg("form") = "packed", py::arg("pad_to") = 1,
           py::arg("pad_values") = std::vector<py::bytes>(), py::arg("max_rows") = 0,
           py::arg("pack_to") = 0, py::arg("cut") = false, py::arg("examples") = 0,
           py::arg("echoes") = false, py::arg("max_staleness") = -1)
      .def("needs",
           [](const BufferOptions& options) {
             const echobuf::BufferNeeds needs = echobuf::Buffer::needs(options);
             return py::make_tuple(needs.slots, needs.bytes_per_slot, needs.batches,
                                   needs.bytes_per_batch, needs.more);
           })
      .def_readwrite("idle", &BufferOptions::idle);

  auto structure = py::class_<Structure, std::shared_ptr<Structure>>(m, "Structure");
  structure.def(py::init<const py::object&, py::object, py::object, std::size_t>());
  echobuf::python::add_trees<Structure>(structure);

  py::class_<ExportedLeaf>(m, "ExportedLeaf")
      .def("__dlpack__",
           [](const ExportedLeaf& leaf, const py::kwargs&) { return leaf.dlpack(); })
      .def("__dlpack_device__",
           [](const ExportedLeaf&) { return py::make_tuple(1, 0); });

  echobuf::python::register_any_buffer(m);
  auto buffer = py::class_<HostBuffer, echobuf::python::AnyBuffer>(m, "Buffer")
                    .def(py::init<const py::list&, const py::list&,
                                  const BufferOptions&, std::vector<py::object>>(),
                         py::arg("leaves"), py::arg("output"), py::arg("options"),
                         py::arg("makers") = std::vector<py::object>())
                    .def_property_readonly("share_bytes", &HostBuffer::share)
                    .def("next_rows", &HostBuffer::next_rows)
                    .def("next_exported", &HostBuffer::next_exported)
                    .def("exportable", &HostBuffer::exportable);
  echobuf::python::register_direct<HostBuffer>(buffer);
  echobuf::python::add_next<HostBuffer>(buffer);
  echobuf::python::add_next_into<HostBuffer>(buffer);
}
