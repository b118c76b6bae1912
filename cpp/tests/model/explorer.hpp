// Explores every execution of a small program: every interleaving, and every message
// that the memory model lets a load read.
//
// A World has `kThreads`, a constructor, `void run(int thread)` and `void end()`, which
// looks at what all threads together have left. The search is over states, not over
// executions: a state is the machine, the arena and the stacks, byte by byte, and is
// gone on from once. So programs may loop, and what is said of all states is said of
// all executions. It fails for a check() that does not hold, a data race, a deadlock,
// or a state from which no execution comes to the end (a livelock).
#pragma once

#include <cstdint>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "machine.hpp"
#include "runtime.hpp"

namespace echobuf::model {

struct Result {
  bool ok = false;
  bool complete = false;  // every state within the bounds was gone on from
  std::string failure;
  std::vector<std::string> trace;
  std::uint64_t states = 0, steps = 0, ends = 0;
  std::set<std::uint64_t> outcomes;
  double seconds = 0;
};

struct Program {
  int threads;
  void* (*make)(const void* parameters);
  void (*run)(void* world, int thread);
  void (*end)(void* world);
  const void* parameters;
};

Result explore(const Program& program, const Options& options);

/// A property of the model's threads; also of World::end().
inline void check(bool holds, const char* what) {
  if (!holds) refuse(what);
}
/// Notes how an execution ended, for tests that ask what is possible.
void outcome(std::uint64_t value);

template <class World, class Parameters>
Result explore(const Parameters& parameters, const Options& options = {}) {
  Program program;
  program.threads = World::kThreads;
  program.make = [](const void* p) -> void* {
    return new World(*static_cast<const Parameters*>(p));
  };
  program.run = [](void* world, int t) { static_cast<World*>(world)->run(t); };
  program.end = [](void* world) { static_cast<World*>(world)->end(); };
  program.parameters = &parameters;
  return explore(program, options);
}

/// "function at file:line" of a return address, innermost frame first.
std::vector<std::string> symbols(const std::vector<std::uint64_t>& sites);

}  // namespace echobuf::model
