// Groups of threads, branches, barriers. Values and memory: warp_values.cpp.
#include "ptx/warp.hpp"

#include <bit>

#include "ptx/block.hpp"

namespace echobuf::ptx {

Warp::Warp(Block& block, std::uint32_t first, std::uint32_t threads)
    : block_(block),
      kernel_(block.launch().kernel),
      first_(first),
      all_(static_cast<std::uint32_t>(low_bits(~std::uint64_t{0}, threads))),
      values_(kernel_.registers.size() * kLanes),
      written_(kernel_.registers.size()) {}

void Warp::begin() {
  live_ = all_;
  at_barrier_ = false;
  groups_.clear();
  Group whole;
  whole.join = static_cast<std::uint32_t>(kernel_.code.size());
  whole.mask = all_;
  add_group(whole);
  written_.assign(written_.size(), 0);
}

std::size_t Warp::add_group(const Group& group) {
  std::size_t index = 0;
  while (index < groups_.size() && groups_[index].used) ++index;
  if (index == groups_.size()) groups_.emplace_back();
  groups_[index] = group;
  groups_[index].used = true;
  return index;
}

void Warp::run(std::uint64_t instructions) {
  std::size_t ready = 0;
  const auto is_ready = [](const Group& group) {
    return group.used && group.children == 0 && !group.waits;
  };
  for (const Group& group : groups_) ready += is_ready(group) ? 1 : 0;
  if (ready == 0) return check_barrier();
  std::size_t chosen = ready == 1 ? 0 : block_.launch().random.below(ready);
  for (std::size_t i = 0; i < groups_.size(); ++i)
    if (is_ready(groups_[i]) && chosen-- == 0) return run_group(i, instructions);
}

void Warp::run_group(std::size_t index, std::uint64_t instructions) {
  for (; instructions > 0; --instructions) {
    if (groups_[index].place == groups_[index].join) return end_group(index);
    if (!step(index)) return;
  }
}

bool Warp::step(std::size_t index) {
  Launch& launch = block_.launch();
  Group& group = groups_[index];
  const Instruction& at = kernel_.code[group.place];
  const std::uint32_t mask = guarded(at, group.mask);
  if (launch.counts.instructions++ == launch.settings.most_instructions)
    fail(at, static_cast<unsigned>(std::countr_zero(group.mask)),
         {FaultKind::kLimit, "the warps have run " +
                                 std::to_string(launch.settings.most_instructions) +
                                 " instructions"});
  switch (at.action) {
    case Action::kBranch:
      return branch(index, at, mask);
    case Action::kBarrier:
      return wait(index, at, mask);
    case Action::kReturn:
      return leave(index, mask);
    case Action::kCompute:
      compute(at, mask);
      break;
    case Action::kPack:
      pack(at, mask);
      break;
    case Action::kUnpack:
      unpack(at, mask);
      break;
    case Action::kLoad:
      load(at, mask);
      break;
    case Action::kStore:
      store(at, mask);
      break;
  }
  ++group.place;
  return true;
}

bool Warp::branch(std::size_t index, const Instruction& at, std::uint32_t taken) {
  Group& group = groups_[index];
  const std::uint32_t rest = group.mask & ~taken;
  if (taken == 0 || rest == 0) {
    group.place = taken == 0 ? group.place + 1 : at.target;
    return true;
  }
  if (at.uniform)
    fail(at, static_cast<unsigned>(std::countr_zero(taken)),
         {FaultKind::kDivergentBranch, "not all threads of the warp take it"});
  struct Way {
    std::uint32_t place;
    std::uint32_t mask;
  };
  const Way ways[] = {{at.target, taken}, {group.place + 1, rest}};
  Group child;
  child.join = at.join;
  if (at.join == group.join) {
    // Threads that are there already wait in the parent; of two other ways one stays.
    child.parent = group.parent;
    bool stays = false;
    for (const Way& way : ways) {
      if (way.place == at.join) continue;
      Group& staying = groups_[index];  // adding one moves them
      if (!stays) {
        staying.place = way.place;
        staying.mask = way.mask;
        stays = true;
        continue;
      }
      child.place = way.place;
      child.mask = way.mask;
      if (child.parent >= 0) ++groups_[static_cast<std::size_t>(child.parent)].children;
      add_group(child);
    }
    if (!stays) end_group(index);
    return false;
  }
  group.place = at.join;
  child.parent = static_cast<std::int32_t>(index);
  for (const Way& way : ways) {
    if (way.place == at.join) continue;
    ++groups_[index].children;
    child.place = way.place;
    child.mask = way.mask;
    add_group(child);
  }
  return false;
}

/// Ends a group at its join, or without threads; its parent may go on.
void Warp::end_group(std::size_t index) {
  groups_[index].used = false;
  const std::int32_t parent = groups_[index].parent;
  if (parent < 0) return;
  Group& waiting = groups_[static_cast<std::size_t>(parent)];
  if (--waiting.children > 0) return;
  waiting.mask &= live_;
  if (waiting.mask == 0) end_group(static_cast<std::size_t>(parent));
}

bool Warp::leave(std::size_t index, std::uint32_t mask) {
  live_ &= ~mask;
  groups_[index].mask &= ~mask;
  if (groups_[index].mask == 0) {
    end_group(index);
    return false;
  }
  ++groups_[index].place;
  return true;
}

bool Warp::wait(std::size_t index, const Instruction& at, std::uint32_t mask) {
  Group& group = groups_[index];
  if (mask == 0) {  // a predicate that no thread has
    ++group.place;
    return true;
  }
  if (mask != group.mask)
    fail(at, static_cast<unsigned>(std::countr_zero(group.mask)),
         {FaultKind::kDivergentBarrier, "its predicate is not that of all threads"});
  barrier_ = group.place;
  group.waits = true;
  check_barrier();
  return false;
}

/// Once no other group can run, all threads that have not ended must be at the barrier:
/// it waits for those of its warp, too.
void Warp::check_barrier() {
  const Group* waiting = nullptr;
  for (const Group& group : groups_) {
    if (!group.used || group.children > 0) continue;
    if (!group.waits) return;
    if (group.place == barrier_) waiting = &group;
  }
  if (waiting == nullptr) return;
  if (waiting->mask != live_)
    fail(kernel_.code[barrier_],
         static_cast<unsigned>(std::countr_zero(live_ & ~waiting->mask)),
         {FaultKind::kDivergentBarrier,
          "this thread has not come to it, and another one of its warp has"});
  at_barrier_ = true;
}

void Warp::pass_barrier() {
  at_barrier_ = false;
  for (Group& group : groups_) {
    if (!group.used || !group.waits) continue;
    group.waits = false;
    ++group.place;
  }
}

void Warp::fail_at_barrier(const Warp& other) const {
  fail(kernel_.code[barrier_], static_cast<unsigned>(std::countr_zero(live_)),
       {FaultKind::kDivergentBarrier,
        "another warp has come to that of line " +
            std::to_string(kernel_.code[other.barrier_].line)});
}

}  // namespace echobuf::ptx
