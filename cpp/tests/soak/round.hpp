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
    if (epoch == 0) return;
    if (consumers_.idle()) consumers_.may_end(0);
    // Before it begins: a consumer may come into it at once.
    stage_.epoch.store(epoch, std::memory_order_release);
    const EpochPlan& plan = stage_.plan.epochs[epoch];
    if (opened_ahead_ && !plan.dropped_ahead) {
      // Its upstream may have failed already.
      if (plan.fails_ahead) consumers_.may_end(Consumers::kMayFail);
      if (!stage_.buffer->go_ahead()) fail("go_ahead() refused");
    } else {
      stage_.buffer->reset(epoch);  // under the hands of consumers that are at work
      producers_.finish();
      opened_ahead_ = false;
    }
    if (stage_.buffer->go_ahead()) fail("there is no epoch to go over to");
    if (last_course_ == Course::kLeft) consumers_.arrive();
  }

  void run_epoch(const EpochPlan& epoch) {
    last_course_ = epoch.course;
    if (!opened_ahead_) producers_.start(stage_.epoch.load(), 0);
    opened_ahead_ = false;
    consumers_.start();
    switch (epoch.course) {
      case Course::kServed:
        return serve_to_the_end();
      case Course::kResumed:
        for (const std::uint64_t cut : epoch.cuts)
          if (!resume(cut)) return check(tally().faults(stage_.plan.options));
        return serve_to_the_end();
      case Course::kReset:
        return wait_for_cut(epoch.cuts[0]);
      case Course::kAhead:
        producers_.finish();
        check_all_is_put();
        close();
        open_ahead(epoch.cuts[0]);
        return serve_out();
      case Course::kLeft:
        producers_.finish();
        check_all_is_put();
        consumers_.leave();
        stage_.buffer->close();
        open_ahead(0);
        return wait_for_batches(epoch.cuts[0]);
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

  /// Opens the next epoch after some more batches of this one, whose upstream has
  /// ended, and lets producers put into it.
  void open_ahead(std::uint64_t cut) {
    wait_for_batches(cut);
    const std::uint64_t next = stage_.epoch.load() + 1;
    if (!stage_.buffer->open_ahead(next)) fail("open_ahead() refused");
    if (stage_.buffer->open_ahead(next)) fail("an epoch was opened ahead twice");
    opened_ahead_ = true;
    producers_.start(next, 0);
    if (stage_.plan.epochs[next].fails_ahead) stage_.buffer->fail();
  }

  void start(std::uint64_t first) {
    producers_.start(stage_.epoch.load(), first);
    consumers_.start();
  }

  void serve_to_the_end() {
    producers_.finish();
    check_all_is_put();
    close();
    serve_out();
  }

  /// All of the epoch comes, and then its end.
  void serve_out() {
    consumers_.finish();
    check(tally().faults(stage_.plan.options));
    if (stage_.buffer->stats().served != tally().draws())
      fail("stats().served is not what was handed out");
    if (!stage_.buffer->checkpoint().epoch_done) fail("the epoch is not done");
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
    if (!stage_.buffer->restore(point)) fail("restore() refused a new buffer");
    start(oldest_record(point.sweep));
    return true;
  }

  void wait_for_cut(std::uint64_t cut) {
    while (consumers_.batches() < cut && producers_.at_work()) Stage::pause();
  }

  /// The same, if upstream has ended: until the consumers have come to the end at most.
  void wait_for_batches(std::uint64_t cut) {
    while (consumers_.batches() < cut && !consumers_.at_the_end()) Stage::pause();
  }

  void check_all_is_put() {
    if (!producers_.have_put_all()) fail("a producer gave up");
  }
  void check(const std::string& fault) {
    if (!fault.empty()) fail(fault);
  }
  [[noreturn]] void fail(const std::string& why) { stage_.watchdog.fail(why); }
  Tally& tally() { return *stage_.tallies[stage_.epoch.load()]; }

  Stage stage_;
  Producers producers_;
  Consumers consumers_;
  Course last_course_ = Course::kServed;
  bool opened_ahead_ = false;  // the next epoch: its producers are at work
};

}  // namespace echobuf::soak
