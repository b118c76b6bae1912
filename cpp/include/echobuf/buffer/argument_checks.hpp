// Checks of arguments for callers in C++, once a call; they throw what names the fault.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/store/source_leaf.hpp"

namespace echobuf::argument_checks {

/// `call`: the one that was called; `what`: what is wrong, and what to do.
[[noreturn]] inline void refuse(const char* call, const std::string& what) {
  throw std::invalid_argument(std::string(call) + ": " + what);
}

/// Throws std::invalid_argument for leaves that no example can be read from.
inline void check_leaves(const char* call, const RecordLayout& layout,
                         const SourceLeaf* leaves, std::size_t rows) {
  if (leaves == nullptr)
    refuse(call, "`leaves` is null; it has one SourceLeaf for each field");
  for (std::size_t f = 0; f < layout.fields().size(); ++f) {
    const Field& field = layout.fields()[f];
    if (layout.in_batches() && rows > field.rows)
      refuse(call, "`rows` is " + std::to_string(rows) + ", but field " +
                       std::to_string(f) + " has at most " +
                       std::to_string(field.rows));
    const std::size_t bytes = layout.bytes(f, rows);
    if (bytes == 0) continue;
    if (leaves[f].data == nullptr)
      refuse(call, "leaf " + std::to_string(f) + " points to null");
    if (leaves[f].bytes != 0 && leaves[f].bytes != bytes &&
        !(layout.in_batches() && leaves[f].bytes > bytes))
      refuse(call, "leaf " + std::to_string(f) + " has " +
                       std::to_string(leaves[f].bytes) +
                       " bytes an example, but its field " + std::to_string(bytes) +
                       "; SourceLeaf::of(p, n) is for n values an example");
  }
}

/// Throws std::invalid_argument for leaves that no batch can be drawn into.
inline void check_target(const char* call, const BatchLayout& layout,
                         std::byte* const* leaves) {
  if (leaves == nullptr)
    refuse(call, "`target.leaves` is null; it has one pointer for each leaf");
  for (std::size_t i = 0; i < layout.leaves(); ++i)
    if (leaves[i] == nullptr && layout.all()[i].bytes > 0)
      refuse(call, "leaf " + std::to_string(i) + " of `target` is null");
}

/// The same of memory for records that differ in length; none is no fault.
inline void check_rows(const char* call, const BatchLayout& layout,
                       const RowsTarget& target) {
  if (target.leaves.empty()) return;
  if (target.leaves.size() != layout.leaves())
    refuse(call, "`target` has " + std::to_string(target.leaves.size()) +
                     " leaves, but a batch has " + std::to_string(layout.leaves()));
  for (std::size_t i = 0; i < layout.leaves(); ++i) {
    const RowsTarget::Leaf& leaf = target.leaves[i];
    if (leaf.values == nullptr && (leaf.rows > 0 || layout.all()[i].bytes > 0))
      refuse(call, "leaf " + std::to_string(i) + " of `target` is null");
  }
}

/// Throws std::out_of_range for a leaf that a batch does not have, and
/// std::invalid_argument for one that does not hold values of `size` bytes, or for a
/// batch without memory.
inline void check_field(const BatchLayout& layout, std::size_t index, std::size_t size,
                        bool has_memory) {
  if (index >= layout.leaves())
    throw std::out_of_range("field: `index` is " + std::to_string(index) +
                            ", but a batch has " + std::to_string(layout.leaves()) +
                            " leaves, from 0 on");
  if (layout.all()[index].bytes % size != 0)
    refuse("field", "leaf " + std::to_string(index) + " has " +
                        std::to_string(layout.all()[index].bytes) +
                        " bytes an example, which are no values of " +
                        std::to_string(size) + " bytes; ask for the type that was put");
  if (!has_memory)
    refuse("field", "`batch` has no memory: it was not drawn, or was moved from");
}

}  // namespace echobuf::argument_checks
