// The ways in which calls of a buffer can end.
#pragma once

#include <cstddef>

namespace echobuf {

enum class Status : int {
  kOk = 0,
  kTimeout,      // nothing happened (a put: the rest did not)
  kClosed,       // a put after close(), or any call after shut_down()
  kFailed,       // upstream failed: fail() was called
  kFinished,     // everything has been served
  kShort,        // upstream ended otherwise than the loaded state says
  kInterrupted,  // the caller's poll said stop
  kNoMemory,     // no memory for a batch; nothing is lost, the next call tries again
  kBroken,       // the device is lost; nothing more is served
  kReentrant,    // called from the poll of a draw, which it would have to wait for
  kTwice,        // this capture has a draw already, which would draw the same batch
  kCapturing,    // a call that cannot be captured, on a stream that is
  kResize,       // the next batch is of another size than the caller's memory
};

/// Asked between chunks of long copies; false stops the call.
struct Poll {
  virtual ~Poll() = default;
  virtual bool go_on() = 0;
};

/// Asks a poll once in so many bytes.
class PollMeter {
 public:
  static constexpr std::size_t kBytes = std::size_t{16} << 20;

  void wrote(std::size_t bytes) { since_poll_ += bytes; }

  /// Returns false if the poll, asked now, says stop.
  bool go_on(Poll* poll) {
    if (!poll || since_poll_ < kBytes) return true;
    since_poll_ = 0;
    return poll->go_on();
  }
  bool go_on(std::size_t bytes, Poll* poll) {
    wrote(bytes);
    return go_on(poll);
  }

 private:
  std::size_t since_poll_ = 0;  // bytes
};

}  // namespace echobuf
