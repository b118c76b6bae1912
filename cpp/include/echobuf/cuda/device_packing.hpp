// Drawing batches of rows of one length, each packed with whole examples, on the
// device. One caller at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "echobuf/cuda/device_packed_rows.hpp"
#include "echobuf/cuda/replay.hpp"
#include "echobuf/cuda/rows_launch.hpp"
#include "echobuf/cuda/staged_ring.hpp"
#include "echobuf/cuda/staging.hpp"
#include "echobuf/draw/packing.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/options.hpp"
#include "echobuf/status.hpp"
#include "echobuf/store/versions.hpp"

namespace echobuf::cuda {

class DevicePacking final : public Packing<StagedRing, DevicePackedRows> {
 public:
  /// The rest as DevicePackedRows has it.
  DevicePacking(const BufferOptions& options, StagedRing& ring, const Staging& staging,
                const WindowRows& rows, const Versions& /*none*/,
                const SharedContext& context, const BatchLayout& batch,
                DrawOrder& order, const Staging::Window& window, const Kernels& kernels,
                const std::vector<StageKernels>& stages)
      : Packing(options, ring, rows, context, staging, batch, options, order, window,
                kernels, stages, kChunk, most_begun(options.batch_size)),
        order_(order),
        replay_(order) {}

  /// Draws all of a batch, or says how large it is. On a stream that is being captured:
  /// into its graph, and nothing is used up.
  Outcome draw_rows(RowsTarget& target, Poll* /*poll*/) override {
    const auto stream = static_cast<StreamHandle>(target.stream);
    const DrawOrder::Call call(order_, stream);
    if (call.capture()) return capture_into(target, *call.capture());
    end_replay();
    memory_.use(stream);
    const Outcome outcome = fill(nullptr);
    if (outcome != Outcome::kBatch) return outcome;
    const std::uint64_t rows = rows_of_first();
    if (!is_fitting(target, rows)) return Outcome::kResize;
    memory_.hand_out(first().block, first().rows, rows, target);
    go_past_first(rows);
    return outcome;
  }

  /// Makes the next batch that of launches on the stream of `target`, until the next
  /// call. Only whole batches are; of others nothing is used up. Its block is written
  /// to again by later calls alone, behind the launches.
  Outcome before_replay(RowsTarget& target) override {
    const auto stream = static_cast<StreamHandle>(target.stream);
    const DrawOrder::Call call(order_, stream);
    if (call.capture()) return Outcome::kCapturing;
    end_replay();  // before records are placed: what is drawn last has the event
    memory_.use(stream);
    const Outcome outcome = fill(nullptr);
    if (outcome != Outcome::kBatch) return outcome;
    const std::uint64_t rows = rows_of_first();
    if (rows != options_.batch_size) return Outcome::kFinished;
    memory_.send(first().block, first().rows);
    replay_.expect(stream);
    go_past_first(rows);
    return outcome;
  }

  /// Ends what goes on between draws; see DrawOrder::settle().
  void settle() override {
    end_replay();
    order_.settle();
  }

  /// To be called on a stream before the first draw: captured copies copy nothing.
  void erase(StreamHandle stream) { memory_.erase(stream); }

  /// Of the tables, and of blocks; by now, and at most.
  std::size_t device_bytes() const { return memory_.device_bytes(); }
  static std::size_t own_bytes(const BufferOptions& options, const BatchLayout& batch) {
    const std::size_t words =
        DevicePackedRows::table_words(options, options.lengths.fields.size(), kChunk);
    return RowsLaunch::device_bytes(words) +
           DeviceTransformedRows::bytes(batch, options, kChunk) +
           size_product(most_begun(options.batch_size),
                        DevicePackedRows::Layout(batch, options).bytes);
  }

 private:
  /// Ends the replay before: a graph that is launched without another before_replay()
  /// copies nothing.
  void end_replay() {
    replay_.finish([this](StreamHandle stream) { memory_.erase(stream); });
  }

  /// All that is not the number of rows is fixed.
  bool is_complete(const RowsTarget& target) const {
    return target.leaves.size() == memory_.leaves() && target.segments &&
           target.positions && target.lengths;
  }

  bool is_fitting(RowsTarget& target, std::uint64_t rows) const {
    const bool fit = is_complete(target) &&
                     (target.room > 0 ? target.room >= rows : target.count == rows);
    target.needed.assign(memory_.leaves(), options_.lengths.row_length());
    target.count = rows;
    return fit;
  }

  Outcome capture_into(RowsTarget& target, std::uint64_t capture) {
    if (!is_complete(target) || target.room != options_.batch_size)
      return Outcome::kCapturing;
    if (!replay_.note_capture(capture)) return Outcome::kTwice;
    memory_.capture(target);
    target.count = options_.batch_size;
    target.captured = true;
    return Outcome::kCaptured;
  }

  DrawOrder& order_;
  Replay replay_;  // goes first: it waits
};

}  // namespace echobuf::cuda
