// A server and its jobs in one process: threads, with mappings of their own.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#include "echobuf/buffer/buffer.hpp"
#include "echobuf/shared/client_slot.hpp"
#include "echobuf/shared/ring_reader.hpp"
#include "echobuf/shared/shared_ring.hpp"
#include "support.hpp"

namespace echobuf::serve::test {

using namespace echobuf::test;  // NOLINT(google-build-using-namespace)

inline constexpr std::uint64_t kWords = 24;  // of a record: not one store
inline constexpr double kLease = 60;         // nobody is dropped for being slow
inline constexpr auto kSlice = std::chrono::milliseconds(50);

/// Of words that are all the same: in epoch e example i is e << 32 | i.
inline BufferOptions words(BufferOptions options) {
  options.fields = {{8 * kWords, 1}};
  return options;
}

/// The examples that an epoch has.
using Sizes = std::vector<std::uint64_t>;

/// Puts examples from several threads, each into slots that it has claimed.
class Upstream {
 public:
  explicit Upstream(SharedRing& ring) : ring_(ring) {}

  /// Puts `from` ... n-1 of an epoch; whether nobody has died.
  bool feed(std::uint64_t epoch, std::uint64_t from, std::uint64_t n,
            std::uint64_t producers) {
    const std::uint64_t first = ring_.mapped_header()->published;
    term_ = ring_.term();
    next_ = from;
    Threads threads;
    for (std::uint64_t p = 0; p < producers; ++p)
      threads.start([&, p] {
        std::mt19937_64 random(p + epoch * producers);
        while (put(epoch, first - from, n, 1 + random() % 9)) {
        }
      });
    threads.join();
    return !dead_;
  }

  /// Whoever comes to this example dies as it writes it; others still go on while there
  /// is room.
  void kill_at(std::uint64_t example) { fatal_ = example; }

 private:
  bool put(std::uint64_t epoch, std::uint64_t base, std::uint64_t n,
           std::uint64_t most) {
    std::uint64_t first = 0, count = 0;
    bool dies = false;
    {
      const std::lock_guard lock(mutex_);
      count = std::min(most, n - next_);
      if (count == 0) return false;
      const Deadline deadline = dead_ ? kAtOnce : Deadline::max();
      if (ring_.claim(term_, first, count, deadline) != Status::kOk) return false;
      EXPECT_EQ(first, base + next_);
      next_ += count;
      dies = !dead_ && next_ > fatal_;
      dead_ |= dies;
    }
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t value = epoch << 32 | (first + i - base);
      write(first + i, dies ? ~std::uint64_t{0} : value);
    }
    if (dies) return false;
    ring_.commit(first, count);
    return true;
  }

  void write(std::uint64_t position, std::uint64_t value) const {
    const std::vector<std::uint64_t> all(kWords, value);
    std::memcpy(ring_.shared_memory()->data() +
                    position % ring_.slots() * ring_.record().stride(),
                all.data(), 8 * kWords);
  }

  SharedRing& ring_;
  std::uint64_t term_ = 0;
  std::uint64_t fatal_ = ~std::uint64_t{0};
  std::mutex mutex_;
  std::uint64_t next_ = 0;
  bool dead_ = false;
};

/// Runs epochs that have not ended yet, and goes on in one that was begun before. As
/// many as `go_on` wants.
template <class GoOn>
void run_epochs(SharedRing& ring, const Sizes& sizes, std::uint64_t jobs,
                std::uint64_t producers, GoOn&& go_on) {
  for (std::uint64_t e = ring.mapped_header()->ended; e < sizes.size() && go_on(e);
       ++e) {
    const auto there = ring.resume_offset();
    if (!there) {
      ASSERT_TRUE(ring.begin_epoch(jobs, far_off())) << "epoch " << e;
    }
    Upstream(ring).feed(e, there.value_or(0), sizes[e], producers);
    ring.end_epoch();
  }
  ring.finish("", false);
}

inline void run_epochs(SharedRing& ring, const Sizes& sizes, std::uint64_t jobs,
                       std::uint64_t producers) {
  run_epochs(ring, sizes, jobs, producers, [](std::uint64_t) { return true; });
}

/// Records of words.
struct OfWords {
  using Core = Buffer;

  static BufferOptions options(BufferOptions options) {
    return words(std::move(options));
  }
  /// The numbers of a batch's records, in an epoch.
  static Ids read(const Batch& batch, const BufferOptions& /*options*/,
                  std::uint64_t epoch) {
    Ids ids;
    for (std::uint64_t i = 0; i < batch.count; ++i) {
      std::uint64_t word[kWords];
      std::memcpy(word, batch.block.data() + i * sizeof(word), sizeof(word));
      for (const std::uint64_t each : word)
        if (each != word[0]) {
          ADD_FAILURE() << "a torn record";
          break;
        }
      EXPECT_EQ(word[0] >> 32, epoch) << "of another epoch";
      ids.push_back(word[0] & 0xffffffff);
    }
    return ids;
  }
};

/// As a process that has attached. `Kind`: of records.
template <class Kind>
class BasicJob {
  using Core = typename Kind::Core;

 public:
  /// Takes a seat.
  template <class Ring>
  BasicJob(Ring& ring, BufferOptions options, bool overlaps = false)
      : options_(Kind::options(std::move(options))), overlaps_(overlaps) {
    const auto seat = ring.seats().take();
    if (!seat) throw std::runtime_error("no seat");
    seat_ = *seat;
    slot_ = std::make_shared<ClientSlot>(ring.mapped_header().fd(), seat_.first,
                                         seat_.second, kLease);
    memory_ = std::make_shared<const SharedMemory>(
        ring.shared_memory()->fd(), ring.mapped_header()->window().bytes(), false);
  }
  ~BasicJob() { stop(); }

  std::pair<std::uint64_t, std::uint64_t> seat() const { return seat_; }
  ClientSlot& slot() const { return *slot_; }
  const SharedMemory& memory() const { return *memory_; }

  struct Served {
    std::uint64_t epoch;
    Status end;  // kOk: left before it
    Ids draws;   // without the epoch
  };

  /// Serves the next epoch, or its first `most` batches; nothing if there is none.
  std::optional<Served> serve(
      std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) {
    if (!ahead_ && !begin(await(next_), false)) return std::nullopt;
    if (ahead_) {
      EXPECT_TRUE(buffer_->go_ahead());
      epoch_ = following_;
      ahead_ = false;
    }
    Served served{*epoch_, Status::kOk, {}};
    Batch batch;
    while (most-- > 0) {
      served.end =
          promptly([&](Deadline deadline) { return buffer_->next(batch, deadline); });
      if (served.end != Status::kOk) break;
      const Ids ids = Kind::read(batch, options_, served.epoch);
      served.draws.insert(served.draws.end(), ids.begin(), ids.end());
      if (overlaps_ && !ahead_ && buffer_->draining() && tick(*epoch_ + 1))
        begin(*epoch_ + 1, true);
    }
    if (served.end == Status::kOk) leave();
    if (!ahead_) stop();
    return served;
  }

  ReadResult reason() const { return result_; }

 private:
  bool tick(std::uint64_t epoch) const { return slot_->base_of(epoch).has_value(); }

  /// The number of the epoch that is wanted, or else of the first, once it has begun.
  std::optional<std::uint64_t> await(std::optional<std::uint64_t> epoch) const {
    RingHeader& header = slot_->header();
    for (;;) {
      const std::uint32_t key = header.news.prepare();
      const std::uint32_t phase = header.phase.load(std::memory_order_acquire);
      const auto wanted = epoch ? epoch : slot_->first_epoch();
      const bool begun = wanted && tick(*wanted);
      if (!slot_->is_held()) return std::nullopt;
      if (begun) return wanted;
      if (phase != RingHeader::kOpen) return std::nullopt;
      header.news.wait(key, Clock::now() + kSlice);
    }
  }

  bool begin(std::optional<std::uint64_t> epoch, bool ahead) {
    if (!epoch) return false;
    const std::uint64_t base = *slot_->base_of(*epoch);
    if (ahead) {
      thread_.join();  // of the epoch that is served out
      if (!buffer_->open_ahead(number_)) return false;
      slot_->skip_to(*epoch - 1);
    } else {
      stop();
      open(base);
      slot_->skip_to(*epoch);
      if (const std::uint64_t gap = reader_->gap(base)) buffer_->reset(number_, gap);
    }
    ++number_;
    ahead_ = ahead;
    if (!ahead) epoch_ = epoch;
    next_ = *epoch + 1;
    following_ = *epoch;
    reader_->begin(base);
    stopped_ = false;
    thread_.start([this, term = reader_->term()] { follow(term); });
    return true;
  }

  void open(std::uint64_t base) {
    if (buffer_)
      buffer_->reset(number_);
    else
      make(base);
  }

  void make(std::uint64_t base) {
    const std::uint64_t slots = slot_->header().slots;
    slot_->shift(base - base % slots);
    options_.borrowed = std::make_shared<const BorrowedSlots>(
        BorrowedSlots{memory_, slots, base % slots, slot_, slot_->header().window()});
    buffer_ = std::make_shared<Core>(options_);
    reader_ = std::make_unique<RingReader>(
        std::make_unique<RecordSinkOf<Core>>(buffer_), slot_);
  }

  void follow(std::uint64_t term) {
    ReadResult followed = ReadResult::kTimeout;
    while (followed == ReadResult::kTimeout && !stopped_)
      followed = reader_->read(term, following_, Clock::now() + kSlice);
    result_ = followed;
    if (followed == ReadResult::kEnded)
      buffer_->close();
    else if (followed != ReadResult::kClosed && followed != ReadResult::kTimeout)
      buffer_->fail();
    if (followed == ReadResult::kMisfit) reader_->settle();
  }

  /// Leaves the epoch: the rest of it is not wanted.
  void leave() {
    stopped_ = true;
    buffer_->fail();
    slot_->skip_to(*epoch_ + 1);
  }

  void stop() {
    stopped_ = true;
    if (buffer_) buffer_->fail();
    thread_.join();
  }

  BufferOptions options_;
  const bool overlaps_;
  std::pair<std::uint64_t, std::uint64_t> seat_;
  std::shared_ptr<ClientSlot> slot_;
  std::shared_ptr<const SharedMemory> memory_;
  std::shared_ptr<Core> buffer_;
  std::unique_ptr<RingReader> reader_;
  std::optional<std::uint64_t> next_, epoch_;
  std::uint64_t following_ = 0;
  std::uint64_t number_ = 0;  // of the buffer's epoch
  bool ahead_ = false;
  std::atomic<bool> stopped_{false};
  std::atomic<ReadResult> result_{ReadResult::kTimeout};
  Threads thread_;
};

using Job = BasicJob<OfWords>;

inline constexpr std::uint64_t kWindow = 24;
inline constexpr std::uint64_t kSlots =
    2 * kWindow;  // no lag: the least that a server has

inline std::unique_ptr<SharedRing> make_ring(std::uint64_t slots = kSlots,
                                             double lease = kLease) {
  return std::make_unique<SharedRing>(words({}), slots, -1, lease);
}

inline BufferOptions prefetched(BufferOptions options) {
  options.prefetch = 2;
  return options;
}

/// Every example came as often as the factor says.
template <class Served>
void expect_exact(const Served& served, const Sizes& sizes,
                  const BufferOptions& options) {
  ASSERT_EQ(served.end, Status::kFinished) << "epoch " << served.epoch;
  const std::uint64_t n = sizes.at(served.epoch);
  const Ids count = uses(served.draws, n);
  const Ratio factor = options.factor;
  if (options.automatic) {
    for (const std::uint64_t times : count) ASSERT_GE(times, 1u);
  } else {
    for (const std::uint64_t times : count) {
      ASSERT_GE(times, factor.num / factor.den);
      ASSERT_LE(times, factor.ceil());
    }
  }
}

}  // namespace echobuf::serve::test
