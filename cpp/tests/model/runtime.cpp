#include "runtime.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "inside.hpp"

namespace echobuf::model {

namespace {

constexpr std::size_t kStack = std::size_t{64} << 10;
constexpr std::size_t kGrain = 64;  // what the arena gives, at the least
constexpr std::size_t kClasses = 64;
constexpr std::uint64_t kTick = 1'000'000'000'000;

/// Memory of one size is given again, last come first served.
struct Header {
  std::size_t used;
  std::uint64_t free_lists[kClasses];
};

alignas(4096) std::byte arena[kArena];
alignas(65536) std::byte stacks[kMaxThreads][kStack];
std::uint64_t stack_pointers[kMaxThreads];
std::uint64_t scheduler_stack_pointer;
struct {
  void (*call)(void*, int);
  void* argument;
} fibers[kMaxThreads];

Header& header() { return *reinterpret_cast<Header*>(arena); }

std::size_t rounded(std::size_t bytes, std::size_t alignment) {
  const std::size_t grain = std::max(kGrain, alignment);
  return (std::max<std::size_t>(bytes, 1) + grain - 1) / grain * grain;
}

}  // namespace

namespace inside {

int current = -1;
bool direct = false;
bool busy = false;
const Mutation* mutation = nullptr;
std::vector<Site>* recorded = nullptr;

void* allocate(std::size_t bytes, std::size_t alignment) {
  // The size is kept in the grain before the block.
  const std::size_t size = rounded(bytes, kGrain);
  const std::size_t list = size / kGrain;
  if (list < kClasses && header().free_lists[list]) {
    const std::uint64_t block = header().free_lists[list];
    if (block % alignment == 0) {
      std::memcpy(&header().free_lists[list], reinterpret_cast<void*>(block), 8);
      std::memset(reinterpret_cast<void*>(block), 0, 8);
      return reinterpret_cast<void*>(block);
    }
  }
  std::size_t at = header().used + kGrain;
  at = (at + alignment - 1) / alignment * alignment;
  if (at + size > kArena) std::abort();
  header().used = at + size;
  std::memcpy(arena + at - 8, &size, 8);
  return arena + at;
}

void release(void* memory) {
  auto block = reinterpret_cast<std::uint64_t>(memory);
  std::size_t size = 0;
  std::memcpy(&size, static_cast<std::byte*>(memory) - 8, 8);
  if (current >= 0) {
    bool alone = false;
    {
      const Busy guard;
      alone = machine().access(current, block, size, true);
      if (alone) machine().forget(block, size);
    }
    if (!alone) refuse("memory is freed while another thread may use it");
  }
  std::memset(memory, 0, size);
  const std::size_t list = size / kGrain;
  if (list >= kClasses) return;
  std::memcpy(memory, &header().free_lists[list], 8);
  header().free_lists[list] = block;
}

}  // namespace inside

using namespace inside;  // NOLINT(google-build-using-namespace)

std::uint64_t arena_begin() { return reinterpret_cast<std::uint64_t>(arena); }
bool in_arena(std::uint64_t address) {
  return address >= arena_begin() && address < arena_begin() + kArena;
}
std::uint64_t now_of(std::uint32_t time) { return (1 + time) * kTick; }

Machine& machine() {
  static Machine the_machine;
  return the_machine;
}

void run_directly(void (*call)(void*), void* argument) {
  direct = true;
  call(argument);
  direct = false;
}

void run_outside(void (*call)(void*), void* argument) {
  const Busy guard;
  call(argument);
}

void clear_arena() {
  std::memset(arena, 0, kArena);
  header().used = sizeof(Header);
}

// ---- fibers

// Saves what a call must keep on the old stack, and takes it from the new one.
extern "C" void echobuf_model_switch(std::uint64_t* from, std::uint64_t to);
asm(R"(
  .text
  .globl echobuf_model_switch
  .type echobuf_model_switch, @function
echobuf_model_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size echobuf_model_switch, .-echobuf_model_switch
)");

void inside::to_scheduler() {
  const int self = current;
  echobuf_model_switch(&stack_pointers[self], scheduler_stack_pointer);
}

namespace {

void fiber_main() {
  fibers[current].call(fibers[current].argument, current);
  machine().finish(current);
  to_scheduler();
}

}  // namespace

void start_fiber(int thread, void (*call)(void*, int), void* argument) {
  fibers[thread] = {call, argument};
  std::memset(stacks[thread], 0, kStack);
  const auto top = reinterpret_cast<std::uint64_t>(stacks[thread]) + kStack;
  // Six registers, the address to go to, and what keeps the stack aligned there.
  const std::uint64_t sp = top - 64;
  const auto entry = reinterpret_cast<std::uint64_t>(&fiber_main);
  std::memcpy(reinterpret_cast<void*>(sp + 48), &entry, 8);
  stack_pointers[thread] = sp;
}

void resume(int thread) {
  // Bytes that earlier calls left below the stack are no part of the state: the thread
  // must not come to hold them in its padding, or equal states would look different.
  constexpr std::size_t kBelow = 12 << 10;
  const std::uint64_t sp = stack_pointers[thread];
  std::memset(reinterpret_cast<void*>(sp - kBelow), 0, kBelow);
  current = thread;
  echobuf_model_switch(&scheduler_stack_pointer, sp);
  current = -1;
}

void refuse(const char* why) {
  {
    const Busy guard;
    machine().fail(why);
  }
  if (current < 0) return;
  for (;;) to_scheduler();
}

int current_thread() { return current; }

void pack_memory(std::vector<std::byte>& out, int threads) {
  const auto add = [&](const void* data, std::size_t bytes) {
    const std::size_t at = out.size();
    out.resize(at + bytes);
    std::memcpy(out.data() + at, data, bytes);
  };
  add(&header().used, sizeof header().used);
  add(arena, header().used);
  for (int t = 0; t < threads; ++t) {
    const bool over = machine().thread(t).life == Life::kFinished;
    const std::uint64_t top = reinterpret_cast<std::uint64_t>(stacks[t]) + kStack;
    const std::uint64_t sp = over ? top : stack_pointers[t];
    add(&sp, sizeof sp);
    add(reinterpret_cast<const void*>(sp), top - sp);
  }
}

const std::byte* unpack_memory(const std::byte* in, int threads) {
  std::size_t used = 0;
  std::memcpy(&used, in, sizeof used);
  in += sizeof used;
  if (header().used > used) std::memset(arena + used, 0, header().used - used);
  std::memcpy(arena, in, used);
  in += used;
  for (int t = 0; t < threads; ++t) {
    const std::uint64_t top = reinterpret_cast<std::uint64_t>(stacks[t]) + kStack;
    std::memcpy(&stack_pointers[t], in, 8);
    in += 8;
    const std::size_t bytes = top - stack_pointers[t];
    std::memcpy(reinterpret_cast<void*>(stack_pointers[t]), in, bytes);
    in += bytes;
  }
  return in;
}

void set_mutation(const Mutation* to) { mutation = to; }
void record_sites(std::vector<Site>* sites) { recorded = sites; }

}  // namespace echobuf::model
