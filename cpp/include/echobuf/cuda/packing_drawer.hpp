// Drawing batches of rows of one length, each packed with whole examples, on the
// device. One caller at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "echobuf/buffer/options.hpp"
#include "echobuf/cuda/device_rows.hpp"
#include "echobuf/cuda/payload_staging.hpp"
#include "echobuf/cuda/staged_payload_ring.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/draw/rows_filler.hpp"

namespace echobuf::cuda {

class DevicePackingDrawer
    : public RowsFiller<StagedPayloadRing, PayloadStaging, DeviceRows> {
 public:
  static constexpr bool kInBlocks = false;  // batches are the caller's memory alone

  /// The rest as DeviceRows has it.
  DevicePackingDrawer(const BufferOptions& options, StagedPayloadRing& ring,
                      const PayloadStaging& staging, std::uint64_t share,
                      std::uint64_t most_bytes, RowsCounts& counts,
                      const SharedContext& context, const BatchLayout& batch,
                      DrawOrder& order, const PayloadStaging::Window& window,
                      const RowsKernels& kernels,
                      const std::vector<StageKernels>& stages)
      : RowsFiller(options, ring, staging, share, most_bytes, counts, context, staging,
                   batch, options, order, window, kernels, stages, kChunk,
                   most_begun(options.batch_size)) {}

  /// Draws all of a batch, or says how large it is.
  Outcome draw_rows(RowsTarget& target) {
    const DeviceContext::Scope scope(memory_.context());
    const auto stream = static_cast<StreamHandle>(target.stream);
    if (memory_.context().driver().capture_of(stream)) return Outcome::kCapturing;
    memory_.use(stream);
    const Outcome outcome = fill(nullptr);
    if (outcome != Outcome::kBatch) return outcome;
    const std::uint64_t rows = rows_of_first();
    if (!fits(target, rows)) return Outcome::kResize;
    memory_.hand_out(first().block, first().rows, rows, target);
    go_past_first(rows);
    return outcome;
  }

  // The calls of other buffers: these are not for records that differ in length.
  Outcome draw_into(Target&, Poll*) { return Outcome::kCapturing; }
  Outcome before_replay(StreamHandle) { return Outcome::kCapturing; }

  /// Of the table, and of blocks; by now, and at most.
  std::size_t device_bytes() const { return memory_.device_bytes(); }
  static std::size_t own_bytes(const BufferOptions& options, const BatchLayout& batch) {
    const std::size_t words =
        DeviceRows::table_words(options, options.lengths.fields.size(), kChunk);
    return DrawTable::bytes(words) +
           DeviceTransformedRows::bytes(batch, options, kChunk) +
           size_product(most_begun(options.batch_size),
                        DeviceRows::Layout(batch, options).bytes);
  }

 private:
  bool fits(RowsTarget& target, std::uint64_t rows) const {
    const std::size_t leaves = memory_.leaves();
    const bool fit = target.leaves.size() == leaves && target.count == rows &&
                     target.segments && target.positions && target.lengths;
    target.needed.assign(leaves, options_.lengths.pack_to);
    target.count = rows;
    return fit;
  }
};

}  // namespace echobuf::cuda
