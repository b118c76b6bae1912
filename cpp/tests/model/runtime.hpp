// The layer between the code under test and the machine. The code is compiled with
// -fsanitize=thread, so that the compiler turns every atomic operation and every plain
// access into a call; but it is linked with runtime.cpp instead of ThreadSanitizer.
// Futexes, mutexes, clocks and memory come the same way, by the linker's --wrap. So the
// headers of the core are checked as they are shipped, without a line made for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "machine.hpp"

namespace echobuf::model {

/// All memory that threads share is here: it is saved and put back with the state.
std::uint64_t arena_begin();
bool in_arena(std::uint64_t address);

/// Nanoseconds on the clock after so many ticks.
std::uint64_t now_of(std::uint32_t time);

Machine& machine();

/// Runs something with memory from the arena and atomics as plain memory.
void run_directly(void (*call)(void*), void* argument);
/// Runs something of the checker's own from inside.
void run_outside(void (*call)(void*), void* argument);
void clear_arena();

/// Threads are fibers: one at a time, on stacks of their own.
void start_fiber(int thread, void (*call)(void*, int), void* argument);
/// Goes on with a thread until it posts its next step or ends.
void resume(int thread);
/// The state is a failure; a fiber does not come back from here.
void refuse(const char* why);
int current_thread();  // -1: none

/// The arena in use and the stacks in use, appended or put back.
void pack_memory(std::vector<std::byte>& out, int threads);
const std::byte* unpack_memory(const std::byte* in, int threads);

/// A call site at which an operation was seen, and what to do about it instead.
struct Site {
  std::uint64_t address;
  Kind kind;
  std::uint8_t order, failure_order;
};
struct Mutation {
  std::vector<std::uint64_t> sites;
  bool drop = false;  // leaves the operation out
  std::uint8_t order = kRelaxed, failure_order = kRelaxed;
};
void set_mutation(const Mutation* mutation);
void record_sites(std::vector<Site>* sites);

}  // namespace echobuf::model
