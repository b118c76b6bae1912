// The state that all threads of a round share.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "examples.hpp"
#include "plan.hpp"
#include "tally.hpp"
#include "watchdog.hpp"

namespace echobuf::soak {

using Threads = std::vector<std::thread>;

/// The buffer is replaced only while there are no other threads.
struct Stage {
  Stage(Plan a_plan, Watchdog& a_watchdog)
      : plan(std::move(a_plan)),
        examples(plan.options),
        watchdog(a_watchdog),
        buffer(std::make_unique<Buffer>(plan.options)) {
    for (std::uint64_t e = 0; e < plan.epochs.size(); ++e)
      tallies.push_back(std::make_unique<Tally>(examples, e, plan.epochs[e].examples));
  }

  Deadline deadline(Random& random) const {
    if (plan.patient) return Deadline::max();
    switch (random.below(4)) {
      case 0:
        return Deadline::min();
      case 1:
        return Clock::now() + std::chrono::microseconds(random.below(100));
      case 2:
        return Clock::now() + std::chrono::milliseconds(2);
      default:
        return Deadline::max();
    }
  }

  static void pause() { std::this_thread::sleep_for(std::chrono::microseconds(50)); }
  static void finish(Threads& threads) {
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }

  const Plan plan;
  const Examples examples;
  Watchdog& watchdog;
  std::unique_ptr<Buffer> buffer;
  std::vector<std::unique_ptr<Tally>> tallies;  // one an epoch
  std::atomic<std::uint64_t> epoch{0};          // that is served
};

/// Says stop now and then.
class MoodyPoll final : public Poll {
 public:
  explicit MoodyPoll(Random& random) : random_(random) {}
  bool go_on() override { return !random_.one_in(8); }

 private:
  Random& random_;
};

}  // namespace echobuf::soak
