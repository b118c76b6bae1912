// One part of a batch, drawn from the window in host memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/gather.hpp"
#include "echobuf/draw/info_leaves.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/draw/places_ahead.hpp"
#include "echobuf/draw/transformed_leaves.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/permutation.hpp"
#include "echobuf/schedule/permutation_range.hpp"
#include "echobuf/status.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/store/slots.hpp"
#include "echobuf/store/versions.hpp"

namespace echobuf {

class HostDraw {
 public:
  /// Throws std::bad_alloc.
  HostDraw(const Slots& slots, const BatchLayout& batch, std::uint64_t seed,
           const Versions* versions = nullptr)
      : slots_(slots),
        batch_(batch),
        stream_(batch.bytes() >= kStreamFrom),
        copied_(copied_fields(slots.layout(), batch)),
        transformed_(slots, batch, seed),
        infos_(batch, versions) {}

  const BatchLayout& batch() const { return batch_; }

  /// Draws a part into `target`, behind the examples that it has, and counts those of
  /// the part. False if the poll said stop.
  bool draw(const PassPart& part, Target& target, Poll* poll) {
    const SlotView view = slots_.view(part.window);
    const bool done = record().in_batches() ? draw_whole_batch(part, view, target, poll)
                                            : draw_records(part, view, target, poll);
    if (done && stream_) finish_streaming();
    return done;
  }

  /// Asks for the first records after a part that was drawn, which the next batch
  /// begins with: they come while the caller does something else.
  void expect_next(const PassPart& part) {
    const std::uint64_t left = part.of_pass() - part.offset - part.count;
    if (left == 0) return;  // another pass, with another order
    ahead_.look_behind(part);
    const std::size_t stride = record().stride();
    std::uint32_t records[kExpected];
    const auto count = std::min<std::uint64_t>(
        {left, kExpected, std::max<std::size_t>(1, kExpectedBytes / stride)});
    ahead_.write(part, part.count, count, records);
    const SlotView view = slots_.view(part.window);
    for (std::uint64_t i = 0; i < count; ++i)
      detail::prefetch_record(view.slots + view.slot(records[i]) * stride, stride);
  }
  /// The next batch is of another epoch, or goes on elsewhere in this one.
  void forget_next() { ahead_.forget(); }

  /// Copies a batch of `target.count` out of its block.
  void copy_out(const std::byte* block, const Target& target) const {
    for (std::size_t f = 0; f < batch_.leaves(); ++f)
      std::memcpy(target.leaves[f], block + batch_.offset(f),
                  target.count * batch_.all()[f].bytes);
  }

 private:
  static constexpr std::size_t kExpected = 16;         // records
  static constexpr std::size_t kExpectedBytes = 2048;  // as many misses as a core has

  const RecordLayout& record() const { return slots_.layout(); }

  bool draw_records(const PassPart& part, const SlotView& view, Target& target,
                    Poll* poll) {
    const std::uint64_t row = target.count;
    const std::size_t stride = record().stride();
    const std::uint64_t chunk =
        std::clamp<std::uint64_t>(PollMeter::kBytes / stride, 1, kGatherChunk);
    std::uint32_t records[kGatherChunk];
    std::uint32_t echoes[kGatherChunk];
    for (std::uint64_t done = 0; done < part.count; done += chunk) {
      const auto count = std::min(chunk, part.count - done);
      ahead_.write(part, done, count, records);
      gather_records(copied_, stride, view, records, count, target.leaves, row + done,
                     stream_);
      part.echoes_of(records, count, echoes);
      if (!infos_.none())
        infos_.write(part, records, echoes, count, target.leaves, row + done);
      if (!meter_.go_on(count * stride, poll)) return false;
      for (std::uint64_t i = 0; i < count && !transformed_.none(); ++i) {
        if (i + 1 < count)
          detail::prefetch_record(view.slots + view.slot(records[i + 1]) * stride,
                                  stride);
        transformed_.make(part, view, records[i], part.echoes ? echoes[i] : 0, done + i,
                          target.leaves, row + done + i);
        if (!meter_.go_on(transformed_.bytes(), poll)) return false;
      }
    }
    target.count += part.count;
    return true;
  }

  /// The part is one record, and the only one of the batch.
  bool draw_whole_batch(const PassPart& part, const SlotView& view, Target& target,
                        Poll* poll) {
    const std::uint32_t record = part.place(part.offset);
    const std::uint64_t slot = view.slot(record);
    const std::uint32_t echo = part.echo(record);
    target.count = gather_whole_batch(copied_, slots_, slot, target.leaves);
    if (!infos_.none())
      infos_.write_all(part, record, echo, target.count, target.leaves);
    for (std::uint64_t i = 0; i < target.count && !transformed_.none(); ++i) {
      transformed_.make_row(part, slot, record, echo, static_cast<std::uint32_t>(i),
                            static_cast<std::uint32_t>(target.count), target.leaves);
      if (!meter_.go_on(transformed_.bytes(), poll)) return false;
    }
    return true;
  }

  const Slots& slots_;
  const BatchLayout& batch_;
  const bool stream_;
  const std::vector<CopiedField> copied_;
  TransformedLeaves transformed_;
  const InfoLeaves infos_;
  PlacesAhead ahead_;
  PollMeter meter_;
};

}  // namespace echobuf
