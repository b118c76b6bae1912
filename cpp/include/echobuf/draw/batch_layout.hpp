// The layout of the leaves of a batch in a block of batch memory, and their sources.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "echobuf/draw/leaf_plan.hpp"
#include "echobuf/draw/rows_plan.hpp"
#include "echobuf/leaf_options.hpp"
#include "echobuf/store/record.hpp"

namespace echobuf {

/// Of one draw.
inline std::size_t info_bytes(InfoLeaf info) {
  const bool is_long = info == InfoLeaf::kIndex || info == InfoLeaf::kVersion;
  return is_long ? sizeof(std::int64_t) : sizeof(std::int32_t);
}

/// Leaves one behind another, each at a 64-byte boundary.
class BatchLayout {
 public:
  struct Leaf {
    std::size_t offset;  // in the block
    std::size_t bytes;   // of one example
    std::size_t field;   // of the record; kNoField for an info
    const LeafPlan* plan;
    const RowsPlan* rows;  // where the field is of any number of rows, and no copy
    InfoLeaf info;
  };

  /// A batch of `batch_size` records. `leaves` must outlive it.
  BatchLayout(const RecordLayout& record, const std::vector<LeafOptions>& leaves,
              std::size_t batch_size) {
    if (leaves.empty())
      for (std::size_t f = 0; f < record.fields().size(); ++f)
        add(record, {f, nullptr}, batch_size);
    for (const LeafOptions& leaf : leaves) add(record, leaf, batch_size);
    if (bytes_ == 0) bytes_ = kLeafAlignment;
  }

  std::size_t offset(std::size_t leaf) const { return leaves_[leaf].offset; }
  const std::vector<Leaf>& all() const { return leaves_; }
  std::size_t leaves() const { return leaves_.size(); }
  std::size_t bytes() const { return bytes_; }

  /// Returns whether a plan makes one of the leaves.
  bool planned() const {
    for (const Leaf& leaf : leaves_)
      if (leaf.plan || leaf.rows) return true;
    return false;
  }
  std::size_t maker_bytes() const {
    std::size_t bytes = 0;
    for (const Leaf& leaf : leaves_) {
      if (leaf.plan) bytes += leaf.plan->maker_bytes();
      if (leaf.rows) bytes += leaf.rows->maker_bytes();
    }
    return bytes;
  }
  std::optional<std::uint32_t> partner_operation() const {
    for (const Leaf& leaf : leaves_)
      if (leaf.plan)
        if (const auto operation = leaf.plan->partner_operation()) return operation;
    return std::nullopt;
  }

 private:
  void add(const RecordLayout& record, const LeafOptions& leaf,
           std::size_t batch_size) {
    const bool is_info = leaf.info != InfoLeaf::kNone;
    const std::size_t bytes = is_info     ? info_bytes(leaf.info)
                              : leaf.plan ? leaf.plan->bytes()
                                          : record.bytes_per_count(leaf.field);
    leaves_.push_back(
        {bytes_, bytes, leaf.field, leaf.plan.get(), leaf.rows.get(), leaf.info});
    bytes_ +=
        round_up(size_product(bytes, record.most_count(batch_size)), kLeafAlignment);
  }

  std::vector<Leaf> leaves_;
  std::size_t bytes_ = 0;
};

}  // namespace echobuf
