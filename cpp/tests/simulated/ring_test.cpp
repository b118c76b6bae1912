// A small buffer: a producer thread fills pinned staging, an uploader thread copies it
// to a ring on the device, and the main thread draws. Correct, it is free of reports,
// whatever the seed; without any one of its waits, it is not, whatever the seed.
#include <array>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <thread>

#include "support.hpp"

namespace echobuf::simulated::test {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSeeds = 20;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr std::uint64_t kSeeds = 20;
#else
constexpr std::uint64_t kSeeds = 200;
#endif
#else
constexpr std::uint64_t kSeeds = 200;
#endif

constexpr std::size_t kSlots = 3;
constexpr std::size_t kRecords = 12;
constexpr std::size_t kBytes = 64;

enum class Without { kNothing, kStaged, kReady, kFree, kResult };

/// How far a thread has come; others wait for it.
class Progress {
 public:
  void advance() {
    const std::lock_guard lock(mutex_);
    ++done_;
    changed_.notify_all();
  }
  void wait(std::size_t done) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ >= done; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::size_t done_ = 0;
};

class Ring : public Simulated {
 protected:
  void SetUp() override {}

  /// Returns the records as they came out.
  std::vector<unsigned char> run(std::uint64_t seed, Without without) {
    begin(seed);
    without_ = without;
    make();
    std::thread producer([this] { produce(); });
    std::thread uploader([this] { in_context([this] { upload(); }); });
    std::vector<unsigned char> out = draw();
    producer.join();
    uploader.join();
    take_apart();
    end();
    return out;
  }

 private:
  struct Slot {
    EventHandle staged, ready, free;
  };

  void make() {
    staging_ = pinned_memory(kSlots * kBytes);
    result_ = pinned_memory(kRecords * kBytes);
    ring_ = device_memory(kSlots * kBytes);
    batch_ = device_memory(kRecords * kBytes);
    upload_ = stream();
    draw_ = stream();
    for (Slot& slot : slots_) slot = {event(), event(), event()};
    filled_.emplace();
    uploaded_.emplace();
    drawn_.emplace();
  }

  void take_apart() {
    driver().stream_synchronize(upload_);
    driver().stream_synchronize(draw_);
    for (const Slot& slot : slots_)
      for (EventHandle event : {slot.staged, slot.ready, slot.free})
        driver().event_destroy(event);
    destroy(upload_);
    destroy(draw_);
    free(ring_);
    free(batch_);
    driver().host_free(static_cast<void*>(staging_));
    driver().host_free(static_cast<void*>(result_));
  }

  template <class Body>
  void in_context(Body body) {
    cuda::Context context = nullptr;
    driver().primary_retain(&context, 0);
    driver().context_push(context);
    body();
    driver().context_pop(nullptr);
    driver().primary_release(0);
  }

  void produce() {
    in_context([this] {
      for (std::size_t i = 0; i < kRecords; ++i) {
        unsigned char* const slot = staging_ + i % kSlots * kBytes;
        if (i >= kSlots) {
          uploaded_->wait(i - kSlots + 1);
          if (without_ != Without::kStaged)
            driver().event_synchronize(slots_[i % kSlots].staged);
        }
        // Without its wait the write would be a race of this program's own memory.
        if (without_ != Without::kStaged)
          std::memset(slot, static_cast<int>(i + 1), kBytes);
        echobuf_simulated_host_access(slot, kBytes, 1);
        filled_->advance();
      }
    });
  }

  void upload() {
    for (std::size_t i = 0; i < kRecords; ++i) {
      const Slot& slot = slots_[i % kSlots];
      const std::size_t at = i % kSlots * kBytes;
      filled_->wait(i + 1);
      if (i >= kSlots) {
        drawn_->wait(i - kSlots + 1);  // until it is recorded, or it is no wait
        if (without_ != Without::kFree)
          driver().stream_wait_event(upload_, slot.free, 0U);
      }
      driver().copy_to_device(ring_ + at, static_cast<const void*>(staging_ + at),
                              kBytes, upload_);
      driver().event_record(slot.staged, upload_);
      driver().event_record(slot.ready, upload_);
      uploaded_->advance();
    }
  }

  std::vector<unsigned char> draw() {
    for (std::size_t i = 0; i < kRecords; ++i) {
      const Slot& slot = slots_[i % kSlots];
      uploaded_->wait(i + 1);
      if (without_ != Without::kReady)
        driver().stream_wait_event(draw_, slot.ready, 0U);
      add(batch_ + i * kBytes, ring_ + i % kSlots * kBytes, kBytes, draw_);
      driver().event_record(slot.free, draw_);
      drawn_->advance();
    }
    driver().copy_to_host(static_cast<void*>(result_), batch_, kRecords * kBytes,
                          draw_);
    if (without_ != Without::kResult) driver().stream_synchronize(draw_);
    echobuf_simulated_wait(draw_);
    echobuf_simulated_host_access(result_, kRecords * kBytes, 0);
    return {result_, result_ + kRecords * kBytes};
  }

  Without without_ = Without::kNothing;
  unsigned char *staging_ = nullptr, *result_ = nullptr;
  Address ring_ = 0, batch_ = 0;
  StreamHandle upload_ = nullptr, draw_ = nullptr;
  std::array<Slot, kSlots> slots_{};
  std::optional<Progress> filled_, uploaded_, drawn_;
};

TEST_F(Ring, IsFreeOfReports) {
  std::vector<unsigned char> expected;
  for (std::size_t i = 0; i < kRecords; ++i)
    expected.insert(expected.end(), kBytes, static_cast<unsigned char>(i + 2));
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
    ASSERT_EQ(run(seed, Without::kNothing), expected) << "seed " << seed;
    ASSERT_EQ(reports(), std::vector<std::string>{}) << "seed " << seed;
  }
}

class RingWithout : public Ring, public testing::WithParamInterface<Without> {};
INSTANTIATE_TEST_SUITE_P(Wait, RingWithout,
                         testing::Values(Without::kStaged, Without::kReady,
                                         Without::kFree, Without::kResult));

TEST_P(RingWithout, AWaitIsReported) {
  expect_reports();
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    run(seed, GetParam());
    EXPECT_GT(found("race"), 0U) << "seed " << seed;
    // A record that is drawn too soon may be memory that nothing has written yet.
    EXPECT_EQ(found("race") + found("unwritten memory"), reports().size())
        << "seed " << seed;
  }
}

}  // namespace
}  // namespace echobuf::simulated::test
