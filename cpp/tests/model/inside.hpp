// Declarations for the runtime and its hooks alone.
#pragma once

#include <cstddef>
#include <vector>

#include "runtime.hpp"

namespace echobuf::model::inside {

extern int current;  // thread; -1: none
extern bool direct;  // in run_directly()
extern bool busy;    // in the machine: its own memory and accesses are not the model's
extern const Mutation* mutation;
extern std::vector<Site>* recorded;

class Busy {
 public:
  Busy() { busy = true; }
  ~Busy() { busy = false; }
  Busy(const Busy&) = delete;
  Busy& operator=(const Busy&) = delete;
};

/// Memory of the arena.
void* allocate(std::size_t bytes, std::size_t alignment);
void release(void* memory);

void to_scheduler();

}  // namespace echobuf::model::inside
