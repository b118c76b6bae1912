// States that no execution can tell apart must be equal byte by byte: what is dropped,
// what is renumbered, and how a state is kept.
#include <algorithm>
#include <cstring>

#include "machine.hpp"

namespace echobuf::model {

void Machine::trim(int index) {
  std::vector<Message>& messages = locations_[static_cast<std::size_t>(index)].messages;
  const Habits& habits = habits_[static_cast<std::size_t>(index)];
  if (messages.empty()) return;
  std::size_t oldest = messages.size() - 1;
  const bool chain = std::all_of(messages.begin() + 1, messages.end(),
                                 [](const Message& m) { return m.attached; });
  // A chain of read-modify-writes that nobody loads has only its end.
  if (habits.read() && (habits.loaded || !chain))
    for (int t = 0; t < count_; ++t)
      if (threads_[t].life != Life::kFinished && habits.threads >> t & 1)
        oldest = std::min<std::size_t>(oldest, threads_[t].view.seen[index]);
  if (oldest > 0) {
    messages.erase(messages.begin(),
                   messages.begin() + static_cast<std::ptrdiff_t>(oldest));
    each_view([&](View& view) {
      std::uint8_t& seen = view.seen[index];
      seen = static_cast<std::uint8_t>(seen > oldest ? seen - oldest : 0);
    });
  }
  messages.front().attached = 0;
}

/// Clocks matter only as far as they tell accesses apart.
void Machine::rank_clocks() {
  std::uint8_t rank[256];
  for (int t = 0; t < count_; ++t) {
    std::uint8_t highest = threads_[t].view.clock[t];
    each_view([&](View& view) { highest = std::max(highest, view.clock[t]); });
    for (const Access& access : accesses_)
      if (access.thread == t) highest = std::max(highest, access.clock);
    std::memset(rank, 0, highest + 1u);
    for (const Access& access : accesses_)
      if (access.thread == t) rank[access.clock] = 1;
    if (threads_[t].life != Life::kFinished) rank[threads_[t].view.clock[t]] = 1;
    for (int c = 1; c <= highest; ++c)
      rank[c] = static_cast<std::uint8_t>(rank[c] + rank[c - 1]);
    each_view([&](View& view) { view.clock[t] = rank[view.clock[t]]; });
    for (Access& access : accesses_)
      if (access.thread == t) access.clock = rank[access.clock];
  }
}

void Machine::drop_known() {
  std::erase_if(accesses_, [&](const Access& access) {
    for (int t = 0; t < count_; ++t)
      if (t != access.thread && threads_[t].life != Life::kFinished &&
          threads_[t].view.clock[access.thread] < access.clock)
        return false;
    return true;
  });
}

void Machine::canonicalise() {
  for (std::size_t i = 0; i < locations_.size(); ++i) trim(static_cast<int>(i));
  drop_known();
  rank_clocks();
  std::sort(accesses_.begin(), accesses_.end());
}

namespace {

template <class T>
void put(std::vector<std::byte>& out, const T* data, std::size_t n) {
  const std::size_t at = out.size();
  out.resize(at + n * sizeof(T));
  if (n) std::memcpy(out.data() + at, data, n * sizeof(T));
}
template <class T>
void put_all(std::vector<std::byte>& out, const std::vector<T>& items) {
  const auto n = static_cast<std::uint32_t>(items.size());
  put(out, &n, 1);
  put(out, items.data(), n);
}
template <class T>
const std::byte* get(const std::byte* in, T* data, std::size_t n) {
  if (n) std::memcpy(static_cast<void*>(data), in, n * sizeof(T));
  return in + n * sizeof(T);
}
template <class T>
const std::byte* get_all(const std::byte* in, std::vector<T>& items) {
  std::uint32_t n = 0;
  in = get(in, &n, 1);
  items.resize(n);
  return get(in, items.data(), n);
}

}  // namespace

void Machine::pack(std::vector<std::byte>& out) const {
  put(out, &time_, 1);
  put(out, &spurious_left_, 1);
  put(out, threads_, static_cast<std::size_t>(count_));
  put_all(out, accesses_);
  put_all(out, locks_);
  const auto n = static_cast<std::uint32_t>(locations_.size());
  put(out, &n, 1);
  for (const Location& location : locations_) put_all(out, location.messages);
}

const std::byte* Machine::unpack(const std::byte* in) {
  in = get(in, &time_, 1);
  in = get(in, &spurious_left_, 1);
  in = get(in, threads_, static_cast<std::size_t>(count_));
  in = get_all(in, accesses_);
  in = get_all(in, locks_);
  std::uint32_t n = 0;
  in = get(in, &n, 1);
  for (std::size_t i = 0; i < locations_.size(); ++i) {
    locations_[i].messages.clear();
    if (i < n) in = get_all(in, locations_[i].messages);
  }
  failure_.clear();
  return in;
}

}  // namespace echobuf::model
