// One round of the soak: a buffer, its producers and consumers, and what happens to
// them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "consumers.hpp"
#include "producers.hpp"
#include "stage.hpp"

namespace echobuf::soak {

class Round {
 public:
  Round(const Plan& plan, Watchdog& watchdog)
      : stage_(plan, watchdog), producers_(stage_), consumers_(stage_) {}

  /// Ends the process if anything is wrong. The number of draws.
  std::uint64_t run() {
    for (std::uint64_t e = 0; e < stage_.plan.epochs.size(); ++e) {
      begin_epoch(e);
      run_epoch(stage_.plan.epochs[e]);
    }
    consumers_.finish();
    stage_.buffer.reset();
    std::uint64_t draws = 0;
    for (const auto& tally : stage_.tallies) {
      check(tally->over(stage_.plan.options));
      draws += tally->draws();
    }
    consumers_.verify_held();
    return draws;
  }

 private:
  void begin_epoch(std::uint64_t epoch) {
    stage_.epoch.store(epoch, std::memory_order_release);
    if (epoch == 0) return;
    if (consumers_.idle()) consumers_.may_end(0);
    stage_.buffer->reset(epoch);  // under the hands of the consumers after kReset
    if (last_course_ == Course::kReset) producers_.finish();
  }

  void run_epoch(const EpochPlan& epoch) {
    last_course_ = epoch.course;
    start(0);
    switch (epoch.course) {
      case Course::kServed:
        return serve_to_the_end();
      case Course::kResumed:
        for (const std::uint64_t cut : epoch.cuts)
          if (!resume(cut)) return check(tally().faults(stage_.plan.options));
        return serve_to_the_end();
      case Course::kReset:
        return wait_for_cut(epoch.cuts[0]);
      case Course::kFailed:
      case Course::kDown:
        break;
    }
    wait_for_cut(epoch.cuts[0]);
    if (epoch.course == Course::kFailed) {
      consumers_.may_end(Consumers::kMayFail);
      stage_.buffer->fail();
    } else {
      consumers_.may_end(Consumers::kMayBeDown);
      stage_.buffer->shut_down();
    }
    producers_.finish();
    consumers_.finish();
    check(tally().over(stage_.plan.options));
  }

  void start(std::uint64_t first) {
    producers_.start(stage_.epoch.load(), first);
    consumers_.start();
  }

  void serve_to_the_end() {
    producers_.finish();
    close();
    consumers_.finish();
    if (!producers_.have_put_all()) stage_.watchdog.fail("a producer gave up");
    check(tally().faults(stage_.plan.options));
    if (stage_.buffer->stats().served != tally().draws())
      stage_.watchdog.fail("stats().served is not what was handed out");
    if (!stage_.buffer->checkpoint().epoch_done)
      stage_.watchdog.fail("the epoch is not done");
  }

  void close() {
    consumers_.may_end(Consumers::kMayFinish);
    stage_.buffer->close();
  }

  /// Cuts the epoch off after some batches; a new buffer goes on from there. False if
  /// the epoch was over before.
  bool resume(std::uint64_t cut) {
    consumers_.stop_after(cut);
    while (consumers_.at_work()) {
      if (!producers_.at_work()) {
        close();  // else consumers might wait for what never comes
        consumers_.finish();
      }
      Stage::pause();
    }
    consumers_.finish();
    const Checkpoint point = stage_.buffer->checkpoint();
    consumers_.stop_after(Consumers::kNever);
    if (!point.epoch_done) stage_.buffer->shut_down();
    producers_.finish();
    if (point.epoch_done) return false;
    consumers_.may_end(0);
    stage_.buffer = std::make_unique<Buffer>(stage_.plan.options);
    if (!stage_.buffer->restore(point))
      stage_.watchdog.fail("restore() refused a new buffer");
    start(oldest_record(point.sweep));
    return true;
  }

  void wait_for_cut(std::uint64_t cut) {
    while (consumers_.batches() < cut && producers_.at_work()) Stage::pause();
  }

  void check(const std::string& fault) {
    if (!fault.empty()) stage_.watchdog.fail(fault);
  }
  Tally& tally() { return *stage_.tallies[stage_.epoch.load()]; }

  Stage stage_;
  Producers producers_;
  Consumers consumers_;
  Course last_course_ = Course::kServed;
};

}  // namespace echobuf::soak
