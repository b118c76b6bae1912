// A step in words, for the trace of a failure.
#include <sstream>

#include "machine.hpp"

namespace echobuf::model {

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
