#include "machine.hpp"

#include <algorithm>
#include <cstring>
#include <sstream>

#include "runtime.hpp"

namespace echobuf::model {

namespace {

std::uint64_t peek(const Op& op) {
  std::uint64_t value = 0;
  std::memcpy(&value, reinterpret_cast<const void*>(op.address), op.size);
  return value;
}
void poke(const Op& op, std::uint64_t value) {
  std::memcpy(reinterpret_cast<void*>(op.address), &value, op.size);
}

std::uint64_t cut(std::uint64_t value, std::uint8_t size) {
  return size == 8 ? value : value & ((std::uint64_t{1} << (8 * size)) - 1);
}

std::uint64_t result_of(const Op& op, std::uint64_t old) {
  switch (op.function) {
    case Function::kExchange:
      return op.operand;
    case Function::kAdd:
      return cut(old + op.operand, op.size);
    case Function::kSub:
      return cut(old - op.operand, op.size);
    case Function::kAnd:
      return old & op.operand;
    case Function::kOr:
      return old | op.operand;
    case Function::kXor:
      return old ^ op.operand;
  }
  return 0;
}

bool acquires(std::uint8_t order) { return order == kAcquire || order == kAcqRel; }
bool releases(std::uint8_t order) { return order == kRelease || order == kAcqRel; }

bool is_atomic(Kind kind) { return kind >= Kind::kLoad && kind <= Kind::kCas; }
bool is_lock(Kind kind) { return kind >= Kind::kLock && kind <= Kind::kUnlock; }

/// The bytes of one word that an access touches, as a bit set.
std::uint8_t bytes_in(std::uint64_t word, std::uint64_t address, std::uint64_t size) {
  std::uint32_t bytes = 0;
  for (std::uint64_t i = 0; i < 8; ++i) {
    const std::uint64_t at = word * 8 + i;
    if (at >= address && at < address + size) bytes |= 1u << i;
  }
  return static_cast<std::uint8_t>(bytes);
}

}  // namespace

void View::join(const View& other) {
  for (int i = 0; i < kMaxLocations; ++i) seen[i] = std::max(seen[i], other.seen[i]);
  for (int i = 0; i < kMaxThreads; ++i) clock[i] = std::max(clock[i], other.clock[i]);
}

bool Access::operator<(const Access& other) const {
  return std::memcmp(this, &other, sizeof(Access)) < 0;
}

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

/// True if no thread could race for a word, as far as is known.
bool Machine::is_private(std::uint32_t word, int thread, bool write) {
  WordHabits& habits = words_[word];
  const auto threads = static_cast<std::uint8_t>(habits.threads | 1u << thread);
  const bool written = habits.written || write;
  if (threads != habits.threads || written != habits.written) habits_grew_ = true;
  habits = {threads, written};
  return !written || (threads & (threads - 1)) == 0;
}

bool Machine::races(int thread, std::uint64_t address, std::uint64_t size,
                    bool write) const {
  const View& view = threads_[thread].view;
  const std::uint64_t base = arena_begin();
  for (const Access& other : accesses_) {
    const std::uint64_t word = base / 8 + other.word;
    if (word < address / 8 || word > (address + size - 1) / 8) continue;
    if (!(other.bytes & bytes_in(word, address, size))) continue;
    if (!write && !other.write) continue;
    if (other.thread != thread && other.clock > view.clock[other.thread]) return true;
  }
  return false;
}

bool Machine::access(int thread, std::uint64_t address, std::uint64_t size,
                     bool write) {
  if (races(thread, address, size, write)) return false;
  const auto mine = static_cast<std::uint8_t>(thread);
  const std::uint8_t clock = threads_[thread].view.clock[thread];
  const std::uint64_t base = arena_begin();
  for (std::uint64_t word = address / 8; word <= (address + size - 1) / 8; ++word) {
    const std::uint8_t bytes = bytes_in(word, address, size);
    const auto at = static_cast<std::uint32_t>(word - base / 8);
    if (is_private(at, thread, write)) continue;
    for (Access& other : accesses_)
      if (other.word == at && (write || (other.thread == mine && !other.write)))
        other.bytes = static_cast<std::uint8_t>(other.bytes & ~bytes);
    std::erase_if(accesses_, [](const Access& a) { return a.bytes == 0; });
    bool merged = false;
    for (Access& other : accesses_)
      if (other.word == at && other.thread == mine && other.clock == clock &&
          (other.write != 0) == write) {
        other.bytes |= bytes;
        merged = true;
      }
    if (!merged)
      accesses_.push_back({at, mine, clock, bytes, static_cast<std::uint8_t>(write)});
  }
  if (write)  // an atomic made anew: its first message is what memory holds now
    for (std::size_t i = 0; i < habits_.size(); ++i)
      if (habits_[i].address >= address && habits_[i].address < address + size)
        forget(habits_[i].address, 1);
  return true;
}

void Machine::forget(std::uint64_t address, std::uint64_t size) {
  for (std::size_t i = 0; i < habits_.size(); ++i) {
    if (habits_[i].address < address || habits_[i].address >= address + size) continue;
    locations_[i].messages.clear();
    each_view([&](View& view) { view.seen[i] = 0; });
  }
  if (size == 1) return;
  const std::uint64_t first = (address - arena_begin()) / 8;
  std::erase_if(accesses_, [&](const Access& a) {
    return a.word >= first && a.word < first + size / 8;
  });
  std::erase_if(locks_, [&](const Lock& lock) {
    return lock.address >= address && lock.address < address + size;
  });
}

// ---- ways to go on

bool Machine::insertable(const Location& location, std::size_t after) const {
  return after + 1 == location.messages.size() ||
         !location.messages[after + 1].attached;
}

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
  if (!is_atomic(op.kind)) {
    out.push_back({who, 0, 0, 0});
    return;
  }
  std::size_t index = 0;
  while (habits_[index].address != op.address) ++index;
  const Location& location = locations_[index];
  const std::size_t n = location.messages.size();
  if (n == 0) {  // a load of what nobody writes
    out.push_back({who, 0, 0, 0});
    return;
  }
  const bool matters = habits_[index].read();
  for (std::size_t i = matters ? self.view.seen[index] : n - 1; i < n; ++i) {
    const auto at = static_cast<std::uint8_t>(i);
    const bool fits = insertable(location, i);
    if (op.kind == Kind::kLoad || (op.kind != Kind::kCas && fits))
      out.push_back({who, at, 1, 0});
    if (op.kind != Kind::kCas) continue;
    const bool equal = location.messages[i].value == op.expected;
    if (equal && fits) out.push_back({who, at, 1, 0});
    if (!equal || op.weak) out.push_back({who, at, 0, 0});
  }
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

Machine::Location& Machine::materialise(int index, const Op& op) {
  Location& location = locations_[static_cast<std::size_t>(index)];
  if (location.messages.empty()) {
    Message message{};
    message.value = peek(op);
    location.messages.push_back(message);
  }
  return location;
}

void Machine::read(int thread, int index, std::size_t at, std::uint8_t order) {
  View& view = threads_[thread].view;
  const Message& message = locations_[static_cast<std::size_t>(index)].messages[at];
  view.seen[index] = std::max(view.seen[index], static_cast<std::uint8_t>(at));
  if (acquires(order)) view.join(message.view);
}

/// Puts a message behind the one at `at`; `read`: the one that it modifies, if any.
void Machine::write(int thread, int index, std::size_t at, std::uint64_t value,
                    const Message* read, std::uint8_t order, const Op& op) {
  const std::size_t place = at + 1;
  Location& location = locations_[static_cast<std::size_t>(index)];
  Message message{};
  message.value = value;
  message.attached = read != nullptr;
  // Read-modify-writes go on with the release sequence of what they read.
  if (read) message.view = read->view;
  const bool last = place == location.messages.size();
  if (!last)
    each_view([&](View& view) {
      if (view.seen[index] >= place) ++view.seen[index];
    });
  View& view = threads_[thread].view;
  view.seen[index] = static_cast<std::uint8_t>(place);
  if (releases(order)) message.view.join(view);
  message.view.seen[index] = static_cast<std::uint8_t>(place);
  location.messages.insert(
      location.messages.begin() + static_cast<std::ptrdiff_t>(place), message);
  if (releases(order)) released(thread);
  if (last) poke(op, value);
  if (location.messages.size() > 200) fail("a loop that writes without end");
}

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
  if (is_atomic(op.kind)) {
    if (races(t, op.address, op.size, op.kind != Kind::kLoad)) {
      fail("an atomic is used while it may still be under construction");
      return;
    }
    const int index = index_of(op.address);
    Location& location = locations_[static_cast<std::size_t>(index)];
    if (location.messages.empty()) {
      self.result = peek(op);
      return;
    }
    const Message message = location.messages[choice.index];
    self.result = message.value;
    self.success = choice.succeeds;
    switch (op.kind) {
      case Kind::kLoad:
        read(t, index, choice.index, op.order);
        break;
      case Kind::kStore:
        write(t, index, choice.index, op.operand, nullptr, op.order, op);
        break;
      case Kind::kRmw:
        read(t, index, choice.index, op.order);
        write(t, index, choice.index, result_of(op, message.value), &message, op.order,
              op);
        break;
      default:
        if (!choice.succeeds) {
          read(t, index, choice.index, op.failure_order);
          break;
        }
        read(t, index, choice.index, op.order);
        write(t, index, choice.index, op.operand, &message, op.order, op);
    }
    return;
  }
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

// ---- words

std::string Machine::describe(Choice choice) const {
  static const char* const kOrders[] = {"relaxed", "consume", "acquire",
                                        "release", "acq_rel", "seq_cst"};
  static const char* const kKinds[] = {"",      "load",  "store",  "modify",  "cas",
                                       "sleep", "wake",  "lock",   "trylock", "unlock",
                                       "now",   "yield", "goes on"};
  if (choice.thread == kClock) return "time passes";
  const Thread& self = threads_[choice.thread];
  std::ostringstream text;
  text << "thread " << int{choice.thread} << ": ";
  if (self.life == Life::kAsleep) {
    text << (choice.index == 0xFF ? "asleep" : "wakes up by itself");
    return text.str();
  }
  text << kKinds[static_cast<int>(self.op.kind)];
  if (choice.index == 0xFF) return text.str() + " comes next";
  if (!is_atomic(self.op.kind)) return text.str();
  text << ' ' << kOrders[self.op.order];
  std::size_t index = 0;
  while (habits_[index].address != self.op.address) ++index;
  const std::vector<Message>& messages = locations_[index].messages;
  text << " #" << index;
  if (messages.empty()) {
    text << " = " << peek(self.op);
    return text.str();
  }
  const Message& message = messages[choice.index];
  if (self.op.kind == Kind::kStore) {
    text << " := " << self.op.operand;
    if (choice.index + 1u < messages.size()) text << " (before newer ones)";
    return text.str();
  }
  text << " read " << message.value;
  if (choice.index + 1u < messages.size()) text << " (not the newest)";
  if (self.op.kind == Kind::kRmw)
    text << " wrote " << result_of(self.op, message.value);
  if (self.op.kind == Kind::kCas)
    text << (choice.succeeds ? " wrote " : " failed, for ") << self.op.operand;
  return text.str();
}

}  // namespace echobuf::model
