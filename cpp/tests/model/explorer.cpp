#include "explorer.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <random>

namespace echobuf::model {

namespace {

std::set<std::uint64_t>* outcomes = nullptr;

struct Key {
  std::uint64_t a = 0, b = 0;
};

std::uint64_t mix(std::uint64_t x, std::uint64_t y) {
  const unsigned __int128 product = static_cast<unsigned __int128>(x) * y;
  return static_cast<std::uint64_t>(product) ^
         static_cast<std::uint64_t>(product >> 64);
}

Key hash(const std::vector<std::byte>& bytes) {
  // Four words side by side; each lane is a chain that loses nothing.
  std::uint64_t lanes[4] = {0x9E3779B97F4A7C15u, 0xD1B54A32D192ED03u,
                            0xA0761D6478BD642Fu, 0x8EBC6AF09C88C6E3u ^ bytes.size()};
  std::uint64_t words[4];
  const auto add = [&] {
    for (int k = 0; k < 4; ++k) {
      lanes[k] = (lanes[k] ^ words[k]) * 0xE7037ED1A0B428DBu;
      lanes[k] ^= lanes[k] >> 32;
    }
  };
  std::size_t i = 0;
  for (; i + sizeof words <= bytes.size(); i += sizeof words) {
    __builtin_memcpy(words, bytes.data() + i, sizeof words);
    add();
  }
  std::memset(words, 0, sizeof words);
  std::memcpy(words, bytes.data() + i, bytes.size() - i);
  add();
  std::uint64_t a = 0, b = 0;
  for (const std::uint64_t lane : lanes) {
    a = mix(a ^ lane, 0x589965CC75374CC3u) + 1;
    b = mix(b + lane, 0xE7037ED1A0B428DBu) ^ a;
  }
  return {a | 1, b};  // never the key of an empty place
}

/// Open addressing, from keys to numbers in the order of insertion.
class States {
 public:
  States() { places_.resize(std::size_t{1} << 16); }

  /// The number of a state, and whether it is new.
  std::pair<std::uint32_t, bool> insert(const Key& key) {
    if (count_ * 2 > places_.size()) grow();
    Place& place = find(key);
    if (place.key.a) return {place.number, false};
    place = {key, count_};
    return {count_++, true};
  }
  std::uint32_t count() const { return count_; }

 private:
  struct Place {
    Key key;
    std::uint32_t number = 0;
  };
  Place& find(const Key& key) {
    for (std::size_t i = key.b & (places_.size() - 1);;
         i = (i + 1) & (places_.size() - 1))
      if (!places_[i].key.a || (places_[i].key.a == key.a && places_[i].key.b == key.b))
        return places_[i];
  }
  void grow() {
    std::vector<Place> old(places_.size() * 2);
    old.swap(places_);
    for (const Place& place : old)
      if (place.key.a) find(place.key) = place;
  }
  std::vector<Place> places_;
  std::uint32_t count_ = 0;
};

class Explorer {
 public:
  Explorer(const Program& program, const Options& options)
      : program_(program), options_(options) {}

  Result run() {
    const auto start = std::chrono::steady_clock::now();
    machine().forget_habits();
    outcomes = &result_.outcomes;
    learn();
    while (!search()) continue;  // from the start again, with the habits learned
    outcomes = nullptr;
    result_.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return result_;
  }

 private:
  struct Node {
    std::vector<std::byte> state;
    std::vector<Choice> choices;
    std::size_t next = 0;
    std::uint32_t number = 0;
  };
  struct Parent {
    std::uint32_t number;
    Choice choice;
  };

  // ---- one state and the next

  void begin() {
    machine().begin(program_.threads, options_);
    clear_arena();
    run_directly(
        [](void* self) {
          auto* explorer = static_cast<Explorer*>(self);
          explorer->world_ = explorer->program_.make(explorer->program_.parameters);
        },
        this);
    for (int t = 0; t < program_.threads; ++t) start_fiber(t, program_.run, world_);
    for (int t = 0; t < program_.threads; ++t) resume(t);
    machine().canonicalise();
  }

  void step(Choice choice) {
    Machine& m = machine();
    m.apply(choice);
    const bool goes_on =
        choice.thread != kClock && m.thread(choice.thread).life == Life::kReady;
    if (goes_on && m.failure().empty()) resume(choice.thread);
    if (m.failure().empty()) m.canonicalise();
  }

  void save(std::vector<std::byte>& state) const {
    state.clear();
    machine().pack(state);
    pack_memory(state, program_.threads);
  }
  void restore(const std::vector<std::byte>& state) const {
    unpack_memory(machine().unpack(state.data()), program_.threads);
  }

  void end() {
    run_directly(
        [](void* self) {
          auto* explorer = static_cast<Explorer*>(self);
          explorer->program_.end(explorer->world_);
        },
        this);
  }

  // ---- searching

  /// Some walks at random: what threads do where is mostly known before the search.
  void learn() {
    std::mt19937_64 random(1);
    std::vector<Choice> choices;
    for (int quiet = 0, walks = 0; quiet < 30 && walks < 1000; ++walks) {
      begin();
      for (int i = 0; i < 5000 && machine().failure().empty(); ++i) {
        machine().choices(choices);
        if (choices.empty()) break;
        step(choices[random() % choices.size()]);
      }
      if (!machine().habits_grew()) ++quiet;
    }
  }

  bool search() {
    result_ = Result{};
    outcomes->clear();
    states_ = States();
    parents_.clear();
    edges_.clear();
    ends_.clear();
    depth_ = 0;
    begin();
    if (machine().habits_grew()) return false;
    if (nodes_.empty()) nodes_.resize(64);
    if (!enter(0, {0, {}})) return true;
    while (true) {
      Node& node = nodes_[depth_];
      if (node.next == node.choices.size()) {
        if (depth_ == 0) break;
        --depth_;
        continue;
      }
      if (states_.count() >= options_.max_states) return true;
      const Choice choice = node.choices[node.next++];
      if (depth_ + 1 == nodes_.size()) nodes_.resize(2 * nodes_.size());
      restore(nodes_[depth_].state);
      step(choice);
      ++result_.steps;
      if (machine().habits_grew()) return false;
      if (!enter(depth_ + 1, {nodes_[depth_].number, choice})) return true;
      if (machine().habits_grew()) return false;
    }
    result_.complete = true;
    finish();
    return true;
  }

  /// Looks at the state that is there; goes on from it, one deeper, if it is new.
  /// False: it is a failure.
  bool enter(std::size_t depth, Parent parent) {
    Machine& m = machine();
    if (!m.failure().empty()) return failed(parent, m.failure());
    Node& node = nodes_[depth];
    save(node.state);
    const auto [number, is_new] = states_.insert(hash(node.state));
    if (depth > 0) edges_.push_back({parent.number, number});
    if (!is_new) return true;
    parents_.push_back(parent);
    node.number = number;
    node.next = 0;
    m.choices(node.choices);
    if (m.all_finished()) {
      node.choices.clear();
      ++result_.ends;
      ends_.push_back(number);
      end();
      if (!m.failure().empty()) return failed(parent, m.failure());
    } else if (node.choices.empty()) {
      return failed(parent, "deadlock");
    }
    if (depth > 0) ++depth_;
    result_.states = states_.count();
    return true;
  }

  /// From every state some execution must come to the end.
  void finish() {
    result_.ok = true;
    const std::size_t n = states_.count();
    std::vector<std::uint32_t> first(n + 1, 0), from(edges_.size());
    for (const auto& edge : edges_) ++first[edge.second + 1];
    for (std::size_t i = 0; i < n; ++i) first[i + 1] += first[i];
    std::vector<std::uint32_t> at(first.begin(), first.end() - 1);
    for (const auto& edge : edges_) from[at[edge.second]++] = edge.first;
    std::vector<bool> ends(n, false);
    std::vector<std::uint32_t> todo = ends_;
    for (const std::uint32_t number : todo) ends[number] = true;
    while (!todo.empty()) {
      const std::uint32_t number = todo.back();
      todo.pop_back();
      for (std::uint32_t i = first[number]; i < first[number + 1]; ++i)
        if (!ends[from[i]]) {
          ends[from[i]] = true;
          todo.push_back(from[i]);
        }
    }
    for (std::uint32_t number = 0; number < n; ++number)
      if (!ends[number]) {
        failed(parents_[number], "livelock: no execution ends from here");
        return;
      }
  }

  // ---- failures

  bool failed(Parent parent, const std::string& why) {
    result_.ok = false;
    result_.states = states_.count();
    result_.failure = why;
    std::vector<Choice> path;
    if (states_.count() > 0 && !parents_.empty()) {
      path.push_back(parent.choice);
      for (std::uint32_t n = parent.number; n != 0; n = parents_[n].number)
        path.push_back(parents_[n].choice);
      std::reverse(path.begin(), path.end());
    }
    tell(path);
    return false;
  }

  void tell(const std::vector<Choice>& path) {
    begin();
    std::vector<std::string> lines;
    std::vector<std::uint64_t> sites;
    const auto add = [&](Choice choice) {
      lines.push_back(machine().describe(choice));
      sites.push_back(
          choice.thread == kClock ? 0 : machine().thread(choice.thread).op.site);
    };
    for (const Choice& choice : path) {
      add(choice);
      step(choice);
    }
    lines.push_back("then: " + result_.failure);
    sites.push_back(0);
    for (int t = 0; t < program_.threads; ++t) {
      if (machine().thread(t).life == Life::kFinished) continue;
      add({static_cast<std::uint8_t>(t), 0xFF, 0, 0});
    }
    const std::vector<std::string> names = symbols(sites);
    for (std::size_t i = 0; i < lines.size(); ++i)
      result_.trace.push_back(sites[i] ? lines[i] + "  " + names[i] : lines[i]);
  }

  const Program program_;
  const Options options_;
  Result result_;
  void* world_ = nullptr;
  States states_;
  std::vector<Parent> parents_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> edges_;
  std::vector<std::uint32_t> ends_;
  std::vector<Node> nodes_;  // the path to where the search is; kept for their memory
  std::size_t depth_ = 0;
};

}  // namespace

Result explore(const Program& program, const Options& options) {
  return Explorer(program, options).run();
}

void outcome(std::uint64_t value) {
  // The explorer's own memory, not the model's.
  run_outside([](void* v) { outcomes->insert(*static_cast<std::uint64_t*>(v)); },
              &value);
}

std::vector<std::string> symbols(const std::vector<std::uint64_t>& sites) {
  std::vector<std::string> names;
  char self[4096] = {};
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return names;
  std::string command = std::string("addr2line -s -i -f -C -a -e '") + self + "'";
  for (const std::uint64_t site : sites) {
    char address[32];
    std::snprintf(address, sizeof address, " 0x%llx",
                  static_cast<unsigned long long>(site ? site - 1 : 0));
    command += address;
  }
  std::FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (!pipe) return std::vector<std::string>(sites.size(), "?");
  char line[8192];
  bool function = true;
  while (std::fgets(line, sizeof line, pipe)) {
    std::string text(line, std::strcspn(line, "\n"));
    if (text.rfind("0x", 0) == 0) {
      names.emplace_back();
      function = true;
      continue;
    }
    if (names.empty()) continue;
    std::string& name = names.back();
    if (function) {
      if (!name.empty()) name += " < ";
      name += text.substr(0, text.find('('));
    } else {
      name += " " + text.substr(0, text.find(" ("));
    }
    function = !function;
  }
  pclose(pipe);
  names.resize(sites.size());
  return names;
}

}  // namespace echobuf::model
