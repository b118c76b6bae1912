#include "ptx/shadow.hpp"

namespace echobuf::ptx {

bool Cell::races(const Accessor& then, const Accessor& now) {
  if (then.launch != now.launch) return false;
  if (then.block != now.block) return true;
  return then.thread != now.thread && then.epoch == now.epoch;
}

const Accessor* Cell::touch(const Accessor& now, bool write) {
  if (has_write_ && races(write_, now)) return &write_;
  if (write) {
    if (has_read_ && races(read_, now)) return &read_;
    if (has_other_read_ && races(other_read_, now)) return &other_read_;
    write_ = now;
    has_write_ = true;
    has_read_ = has_other_read_ = false;
    return nullptr;
  }
  // Two reads by different threads are kept: any writer is another thread than one of
  // them. A read by another block stays: no barrier orders it.
  if (has_read_ && races(read_, now)) {
    const bool keep =
        has_other_read_ && races(other_read_, now) && other_read_.block != now.block;
    if (!keep) other_read_ = read_;
    has_other_read_ = true;
  }
  read_ = now;
  has_read_ = true;
  return nullptr;
}

}  // namespace echobuf::ptx
