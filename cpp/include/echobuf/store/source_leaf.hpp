// Where the values of what is put lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace echobuf {

/// The rows of one leaf of what is put: contiguous each, `stride` bytes apart.
struct SourceLeaf {
  const std::byte* data;
  std::ptrdiff_t stride;
  std::size_t bytes = 0;  // of one example, which a put then checks; 0: not known
  // Of a field of any number of rows: example i has those from offsets[i] to
  // offsets[i + 1], or `rows` of them, if it is the only one.
  const std::int64_t* offsets = nullptr;
  std::uint64_t rows = 0;
  std::uint64_t most_rows = ~std::uint64_t{0};  // longer examples are cut to so many
  // Of a whole batch of `rows` rows, the only record put: its example i has those from
  // batch_offsets[i] to batch_offsets[i + 1].
  const std::int64_t* batch_offsets = nullptr;

  /// `values` of the first example; each has `per_example` of them, and the next one's
  /// follow.
  template <class T>
  static SourceLeaf of(const T* values, std::size_t per_example = 1) {
    static_assert(std::is_trivially_copyable_v<T>, "records are copied as bytes");
    const std::size_t bytes = per_example * sizeof(T);
    return {reinterpret_cast<const std::byte*>(values),
            static_cast<std::ptrdiff_t>(bytes), bytes};
  }

  /// One example of `rows` rows, of `per_row` values each, in a field of any number.
  template <class T>
  static SourceLeaf of_rows(const T* values, std::uint64_t rows,
                            std::size_t per_row = 1) {
    SourceLeaf leaf = of(values, per_row);
    leaf.bytes = 0;
    leaf.rows = rows;
    return leaf;
  }
  /// Several, whose rows lie one behind another: see `offsets`.
  template <class T>
  static SourceLeaf of_offsets(const T* values, const std::int64_t* offsets,
                               std::size_t per_row = 1) {
    SourceLeaf leaf = of_rows(values, 0, per_row);
    leaf.offsets = offsets;
    return leaf;
  }

  /// A whole batch of so many examples.
  template <class T>
  static SourceLeaf of_batch(const T* values, const std::int64_t* offsets,
                             std::uint64_t examples, std::size_t per_row = 1) {
    SourceLeaf leaf =
        of_rows(values, static_cast<std::uint64_t>(offsets[examples]), per_row);
    leaf.batch_offsets = offsets;
    return leaf;
  }

  std::uint64_t rows_of(std::uint64_t example) const {
    const std::uint64_t all =
        offsets ? static_cast<std::uint64_t>(offsets[example + 1] - offsets[example])
                : rows;
    return all < most_rows ? all : most_rows;
  }
  std::uint64_t first_row_of(std::uint64_t example) const {
    return offsets ? static_cast<std::uint64_t>(offsets[example]) : 0;
  }
};

}  // namespace echobuf
