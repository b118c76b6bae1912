// The leaves of a batch that plans make, on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/gather.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/schedule/partner.hpp"
#include "echobuf/store/copy.hpp"
#include "echobuf/store/slots.hpp"

namespace echobuf {

class TransformedLeaves {
 public:
  /// Throws std::bad_alloc; nothing is allocated later.
  TransformedLeaves(const Slots& slots, const BatchLayout& batch, std::uint64_t seed)
      : slots_(slots), seed_(seed), partner_operation_(batch.partner_operation()) {
    const bool past_caches = batch.bytes() >= kStreamFrom;
    for (std::size_t i = 0; i < batch.leaves(); ++i) {
      const BatchLayout::Leaf& leaf = batch.all()[i];
      if (!leaf.plan) continue;
      const Field& field = slots.layout().fields()[leaf.field];
      transformed_.push_back({i, leaf.bytes, field.offset, field.row_bytes,
                              leaf.plan->maker(past_caches)});
      bytes_ += leaf.bytes;
    }
  }

  bool none() const { return transformed_.empty(); }
  /// Written for one example.
  std::size_t bytes() const { return bytes_; }

  /// Makes row `row` of the leaves from `record` of a pass, used `echo` times before,
  /// which is draw `i` of the part.
  void make(const PassPart& part, const SlotView& view, std::uint32_t record,
            std::uint32_t echo, std::uint64_t i, std::byte* const* leaves,
            std::uint64_t row) {
    Drawn drawn{seed_, part.epoch, part.draw + i, 0, nullptr, nullptr};
    drawn.use({part.record + record, echo});
    const Example example{slots_.record(view.slot(record))};
    Example partner = example;
    if (partner_operation_) {
      const auto offset = static_cast<std::uint32_t>(part.offset + i);
      const std::uint32_t other =
          partner_of(number_of(drawn), *partner_operation_, offset, part.order.size());
      partner.record = slots_.record(view.slot(part.place(other)));
    }
    make(drawn, example, partner, leaves, row);
  }

  /// Makes row `row` of `rows` from the whole batch in a slot, `record` of a pass and
  /// used `echo` times before; the partner is another row of it.
  void make_row(const PassPart& part, std::uint64_t slot, std::uint32_t record,
                std::uint32_t echo, std::uint32_t row, std::uint32_t rows,
                std::byte* const* leaves) {
    Drawn drawn{seed_, part.epoch, part.draw, row, nullptr, nullptr};
    drawn.use({part.record + record, echo});
    const std::byte* const batch = slots_.record(slot);
    const std::uint32_t other =
        partner_operation_
            ? partner_of(number_of(drawn), *partner_operation_, row, rows)
            : row;
    make(drawn, {batch, row}, {batch, other}, leaves, row);
  }

 private:
  static transform::DrawNumber number_of(const Drawn& drawn) {
    return {transform::transform_key(drawn.seed, drawn.epoch), drawn.draw, drawn.row};
  }

  /// Where an example is: a record, or a row of a whole batch.
  struct Example {
    const std::byte* record;
    std::uint32_t row = 0;
  };

  void make(Drawn& drawn, const Example& example, const Example& partner,
            std::byte* const* leaves, std::uint64_t row) {
    for (Transformed& leaf : transformed_) {
      const auto field_of = [&](const Example& of) {
        return of.record + leaf.offset + of.row * leaf.row_bytes;
      };
      drawn.example = field_of(example);
      drawn.partner = field_of(partner);
      leaf.maker->make(drawn, leaves[leaf.leaf] + row * leaf.bytes);
    }
  }

  struct Transformed {
    std::size_t leaf;
    std::size_t bytes;
    std::size_t offset;
    std::size_t row_bytes;  // of the field
    std::unique_ptr<LeafMaker> maker;
  };

  const Slots& slots_;
  const std::uint64_t seed_;
  const std::optional<std::uint32_t> partner_operation_;
  std::vector<Transformed> transformed_;
  std::size_t bytes_ = 0;
};

}  // namespace echobuf
