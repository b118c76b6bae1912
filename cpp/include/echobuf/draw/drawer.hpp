// Who forms batches: of whole records or of rows that these are packed into, in host
// memory or on a device. A virtual call a batch costs nothing beside it.
#pragma once

#include <cstdint>

#include "echobuf/draw/batch.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/schedule/epoch.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/status.hpp"

namespace echobuf {

/// kCaptured: nothing was drawn, but will be whenever a graph is launched. kTwice: it
/// is in that graph already. kCapturing: the call cannot be captured, or is not for
/// batches of this kind. kResize: the batch is of another size than the caller's
/// memory.
enum class DrawOutcome {
  kBatch,
  kWait,
  kFinished,
  kShort,
  kInterrupted,
  kCaptured,
  kTwice,
  kCapturing,
  kResize
};

/// One caller at a time, but for what is const.
class Drawer {
 public:
  using Outcome = DrawOutcome;

  Drawer() = default;
  Drawer(const Drawer&) = delete;
  Drawer& operator=(const Drawer&) = delete;
  virtual ~Drawer() = default;

  /// True if a draw would not wait. Changes nothing that is drawn.
  virtual bool ready() = 0;
  /// True if there is no further batch. Changes nothing that is drawn.
  virtual bool finished() = 0;
  /// After kWait: the ring position to wait for.
  virtual std::uint64_t wanted() = 0;
  /// The draws that were given up in the epoch, once it is served out.
  virtual std::uint64_t expired() const = 0;
  /// The schedule after the batches that were drawn.
  virtual const Sweep& sweep() const = 0;

  /// Goes over to the start of an epoch, or to where `sweep` is in it.
  virtual void restart(const Epoch& epoch) = 0;
  virtual void restore(const Epoch& epoch, const Sweep& sweep) = 0;
  /// Ends what goes on between draws and reads slots.
  virtual void settle() {}

  // ---- batches in memory of the buffer's

  /// Returns whether there are such, which can be drawn ahead; else batches are the
  /// caller's memory alone.
  virtual bool draws_blocks() const { return false; }
  virtual Outcome draw(Batch& /*batch*/, Poll* /*poll*/) { return Outcome::kCapturing; }
  /// Copies a batch of `target.count` out of its block.
  virtual void copy_block(const Block& /*block*/, const Target& /*target*/) {}
  /// See RowsOut; for any thread.
  virtual bool fits(const Batch& /*batch*/, RowsTarget& /*target*/) const {
    return false;
  }
  virtual void copy_out(const Batch& /*batch*/, const RowsTarget& /*target*/) const {}

  // ---- batches in the caller's memory: all of one or nothing

  virtual Outcome draw_into(Target& /*target*/, Poll* /*poll*/) {
    return Outcome::kCapturing;
  }
  /// The same of records with rows, if the batch fits.
  virtual Outcome draw_rows(RowsTarget& /*target*/, Poll* /*poll*/) {
    return Outcome::kCapturing;
  }
  /// On a device: makes the next batch that of launches on the stream of `target`,
  /// until the next call, if it fits the rows that this names; none for any.
  virtual Outcome before_replay(RowsTarget& /*target*/) { return Outcome::kCapturing; }
};

}  // namespace echobuf
