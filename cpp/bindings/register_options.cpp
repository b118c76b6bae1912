#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "echobuf/buffer/buffer.hpp"
#include "echobuf/transform/chain_plan.hpp"
#include "leaves.hpp"
#include "register.hpp"

namespace py = pybind11;
using echobuf::BufferOptions;
using echobuf::LeafOptions;
using echobuf::RowsPlan;
using echobuf::transform::ChainPlan;

namespace {

using Form = echobuf::LengthOptions::Form;

template <class Value>
void read_option(const py::handle& from, Value& value) {
  value = from.cast<Value>();
}
void read_option(const py::handle& from, Form& form) {
  form = from.cast<std::string>() == "padded" ? Form::kPadded : Form::kPacked;
}
void read_option(const py::handle& from, echobuf::Ratio& factor) {
  const auto [num, den] = from.cast<std::pair<std::uint64_t, std::uint64_t>>();
  factor = {num, den};
}

/// The arguments of Python that have not been read.
class OptionArguments {
 public:
  explicit OptionArguments(const py::kwargs& given) : left_(given.attr("copy")()) {}

  /// Returns an argument; None if it is left out.
  py::object take(const char* name) { return left_.attr("pop")(name, py::none()); }
  template <class Value>
  void take(const char* name, Value& value) {
    if (const py::object given = take(name); !given.is_none())
      read_option(given, value);
  }
  /// Throws what Python does for an argument that there is not.
  void check_all_taken() const {
    for (const auto& [name, value] : left_)
      throw py::type_error("BufferOptions: no option " +
                           py::repr(name).cast<std::string>());
  }

 private:
  py::dict left_;
};

bool alternates(const LeafOptions& leaf) {
  return (leaf.plan && leaf.plan->alternates()) ||
         (leaf.rows && leaf.rows->alternates());
}

/// Reads what each leaf of batches is made of.
void read_output(OptionArguments& arguments, BufferOptions& options) {
  std::vector<std::pair<std::size_t, std::shared_ptr<const ChainPlan>>> output;
  std::vector<std::shared_ptr<const RowsPlan>> rows;
  std::vector<py::bytes> row_pads;
  arguments.take("output", output);
  arguments.take("rows", rows);
  arguments.take("row_pads", row_pads);
  std::uint8_t infos = 0;
  for (const auto& [field, plan] : output) {
    const std::size_t i = options.leaves.size();
    options.leaves.push_back({field, plan});
    if (field == echobuf::kNoField) {  // infos, in the order of their kinds, and again
      options.leaves.back().info = static_cast<echobuf::InfoLeaf>(1 + infos++ % 3);
      options.echoes = true;
    }
    if (i < rows.size()) options.leaves[i].rows = rows[i];
    if (i < row_pads.size())
      options.leaves[i].pad = echobuf::python::padding(row_pads[i]);
    options.echoes = options.echoes || alternates(options.leaves[i]);
  }
}

BufferOptions make_options(const py::kwargs& given) {
  OptionArguments arguments(given);
  BufferOptions options;
  options.automatic = given.contains("factor") && given["factor"].is_none();
  options.each([&](const char* name, auto& value) { arguments.take(name, value); });
  arguments.take("borrowed", options.borrowed);
  read_output(arguments, options);
  const py::list leaves = arguments.take("leaves");
  options.fields =
      echobuf::python::Leaves(leaves, options.lengths.in_batches()).fields();
  std::vector<std::uint64_t> max_lengths;
  std::vector<py::bytes> pad_values;
  arguments.take("max_lengths", max_lengths);
  arguments.take("pad_values", pad_values);
  options.lengths.fields =
      echobuf::python::ragged_fields(leaves, max_lengths, pad_values);
  arguments.check_all_taken();
  return options;
}

}  // namespace

void register_options(py::module_& m) {
  const auto needs = [](const BufferOptions& options) {
    const echobuf::BufferNeeds needs = echobuf::Buffer::needs(options);
    return py::make_tuple(needs.slots, needs.bytes_per_slot, needs.batches,
                          needs.bytes_per_batch, needs.more);
  };
  py::class_<BufferOptions>(m, "BufferOptions")
      .def(py::init(&make_options))
      .def("needs", needs)
      .def_readwrite("idle", &BufferOptions::idle);
}
