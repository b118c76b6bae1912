// Threads, locks, futexes and the clock: what each thread may do next, and doing it.
#include "machine.hpp"

#include <algorithm>
#include <cstring>

#include "runtime.hpp"

namespace echobuf::model {

void Machine::begin(int threads, const Options& options) {
  options_ = options;
  count_ = threads;
  time_ = 0;
  spurious_left_ = options.spurious_wakes;
  std::memset(static_cast<void*>(threads_), 0, sizeof threads_);
  for (int t = 0; t < threads; ++t) threads_[t].view.clock[t] = 1;
  locations_.clear();
  locations_.resize(habits_.size());
  accesses_.clear();
  locks_.clear();
  failure_.clear();
}

// ---- what threads do between two steps

int Machine::index_of(std::uint64_t address) {
  for (std::size_t i = 0; i < habits_.size(); ++i)
    if (habits_[i].address == address) return static_cast<int>(i);
  if (habits_.size() == kMaxLocations)
    fail("too many atomics for the model");
  else {
    habits_.push_back({address});
    locations_.emplace_back();
    habits_grew_ = true;
  }
  return static_cast<int>(habits_.size()) - 1;
}

const Habits* Machine::habits_at(std::uint64_t address) const {
  for (const Habits& habits : habits_)
    if (habits.address == address) return &habits;
  return nullptr;
}

void Machine::note(int thread, const Op& op) {
  Habits& habits = habits_[static_cast<std::size_t>(index_of(op.address))];
  const std::uint32_t threads = habits.threads | 1u << thread;
  const bool written = habits.written || op.kind != Kind::kLoad;
  const bool loaded = habits.loaded || op.kind == Kind::kLoad || op.kind == Kind::kCas;
  const bool modified =
      habits.modified || (op.kind != Kind::kLoad && op.kind != Kind::kStore);
  if (threads != habits.threads || written != habits.written ||
      loaded != habits.loaded || modified != habits.modified)
    habits_grew_ = true;
  habits.modified = modified;
  habits.threads = threads;
  habits.written = written;
  habits.loaded = loaded;
}

void Machine::note_end(std::uint64_t address) {
  for (Habits& habits : habits_)
    if (habits.address == address && !habits.loaded)
      habits.loaded = habits_grew_ = true;
}

void Machine::post(int thread, const Op& op) {
  Thread& self = threads_[thread];
  self.op = op;
  self.result = 0;
  self.success = 0;
  self.life = Life::kReady;
  if (!is_atomic(op.kind) && !is_lock(op.kind)) return;
  note(thread, op);
  if (op.order == kSeqCst || op.order == kConsume || op.failure_order == kSeqCst)
    fail("seq_cst and consume are not in the model");
  if (is_atomic(op.kind) && op.kind != Kind::kLoad && failure_.empty())
    materialise(index_of(op.address), op);
}

void Machine::finish(int thread) {
  Thread& self = threads_[thread];
  std::memset(static_cast<void*>(&self), 0, sizeof self);
  self.life = Life::kFinished;
}

// ---- ways to go on

int Machine::sleepers(std::uint64_t address, std::vector<int>* out) const {
  int n = 0;
  for (int t = 0; t < count_; ++t)
    if (threads_[t].life == Life::kAsleep && threads_[t].op.address == address) {
      ++n;
      if (out) out->push_back(t);
    }
  return n;
}

void Machine::choices_of(int thread, std::vector<Choice>& out) const {
  const Thread& self = threads_[thread];
  const auto who = static_cast<std::uint8_t>(thread);
  if (self.life == Life::kFinished) return;
  if (self.life == Life::kAsleep) {
    if (now_of(time_) >= self.deadline)
      out.push_back({who, 0, 0, 0});
    else if (spurious_left_ > 0)
      out.push_back({who, 1, 0, 0});
    return;
  }
  const Op& op = self.op;
  if (is_lock(op.kind)) {
    bool taken = false;
    for (const Lock& lock : locks_) taken |= lock.address == op.address && lock.owner;
    if (op.kind != Kind::kLock || !taken) out.push_back({who, 0, !taken, 0});
    return;
  }
  if (op.kind == Kind::kWake && op.operand == 1) {
    const int n = sleepers(op.address, nullptr);
    for (int i = 0; i < std::max(n, 1); ++i)
      out.push_back({who, static_cast<std::uint8_t>(i), 0, 0});
    return;
  }
  if (is_atomic(op.kind)) return choices_of_atomic(thread, out);
  out.push_back({who, 0, 0, 0});
}

/// True if no other thread can tell when this step is taken: it is its thread's own
/// affair, or reads what nobody ever writes, or writes what nobody ever reads.
bool Machine::independent(int thread) const {
  const Thread& self = threads_[thread];
  if (self.life != Life::kReady) return false;
  if (self.op.kind == Kind::kResume) return true;
  if (!is_atomic(self.op.kind) && !is_lock(self.op.kind)) return false;
  const Habits* habits = habits_at(self.op.address);
  return habits &&
         (!habits->written || !habits->read() || habits->threads == 1u << thread);
}

void Machine::choices(std::vector<Choice>& out) const {
  out.clear();
  for (int t = 0; t < count_; ++t)
    if (independent(t)) {
      choices_of(t, out);
      if (!out.empty()) return;
    }
  for (int t = 0; t < count_; ++t) choices_of(t, out);
  bool clock_matters = false;
  for (int t = 0; t < count_; ++t) clock_matters |= threads_[t].life != Life::kFinished;
  if (clock_matters && time_can_pass()) out.push_back({kClock, 0, 0, 0});
}

// ---- steps

Lock& Machine::lock_at(std::uint64_t address) {
  auto place = std::find_if(locks_.begin(), locks_.end(),
                            [&](const Lock& l) { return l.address >= address; });
  if (place == locks_.end() || place->address != address) {
    Lock lock{};
    lock.address = address;
    place = locks_.insert(place, lock);
  }
  return *place;
}

void Machine::apply(Choice choice) {
  if (choice.thread == kClock) {
    ++time_;
    return;
  }
  const int t = choice.thread;
  Thread& self = threads_[t];
  const Op op = self.op;
  if (self.life == Life::kAsleep) {
    if (choice.index == 1) --spurious_left_;
    self.life = Life::kReady;
    self.deadline = 0;
    return;
  }
  if (is_atomic(op.kind)) return apply_atomic(t, choice);
  switch (op.kind) {
    case Kind::kWait:  // the kernel compares with the newest value, and orders nothing
      if (peek(op) == cut(op.expected, op.size)) {
        self.life = Life::kAsleep;
        self.deadline = op.operand;
      }
      break;
    case Kind::kWake: {
      std::vector<int> asleep;
      sleepers(op.address, &asleep);
      if (op.operand == 1 && !asleep.empty()) asleep = {asleep[choice.index]};
      for (const int sleeper : asleep) {
        threads_[sleeper].life = Life::kReady;
        threads_[sleeper].deadline = 0;
        threads_[sleeper].op = Op{};
        threads_[sleeper].op.kind = Kind::kResume;
        threads_[sleeper].op.site = op.site;
      }
      break;
    }
    case Kind::kLock:
    case Kind::kTryLock:
      self.result = choice.succeeds;
      if (choice.succeeds) {
        Lock& lock = lock_at(op.address);
        lock.owner = static_cast<std::uint32_t>(t) + 1;
        self.view.join(lock.view);
      }
      break;
    case Kind::kUnlock: {
      Lock& lock = lock_at(op.address);
      lock.owner = 0;
      lock.view = self.view;
      released(t);
      break;
    }
    default:
      break;
  }
}

bool Machine::all_finished() const {
  return std::all_of(threads_, threads_ + count_,
                     [](const Thread& t) { return t.life == Life::kFinished; });
}

}  // namespace echobuf::model
