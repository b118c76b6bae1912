// The memory model: which message a load may read, and where a store may go.
#include <algorithm>

#include "machine.hpp"

namespace echobuf::model {

void View::join(const View& other) {
  for (int i = 0; i < kMaxLocations; ++i) seen[i] = std::max(seen[i], other.seen[i]);
  for (int i = 0; i < kMaxThreads; ++i) clock[i] = std::max(clock[i], other.clock[i]);
}

bool Machine::insertable(const Location& location, std::size_t after) const {
  return after + 1 == location.messages.size() ||
         !location.messages[after + 1].attached;
}

/// A load may read any message that its thread does not know to be old; a store may go
/// behind any of those, but not between a read-modify-write and what it modified.
void Machine::choices_of_atomic(int thread, std::vector<Choice>& out) const {
  const Thread& self = threads_[thread];
  const Op& op = self.op;
  const auto who = static_cast<std::uint8_t>(thread);
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

void Machine::apply_atomic(int t, Choice choice) {
  Thread& self = threads_[t];
  const Op op = self.op;
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
}

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

}  // namespace echobuf::model
