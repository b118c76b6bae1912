// The uses of records that a batch on the device is made of: leaves of infos, and what
// stages know of a draw.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "echobuf/buffer/options.hpp"
#include "echobuf/cuda/draw_order.hpp"
#include "echobuf/cuda/draw_table.hpp"
#include "echobuf/cuda/handles.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/draw_layout.hpp"
#include "echobuf/store/record.hpp"

namespace echobuf::cuda {

/// The host knows which record each row of a batch is a use of: it sends that ahead of
/// the launches, on their stream, and waits for nothing. Captured launches have memory
/// of their own: without a batch of theirs they draw nothing, and say what they said.
/// The device's context is the calling thread's.
class DeviceInfos {
 public:
  /// `rows`: of a batch at most.
  DeviceInfos(const SharedContext& context, const BatchLayout& batch, std::size_t rows,
              DrawOrder& order)
      : context_(context),
        order_(order),
        batch_(batch),
        rows_(rows),
        table_(context, words(rows), copies(rows)),
        captured_(context, words(rows), copies(rows)) {}

  /// Waits for the last draw, which reads the table.
  ~DeviceInfos() { order_.await_draws(); }
  DeviceInfos(const DeviceInfos&) = delete;
  DeviceInfos& operator=(const DeviceInfos&) = delete;

  static std::size_t device_bytes(std::size_t rows) {
    return 2 * DrawTable::bytes(words(rows));
  }

  /// Where stages find the uses of a batch's rows.
  RowUses uses(bool captured) const {
    const Address begin = table(captured).begin_address();
    return {begin, begin + 8 * echoes_at(rows_)};
  }

  /// Makes `uses` those of the next launches on `stream`: of each row or, of one
  /// record with `rows` of them, of all.
  void send(const std::vector<DrawnUse>& uses, std::size_t rows, bool captured,
            StreamHandle stream) {
    DrawTable& to = captured ? captured_ : table_;
    to.begin();
    std::uint64_t* const records = to.add(words(rows_));
    auto* const echoes = reinterpret_cast<std::uint32_t*>(records + echoes_at(rows_));
    auto* const weights = reinterpret_cast<float*>(records + weights_at(rows_));
    auto* const versions =
        reinterpret_cast<std::int64_t*>(records + versions_at(rows_));
    for (std::size_t i = 0; i < rows; ++i) {
      const DrawnUse& use = uses[std::min(i, uses.size() - 1)];
      records[i] = use.record;
      echoes[i] = use.echo;
      weights[i] = 1.0F;
      versions[i] = use.version;
    }
    to.send(stream);
  }

  /// Copies them to the leaves of infos; also into a graph.
  void copy(std::byte* const* leaves, std::size_t rows, bool captured,
            StreamHandle stream) const {
    for (std::size_t i = 0; i < batch_.leaves(); ++i) {
      const BatchLayout::Leaf& leaf = batch_.all()[i];
      if (leaf.info == InfoLeaf::kNone || rows == 0) continue;
      context_->driver().copy_on_device(reinterpret_cast<Address>(leaves[i]),
                                        address(leaf.info, captured), rows * leaf.bytes,
                                        stream);
    }
  }

 private:
  // In words of 8 bytes: records, echoes, weights, versions.
  static std::size_t echoes_at(std::size_t rows) { return round_up(rows, 2); }
  static std::size_t weights_at(std::size_t rows) {
    return echoes_at(rows) + round_up((rows + 1) / 2, 2);
  }
  static std::size_t versions_at(std::size_t rows) {
    return weights_at(rows) + round_up((rows + 1) / 2, 2);
  }
  static std::size_t words(std::size_t rows) {
    return versions_at(rows) + round_up(rows, 2);
  }

  /// As many as a training loop is ahead of its device at most, or some mebibytes.
  static std::size_t copies(std::size_t rows) {
    constexpr std::size_t kMost = 64;
    constexpr std::size_t kBytes = std::size_t{4} << 20;
    return std::clamp<std::size_t>(
        kBytes / device_bytes(std::max<std::size_t>(rows, 1)), DrawTable::kCopies,
        kMost);
  }

  const DrawTable& table(bool captured) const { return captured ? captured_ : table_; }

  Address address(InfoLeaf info, bool captured) const {
    const Address begin = table(captured).begin_address();
    switch (info) {
      case InfoLeaf::kEcho:
        return begin + 8 * echoes_at(rows_);
      case InfoLeaf::kWeight:
        return begin + 8 * weights_at(rows_);
      case InfoLeaf::kVersion:
        return begin + 8 * versions_at(rows_);
      case InfoLeaf::kIndex:
      case InfoLeaf::kNone:
        break;
    }
    return begin;
  }

  const SharedContext context_;
  DrawOrder& order_;
  const BatchLayout& batch_;
  const std::size_t rows_;
  DrawTable table_;
  DrawTable captured_;
};

}  // namespace echobuf::cuda
