// The uses of records that a batch on the device is made of: leaves of infos, what
// stages know of a draw, and the slots of records that parts list.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "echobuf/cuda/draw_table.hpp"
#include "echobuf/cuda/handles.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/draw_layout.hpp"
#include "echobuf/options.hpp"
#include "echobuf/store/record.hpp"

namespace echobuf::cuda {

/// The columns of the table of a batch, in words of 8 bytes.
struct InfoColumns {
  std::size_t echoes = 0;  // behind the records
  std::size_t versions = 0;
  std::size_t slots = 0;
  std::size_t words = 0;

  InfoColumns(const BufferOptions& options, std::size_t rows) {
    const std::size_t halves = round_up((rows + 1) / 2, 2);
    if (options.echoes) {
      echoes = round_up(rows, 2);
      versions = echoes + halves;
      slots = versions + round_up(rows, 2);
    }
    words = slots + (options.expires() ? halves : 0);
  }
};

/// The host knows which record each row of a batch is a use of: it sends that ahead of
/// the launches, on their stream, and waits for nothing. Captured launches have memory
/// of their own: without a batch of theirs they draw nothing, and say what they said.
/// The device's context is the calling thread's.
class DeviceInfos {
 public:
  /// `rows`: of a batch at most.
  DeviceInfos(const BufferOptions& options, const SharedContext& context,
              const BatchLayout& batch, std::size_t rows)
      : context_(context),
        batch_(batch),
        has_uses_(options.echoes),
        at_(options, rows),
        table_(context, at_.words, copies(at_.words)),
        captured_(context, at_.words, copies(at_.words)) {}

  /// 0, where draws want none.
  static std::size_t device_bytes(const BufferOptions& options, std::size_t rows) {
    return 2 * DrawTable::bytes(InfoColumns(options, rows).words);
  }

  /// Where stages find the uses of a batch's rows, if draws know them.
  RowUses uses(bool captured) const {
    if (!has_uses_) return {};
    const Address begin = table(captured).begin_address();
    return {begin, begin + 8 * at_.echoes};
  }
  /// Where kernels find the slots of a batch's rows, if parts list them.
  Address slots(bool captured) const {
    return table(captured).begin_address() + 8 * at_.slots;
  }

  /// Makes `uses` those of the next launches on `stream`: of each row or, of one
  /// record with `rows` of them, of all. `slots`: of the rows, where parts list them.
  void send(const std::vector<DrawnUse>& uses, std::size_t rows,
            const std::vector<std::uint32_t>& slots, bool captured,
            StreamHandle stream) {
    DrawTable& to = captured ? captured_ : table_;
    to.begin();
    std::uint64_t* const records = to.add(at_.words);
    std::copy(slots.begin(), slots.end(),
              reinterpret_cast<std::uint32_t*>(records + at_.slots));
    auto* const echoes = reinterpret_cast<std::uint32_t*>(records + at_.echoes);
    auto* const versions = reinterpret_cast<std::int64_t*>(records + at_.versions);
    for (std::size_t i = 0; has_uses_ && i < rows; ++i) {
      const DrawnUse& use = uses[std::min(i, uses.size() - 1)];
      records[i] = use.record;
      echoes[i] = use.echo;
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
  /// As many as a training loop is ahead of its device at most, or some mebibytes.
  static std::size_t copies(std::size_t words) {
    constexpr std::size_t kMost = 64;
    constexpr std::size_t kBytes = std::size_t{4} << 20;
    return std::clamp<std::size_t>(kBytes / (2 * DrawTable::bytes(words)),
                                   DrawTable::kCopies, kMost);
  }

  const DrawTable& table(bool captured) const { return captured ? captured_ : table_; }

  Address address(InfoLeaf info, bool captured) const {
    const Address begin = table(captured).begin_address();
    switch (info) {
      case InfoLeaf::kEcho:
        return begin + 8 * at_.echoes;
      case InfoLeaf::kVersion:
        return begin + 8 * at_.versions;
      case InfoLeaf::kIndex:
      case InfoLeaf::kNone:
        break;
    }
    return begin;
  }

  const SharedContext context_;
  const BatchLayout& batch_;
  const bool has_uses_;
  const InfoColumns at_;
  DrawTable table_;
  DrawTable captured_;
};

}  // namespace echobuf::cuda
