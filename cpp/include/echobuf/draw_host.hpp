// One part of a batch, drawn from the window in host memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "echobuf/gather.hpp"
#include "echobuf/options.hpp"
#include "echobuf/part.hpp"
#include "echobuf/permutation.hpp"
#include "echobuf/permutation_range.hpp"
#include "echobuf/record.hpp"
#include "echobuf/store_host.hpp"

namespace echobuf {

class HostDraw {
 public:
  HostDraw(const HostStore& store, const BatchLayout& batch)
      : store_(store), batch_(batch), stream_(batch.bytes() >= kStreamFrom) {}

  const RecordLayout& record() const { return store_.layout(); }
  const BatchLayout& batch() const { return batch_; }

  /// Draws a part into `target`, from row `row` on. False if the poll said stop.
  bool draw(const PassPart& part, Target& target, std::uint64_t row, Poll* poll) {
    const SlotView view = store_.view(part.window);
    if (record().ragged()) {
      const std::uint32_t index = part.order(static_cast<std::uint32_t>(part.offset));
      target.count = store_.gather_ragged(view.slot(index), target.leaves);
      return true;
    }
    const std::size_t stride = record().stride();
    const std::uint64_t chunk =
        std::clamp<std::uint64_t>(kPollBytes / stride, 1, kChunk);
    std::uint32_t records[kChunk];
    for (std::uint64_t done = 0; done < part.count; done += chunk) {
      const auto count = std::min(chunk, part.count - done);
      permute_range(part.order, static_cast<std::uint32_t>(part.offset + done),
                    static_cast<std::uint32_t>(count), records);
      gather_records(record(), view, records, count, target.leaves, row + done,
                     stream_);
      copied_ += count * stride;
      if (poll && copied_ >= kPollBytes) {
        copied_ = 0;
        if (!poll->go_on()) return false;
      }
    }
    if (stream_) finish_streaming();
    return true;
  }

  /// Copies a batch of `target.count` out of its block.
  void copy_out(const std::byte* block, const Target& target) const {
    for (std::size_t f = 0; f < batch_.leaves(); ++f)
      std::memcpy(target.leaves[f], block + batch_.offset(f),
                  target.count * record().bytes_per_count(f));
  }

 private:
  static constexpr std::size_t kChunk = 256;
  static constexpr std::size_t kPollBytes = std::size_t{16} << 20;

  const HostStore& store_;
  const BatchLayout& batch_;
  const bool stream_;
  std::size_t copied_ = 0;  // since the poll was asked
};

}  // namespace echobuf
