// The options of a leaf of batches: what it is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace echobuf {

class LeafPlan;
struct RowsPlan;

/// A leaf of a batch that says of each draw which it is, in place of a field.
enum class InfoLeaf : std::uint8_t {
  kNone,
  kIndex,    // int64: the number of its record among the epoch's fresh examples
  kEcho,     // int32: earlier uses of the record
  kVersion,  // int64: as the record was put with
};

inline constexpr std::size_t kNoField = ~std::size_t{0};

struct LeafOptions {
  std::size_t field;                               // kNoField for an `info`
  std::shared_ptr<const LeafPlan> plan;            // none: the field as it is
  std::shared_ptr<const RowsPlan> rows = nullptr;  // of a field of any number of rows
  std::vector<std::byte> pad = {};  // of what `rows` makes: one row; none: zeros
  InfoLeaf info = InfoLeaf::kNone;
};

}  // namespace echobuf
