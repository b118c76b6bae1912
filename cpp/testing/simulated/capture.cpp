#include "capture.hpp"

#include <algorithm>

#include "graphs.hpp"
#include "world.hpp"

namespace echobuf::simulated {

int& thread_capture_mode() {
  thread_local int mode = kCaptureGlobal;
  return mode;
}

void Captures::remove(const std::shared_ptr<Capture>& capture) {
  all_.erase(std::remove(all_.begin(), all_.end(), capture), all_.end());
}

bool Captures::allow_unsafe_call() {
  const int mode = thread_capture_mode();
  if (mode == cuda::kCaptureRelaxed) return true;
  bool allowed = true;
  for (const auto& capture : all_) {
    const bool own =
        capture->thread == thread_number() && capture->mode != cuda::kCaptureRelaxed;
    const bool everybodys = mode == kCaptureGlobal && capture->mode == kCaptureGlobal;
    if (!own && !everybodys) continue;
    capture->invalid = true;
    allowed = false;
  }
  return allowed;
}

}  // namespace echobuf::simulated
