// The memory that the model's threads see: C++20 atomics without seq_cst and fences,
// plain accesses that must not race, futexes, mutexes, and a clock that ticks at will.
//
// Atomics follow the operational view semantics of release-acquire and relaxed
// accesses: a location is a list of messages in modification order, a thread has a view
// (how far it has seen each list), and a message carries the view that reading it with
// acquire gives. A load may read any message that is not older than the view; a store
// may go anywhere after it. Which one is a choice that the explorer makes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "operation.hpp"

namespace echobuf::model {

inline constexpr int kMaxThreads = 4;
inline constexpr int kMaxLocations = 40;
inline constexpr std::size_t kArena = std::size_t{64} << 10;  // all shared memory

/// A thread's knowledge: of each location the message, of each thread the release.
struct View {
  std::uint8_t seen[kMaxLocations];
  std::uint8_t clock[kMaxThreads];

  void join(const View& other);
};

struct Message {
  std::uint64_t value;
  View view;
  std::uint8_t attached;  // made by a read-modify-write of the message before
  std::uint8_t unused[3];
};

/// A plain access that some thread does not know of yet.
struct Access {
  std::uint32_t word;  // of eight bytes, in the arena
  std::uint8_t thread, clock, bytes, write;

  bool operator<(const Access& other) const;
};

enum class Life : std::uint8_t { kReady, kAsleep, kFinished };

struct Thread {
  Op op;
  std::uint64_t result;
  std::uint64_t deadline;  // of a sleeper
  View view;
  Life life;
  std::uint8_t success;
  std::uint8_t unused[2];
};

struct Lock {
  std::uint64_t address;
  View view;
  std::uint32_t owner;  // thread + 1; 0: free
};

/// One way to go on: who, and which message (or place, or sleeper).
struct Choice {
  std::uint8_t thread, index, succeeds, unused;
};
inline constexpr std::uint8_t kClock = 0xFF;  // as a thread: time passes

/// Kinds of access that all executions so far have made to an address. States are
/// merged, and steps taken without a choice, on the strength of it; if it grows,
/// exploring starts again.
struct Habits {
  std::uint64_t address;
  std::uint32_t threads = 0;  // bit set: who
  bool written = false;       // other than by what made it
  bool loaded = false;        // or compared
  bool modified = false;      // read and written in one

  bool read() const { return loaded || modified; }
};

/// The same of a word of plain memory.
struct WordHabits {
  std::uint8_t threads = 0;
  bool written = false;
};

struct Options {
  std::uint32_t max_time = 0;        // how often deadlines can pass; 0: never
  std::uint32_t spurious_wakes = 0;  // sleepers woken by nobody
  std::uint64_t max_states = 25'000'000;
};

class Machine {
 public:
  void begin(int threads, const Options& options);
  void forget_habits() {
    habits_.clear();
    std::fill(words_.begin(), words_.end(), WordHabits{});
  }

  // ---- what threads do between two steps

  /// Notes what a thread is about to do.
  void post(int thread, const Op& op);
  void finish(int thread);
  /// A plain access; false if it races.
  bool access(int thread, std::uint64_t address, std::uint64_t size, bool write);
  /// World::end() looks at an atomic: then it matters what it ends as.
  void note_end(std::uint64_t address);
  /// Memory given back to the arena: nothing of it is remembered.
  void forget(std::uint64_t address, std::uint64_t size);

  // ---- what the explorer does

  /// Every way to go on; only one thread's where its step touches nobody else.
  void choices(std::vector<Choice>& out) const;
  void apply(Choice choice);
  /// Drops what no execution can tell from its absence.
  void canonicalise();
  void pack(std::vector<std::byte>& out) const;
  const std::byte* unpack(const std::byte* in);

  Thread& thread(int t) { return threads_[t]; }
  const Thread& thread(int t) const { return threads_[t]; }
  int threads() const { return count_; }
  bool all_finished() const;
  std::uint32_t time() const { return time_; }
  bool time_can_pass() const { return time_ < options_.max_time; }
  bool habits_grew() { return std::exchange(habits_grew_, false); }
  std::string describe(Choice choice) const;
  const std::string& failure() const { return failure_; }
  void fail(const std::string& why) {
    if (failure_.empty()) failure_ = why;
  }
  void clear_failure() { failure_.clear(); }

 private:
  struct Location {
    std::vector<Message> messages;  // empty: nobody has written since the start
  };

  int index_of(std::uint64_t address);
  const Habits* habits_at(std::uint64_t address) const;
  void note(int thread, const Op& op);
  bool independent(int thread) const;
  void choices_of(int thread, std::vector<Choice>& out) const;
  int sleepers(std::uint64_t address, std::vector<int>* out) const;
  Lock& lock_at(std::uint64_t address);

  // ---- atomics: atomic_memory.cpp

  Location& materialise(int index, const Op& op);
  void choices_of_atomic(int thread, std::vector<Choice>& out) const;
  void apply_atomic(int thread, Choice choice);
  bool insertable(const Location& location, std::size_t after) const;
  void write(int thread, int index, std::size_t at, std::uint64_t value,
             const Message* read, std::uint8_t order, const Op& op);
  void read(int thread, int index, std::size_t at, std::uint8_t order);
  void released(int thread) { ++threads_[thread].view.clock[thread]; }

  // ---- plain accesses: plain_memory.cpp

  bool is_private(std::uint32_t word, int thread, bool write);
  bool races(int thread, std::uint64_t address, std::uint64_t size, bool write) const;

  // ---- what makes equal states equal: machine_state.cpp

  void trim(int index);
  void rank_clocks();
  void drop_known();
  template <class Visit>
  void each_view(Visit&& visit);

  Options options_;
  std::vector<Habits> habits_;  // never forgotten while exploring; index: location
  std::vector<WordHabits> words_ = std::vector<WordHabits>(kArena / 8);
  bool habits_grew_ = false;
  std::string failure_;

  int count_ = 0;
  std::uint32_t time_ = 0;
  std::uint32_t spurious_left_ = 0;
  Thread threads_[kMaxThreads];
  std::vector<Location> locations_;
  std::vector<Access> accesses_;
  std::vector<Lock> locks_;  // by address
};

template <class Visit>
void Machine::each_view(Visit&& visit) {
  for (int t = 0; t < count_; ++t) visit(threads_[t].view);
  for (Location& location : locations_)
    for (Message& message : location.messages) visit(message.view);
  for (Lock& lock : locks_) visit(lock.view);
}

}  // namespace echobuf::model
