#include "ptx/flow.hpp"

#include <algorithm>
#include <vector>

namespace echobuf::ptx {

namespace {

/// The graph of instructions with an exit behind the last one, and its post-dominators
/// by the iteration of Cooper, Harvey and Kennedy, "A Simple, Fast Dominance
/// Algorithm", on the graph turned round.
class Joins {
 public:
  explicit Joins(const std::vector<Instruction>& code)
      : exit_(static_cast<std::uint32_t>(code.size())),
        after_(exit_ + 1),
        before_(exit_ + 1),
        order_(exit_ + 1, kNever),
        next_(exit_ + 1, kNever) {
    for (std::uint32_t i = 0; i < exit_; ++i) {
      const Instruction& instruction = code[i];
      const bool always = instruction.guard.kind == Slot::Kind::kNone;
      if (instruction.action == Action::kBranch) add(i, instruction.target);
      if (instruction.action == Action::kReturn) add(i, exit_);
      const bool leaves = instruction.action == Action::kBranch ||
                          instruction.action == Action::kReturn;
      if (!leaves || !always) add(i, i + 1);
    }
    number_from_exit();
    solve();
  }

  std::uint32_t of(std::uint32_t i) const {
    return next_[i] == kNever ? exit_ : next_[i];  // a loop without a way out
  }

 private:
  static constexpr std::uint32_t kNever = ~0U;

  void add(std::uint32_t from, std::uint32_t to) {
    after_[from].push_back(to);
    before_[to].push_back(from);
  }

  /// Numbers instructions in postorder, walking back from the exit.
  void number_from_exit() {
    struct Step {
      std::uint32_t at;
      std::size_t done;
    };
    std::vector<bool> seen(exit_ + 1);
    std::vector<Step> path{{exit_, 0}};
    seen[exit_] = true;
    while (!path.empty()) {
      Step& step = path.back();
      if (step.done == before_[step.at].size()) {
        order_[step.at] = static_cast<std::uint32_t>(sorted_.size());
        sorted_.push_back(step.at);
        path.pop_back();
        continue;
      }
      const std::uint32_t to = before_[step.at][step.done++];
      if (seen[to]) continue;
      seen[to] = true;
      path.push_back({to, 0});
    }
    std::reverse(sorted_.begin(), sorted_.end());
  }

  void solve() {
    next_[exit_] = exit_;
    for (bool changed = true; changed;) {
      changed = false;
      for (const std::uint32_t i : sorted_) {
        if (i == exit_) continue;
        std::uint32_t found = kNever;
        for (const std::uint32_t to : after_[i]) {
          if (next_[to] == kNever) continue;
          found = found == kNever ? to : meet(found, to);
        }
        changed = changed || found != next_[i];
        next_[i] = found;
      }
    }
  }

  std::uint32_t meet(std::uint32_t a, std::uint32_t b) const {
    while (a != b) {
      while (order_[a] < order_[b]) a = next_[a];
      while (order_[b] < order_[a]) b = next_[b];
    }
    return a;
  }

  std::uint32_t exit_;
  std::vector<std::vector<std::uint32_t>> after_;
  std::vector<std::vector<std::uint32_t>> before_;
  std::vector<std::uint32_t> order_;   // the later, the nearer to the exit
  std::vector<std::uint32_t> next_;    // immediate post-dominators
  std::vector<std::uint32_t> sorted_;  // from the exit on
};

}  // namespace

void find_joins(Kernel& kernel) {
  const Joins joins(kernel.code);
  for (std::uint32_t i = 0; i < kernel.code.size(); ++i)
    if (kernel.code[i].action == Action::kBranch) kernel.code[i].join = joins.of(i);
}

}  // namespace echobuf::ptx
