// The source of a leaf of a batch: a field of the record as it is, or the result of a
// plan, computed anew at each draw.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace echobuf {

namespace transform {
struct Program;
}

/// A use of a record, where BufferOptions::echoes says that draws know it.
struct DrawnUse {
  std::uint64_t record = 0;  // its number among the epoch's fresh examples
  std::uint32_t echo = 0;    // its uses before
  std::int64_t version = 0;  // that it was put with; 0 where nobody asks for it
};

/// One draw of an example, as far as what is made of it may depend on it.
struct Drawn {
  std::uint64_t seed;
  std::uint64_t epoch;
  std::uint64_t draw;        // of the epoch, from 0 on
  std::uint32_t row;         // in the batch, where whole batches are echoed
  const std::byte* example;  // its field
  const std::byte* partner;  // that of its partner, where a plan asks for one
  // Of an example that is made piece by piece:
  std::uint32_t first_element = 0;  // of the piece
  std::uint32_t first_row = 0;      // of the piece
  std::uint32_t rows = 0;           // of the example; 0: it is made in one piece
  // Where BufferOptions::echoes says so:
  std::uint64_t record = 0;  // its number among the epoch's fresh examples
  std::uint32_t echo = 0;    // its uses before

  void use(const DrawnUse& use) {
    record = use.record;
    echo = use.echo;
  }
};

/// Carries a plan out. One caller at a time.
class LeafMaker {
 public:
  virtual ~LeafMaker() = default;
  /// Writes the leaf of one example to `target`.
  virtual void make(const Drawn& drawn, std::byte* target) = 0;
};

/// Never changes; any number of buffers may share it.
class LeafPlan {
 public:
  virtual ~LeafPlan() = default;

  /// Of the leaf, for one example.
  virtual std::size_t bytes() const = 0;
  /// Of what makers need beside it.
  virtual std::size_t maker_bytes() const = 0;
  /// The operation that chooses a partner, if one does. The same in all plans of a
  /// buffer.
  virtual std::optional<std::uint32_t> partner_operation() const = 0;
  /// Returns whether it depends on which use of its record a draw is.
  virtual bool alternates() const { return false; }
  /// Its stages, for a device; null if only the host can carry it out.
  virtual const transform::Program* program() const { return nullptr; }
  /// `past_caches`: batches are larger than these. Throws std::bad_alloc.
  virtual std::unique_ptr<LeafMaker> maker(bool past_caches) const = 0;
};

}  // namespace echobuf
