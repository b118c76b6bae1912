#include "ptx/block.hpp"

#include <algorithm>

namespace echobuf::ptx {

namespace {

constexpr std::uint64_t kLongestTurn = 96;  // instructions of a warp in a row

[[noreturn]] void outside(const char* space) {
  throw Complaint{FaultKind::kOutOfBounds,
                  std::string("outside the variables in ") + space + " memory"};
}

}  // namespace

void Block::Bytes::assign(std::uint64_t bytes) {
  data.assign(bytes, 0xA5);
  written.assign(bytes, 0);
}

Block::Block(Launch& launch)
    : launch_(launch),
      threads_(static_cast<std::uint32_t>(launch.settings.block.count())) {
  for (std::uint32_t first = 0; first < threads_; first += kLanes)
    warps_.emplace_back(*this, first, std::min(kLanes, threads_ - first));
}

void Block::run(std::uint32_t number) {
  number_ = number;
  epoch_ = 0;
  shared_.assign(launch_.kernel.shared.bytes());
  shared_shadow_ = {};
  shared_shadow_.resize(launch_.kernel.shared.bytes());
  local_.assign(launch_.kernel.local.bytes() * threads_);
  std::vector<Warp*> running;
  for (Warp& warp : warps_) warp.begin();
  for (;;) {
    running.clear();
    for (Warp& warp : warps_)
      if (warp.can_run()) running.push_back(&warp);
    if (running.empty()) {
      const bool ended = std::all_of(warps_.begin(), warps_.end(),
                                     [](const Warp& warp) { return warp.ended(); });
      if (ended) return;
      release_barrier();
      continue;
    }
    Warp& warp = *running[launch_.random.below(running.size())];
    warp.run(1 + launch_.random.below(kLongestTurn));
  }
}

/// All warps that have not ended have come to a barrier: it must be the same one.
void Block::release_barrier() {
  const Warp* first = nullptr;
  for (const Warp& warp : warps_) {
    if (warp.ended()) continue;
    if (first == nullptr) first = &warp;
    if (warp.barrier() != first->barrier()) warp.fail_at_barrier(*first);
  }
  for (Warp& warp : warps_) warp.pass_barrier();
  ++epoch_;
}

bool Block::is_global(Space space, std::uint64_t address) {
  if (space != Space::kGeneric) return space == Space::kGlobal;
  return address - kSharedWindow >= kWindowBytes &&
         address - kLocalWindow >= kWindowBytes &&
         address - kParamWindow >= kWindowBytes;
}

Place Block::find(Space space, std::uint64_t address, std::uint64_t bytes, bool write,
                  std::uint32_t used, std::uint32_t thread) {
  switch (space) {
    case Space::kShared:
      return find_shared(address, bytes);
    case Space::kLocal:
      return find_local(address, bytes, thread);
    case Space::kParam:
      return find_parameter(address, bytes);
    case Space::kGlobal:
    case Space::kConst:
      break;
    case Space::kGeneric:
      if (address - kSharedWindow < kWindowBytes)
        return find_shared(address - kSharedWindow, bytes);
      if (address - kLocalWindow < kWindowBytes)
        return find_local(address - kLocalWindow, bytes, thread);
      if (address - kParamWindow < kWindowBytes)
        return find_parameter(address - kParamWindow, bytes);
      break;
  }
  const Place place = launch_.memory.find_place(address, bytes, write, used);
  if (space == Space::kConst && !place.read_only)
    throw Complaint{FaultKind::kOutOfBounds, "not a constant"};
  return place;
}

Place Block::find_shared(std::uint64_t address, std::uint64_t bytes) {
  if (!launch_.kernel.shared.holds(address, bytes)) outside("shared");
  return {shared_.data.data() + address, shared_.written.data() + address,
          &shared_shadow_, address, false};
}

Place Block::find_local(std::uint64_t address, std::uint64_t bytes,
                        std::uint32_t thread) {
  const VariableLayout& layout = launch_.kernel.local;
  if (!layout.holds(address, bytes)) outside("local");
  const std::uint64_t begin = layout.bytes() * thread + address;
  return {local_.data.data() + begin, local_.written.data() + begin, nullptr, 0, false};
}

Place Block::find_parameter(std::uint64_t address, std::uint64_t bytes) {
  if (!launch_.kernel.parameter_layout.holds(address, bytes)) outside("parameter");
  return {launch_.parameters.data() + address, nullptr, nullptr, 0, true};
}

}  // namespace echobuf::ptx
