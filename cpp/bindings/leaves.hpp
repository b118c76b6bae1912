// The leaves of a spec as NumPy sees them: arrays in, arrays out.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "array_view.hpp"
#include "buffer_protocol.hpp"
#include "dlpack.hpp"
#include "echobuf/draw/batch.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/length_options.hpp"
#include "echobuf/store/host_store.hpp"
#include "echobuf/store/record.hpp"
#include "numbers.hpp"

namespace echobuf::python {

namespace py = pybind11;

/// One leaf of the spec: of one example, or of one whole batch.
struct Leaf {
  py::dtype dtype;
  std::vector<py::ssize_t> shape;
  std::size_t row_bytes;    // of one example; of one row, if it has any number of them
  bool any_length = false;  // its axis 0 differs between examples
  std::uint64_t max_length = 0;  // then: the most that it may be; 0: no limit
  std::optional<DlpackType> dlpack = std::nullopt;
  WriteNumber write_number = nullptr;  // where a Python number may stand for the leaf
  // Of the tensors that it is put from, where they are of a type that NumPy lacks.
  std::optional<DlpackType> foreign = std::nullopt;
};

/// The way that leaves are put: in the dtypes of the spec, or as upstream yields them.
enum class Form { kStored, kYielded };

/// The addresses of the rows of each leaf of a put, and the objects that keep them.
struct Sources {
  std::vector<SourceLeaf> leaves;
  std::vector<py::object> scalars;  // as arrays of no axes, alive while they are copied
  std::vector<NumberBytes> numbers;  // of Python's; never more than there are leaves
  std::vector<ImportedBuffer> imported;
  std::uint64_t n = 0;
  std::size_t rows = 0;
  std::uint64_t payload = 0;  // bytes of leaves of any length

  /// Adds a leaf. It is written in place: a processor waits for a store before it
  /// copies those bytes together with others.
  void add(const std::byte* data, std::ptrdiff_t stride) {
    SourceLeaf& leaf = leaves.emplace_back();
    leaf.data = data;
    leaf.stride = stride;
  }
};

class PlacedLeaves;  // those on a device: placed_leaves.hpp

class Leaves {
 public:
  /// `spec`: a list of (dtype, shape). `in_batches`: of whole batches, whose axis
  /// shapes have, but for those of leaves of any length.
  Leaves(const py::list& spec, bool in_batches);

  /// The fields of a record.
  std::vector<FieldShape> fields() const;

  /// Fills `sources` with where `arrays` lie. Returns the index of the first that does
  /// not fit, or is none of: an array of NumPy's, of a framework with DLPack's exchange
  /// API or of the buffer protocol, its rows contiguous; a scalar of NumPy's; a number.
  /// The number of leaves where all of them fit.
  /// `placed`: the leaves on a device, which may have gaps; of one of any number of
  /// rows `arrays` then has the offsets alone. Null: there are none.
  std::size_t bind(PyObject* const* arrays, Form form, bool stacked, Sources& sources,
                   PlacedLeaves* placed = nullptr) const;
  /// The same of a list as long as the spec; nothing where all of them fit.
  std::optional<std::size_t> bind(const py::list& arrays, bool stacked,
                                  Sources& sources) const {
    const std::size_t fit =
        bind(PySequence_Fast_ITEMS(arrays.ptr()), Form::kStored, stacked, sources);
    if (fit == leaves_.size()) return std::nullopt;
    return fit;
  }

  /// Refuses, from now on, examples whose leaves of any length are longer than these
  /// options say, or, packed, not equally long, or have more bytes together.
  void limit(const LengthOptions& lengths, std::uint64_t most_bytes);

  /// Says which leaves stand for tensors of types that NumPy lacks, by torch's names.
  void take_foreign(const std::vector<std::optional<std::string>>& names);

  /// Fills `targets` with where `arrays`, for batches of `batch_size`, lie; false if
  /// Python must look at one of them: it does not fit, is no plain array, or may share
  /// memory with another.
  bool bind_out(const py::list& arrays, std::uint64_t batch_size,
                std::vector<std::byte*>& targets) const;

  /// A batch as arrays that own its memory together.
  py::list wrap(const BatchLayout& layout, Batch batch) const;

  /// A batch whose records differ in length: a leaf of any length is what its maker
  /// makes of its values and of its offsets, or lengths.
  py::list wrap(Batch batch, LengthOptions::Form form,
                const std::vector<py::object>& makers) const;

  /// The same of packed rows.
  py::list wrap_rows(Batch batch, const std::vector<py::object>& makers) const;

  /// Returns true if DLPack has types for all leaves.
  bool exportable() const;
  /// A batch as leaves that others take over.
  py::list export_all(const BatchLayout& layout, Batch batch) const;

 private:
  bool bind_rows(const Leaf& leaf, py::handle item, Form form, bool stacked,
                 Sources& sources, PlacedLeaves* placed, std::size_t index) const;
  bool within_limits(const Sources& sources) const;
  static std::uint64_t longest_of(const Sources& sources, std::size_t leaf);

  const bool in_batches_;
  std::vector<Leaf> leaves_;      // never changed, but for take_foreign() and limit(),
                                  // before the first put
  std::uint64_t most_bytes_ = 0;  // of the leaves of any length of a record
  std::uint64_t most_examples_ = 0;              // of a whole batch
  std::uint64_t most_rows_ = ~std::uint64_t{0};  // longer ones are cut
  bool same_lengths_ = false;                    // of all leaves of an example
};

/// The bytes of an item that rows are padded with; none for zeros.
std::vector<std::byte> padding(const py::bytes& item);

/// The fields of any number of rows. `max_lengths`: of each leaf, 0 for none;
/// `pad_values`: of each leaf, one item.
std::vector<RaggedField> ragged_fields(const py::list& spec,
                                       const std::vector<std::uint64_t>& max_lengths,
                                       const std::vector<py::bytes>& pad_values);

}  // namespace echobuf::python
