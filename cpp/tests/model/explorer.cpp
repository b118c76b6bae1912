#include "explorer.hpp"

#include <algorithm>
#include <chrono>
#include <random>

#include "states.hpp"

namespace echobuf::model {

namespace {

std::set<std::uint64_t>* outcomes = nullptr;

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

}  // namespace echobuf::model
