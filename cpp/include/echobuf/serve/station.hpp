// The server's side: upstream puts each fresh example once, and a slot is written again
// when no job needs it any more.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "echobuf/buffer/options.hpp"
#include "echobuf/buffer/put_path.hpp"
#include "echobuf/process.hpp"
#include "echobuf/serve/feed.hpp"
#include "echobuf/serve/silence.hpp"
#include "echobuf/store/host_store.hpp"
#include "echobuf/store/ring.hpp"

namespace echobuf::serve {

/// What is known of a job.
struct JobReport {
  std::uint64_t seat;
  bool waiting;         // for the next epoch to begin
  std::uint64_t epoch;  // that it is in, or will be
  std::uint64_t taken;  // positions
  std::uint64_t held;   // positions that wait for it
  double silent_s;      // since its last sign of life
};

/// Puts may come from any number of threads; epochs are begun and ended by one.
class Station {
 public:
  static constexpr bool kUploads = false;

  /// `memory`: a descriptor of memory for the slots, or -1 for new memory. Throws
  /// std::invalid_argument for no slots, std::bad_alloc, std::system_error.
  Station(const BufferOptions& options, std::uint64_t slots, int memory, double lease_s)
      : Station(options, std::make_unique<Feed>(), some(slots), memory, lease_s) {}

  /// Goes on where a server that is gone has been; `feed`, `memory`: descriptors of
  /// what it shared. Throws std::invalid_argument for a feed that was of other records,
  /// as the constructor else.
  static std::unique_ptr<Station> adopt(const BufferOptions& options, int feed,
                                        int memory, double lease_s) {
    return std::unique_ptr<Station>(
        new Station(options, std::make_unique<Feed>(feed), 0, memory, lease_s));
  }

  ~Station() {
    if (!of_this_process()) {  // its threads are the parent's
      static_cast<void>(publisher_.release());
      static_cast<void>(keeper_.release());
      return;
    }
    end_threads();
  }
  Station(const Station&) = delete;
  Station& operator=(const Station&) = delete;

  bool of_this_process() const { return generation_ == fork_generation(); }
  bool is_down() const { return down_.load(std::memory_order_acquire); }
  const BufferOptions& options() const { return options_; }
  const RecordLayout& record() const { return store_.layout(); }
  const SharedMemory* shared_memory() const { return store_.shared_memory(); }
  const Feed& feed() const { return *feed_; }
  std::uint64_t slots() const { return ring_.capacity(); }

  // ---- upstream, as of a buffer

  std::uint64_t term() const { return ring_.term(); }
  Status put(std::uint64_t term, const SourceLeaf* leaves, std::uint64_t n,
             std::size_t rows, std::uint64_t& done, const WaitLimit& wait_limit,
             Poll* poll) {
    return put_path_.put(term, leaves, n, rows, done, wait_limit, poll);
  }
  Status claim(std::uint64_t term, std::uint64_t& first, std::uint64_t& count,
               const WaitLimit& wait_limit) {
    return put_path_.claim(term, first, count, wait_limit);
  }
  void commit(std::uint64_t first, std::uint64_t count) {
    put_path_.commit(first, count);
  }
  void close() { ring_.close(); }

  /// Upstream failed, or is given up: what is committed from now on is not published,
  /// for it may not have been written. Not by this server: what is missing is written
  /// again by the next one.
  void fail() { fail(term()); }
  /// The same, unless that term is over.
  void fail(std::uint64_t term) {
    const std::lock_guard lock(seats_);
    if (ring_.term() != term) return;
    // Release, and before the commits that are not to be published: pairs with
    // is_halted(), which the publisher looks at after it has looked for commits.
    halted_.store(true, std::memory_order_release);
    ring_.close();
  }
  static constexpr bool puts_wait_for_upload() { return false; }

  // ---- epochs

  /// Whether an epoch was begun by a server that is gone; then how many of its examples
  /// are there already.
  std::optional<std::uint64_t> begun_before() const {
    if (header().begun == header().ended) return std::nullopt;
    return header().published - base_of(header().begun - 1);
  }

  /// Begins the next epoch for all jobs that there are, if there are `jobs` and none of
  /// them is too many epochs behind. False within the time if not.
  bool begin_epoch(std::uint64_t jobs, Deadline deadline) {
    for (;;) {
      const std::uint32_t key = arrived_.prepare();
      if (is_down()) return false;
      if (try_begin(jobs)) return true;
      if (Clock::now() >= deadline) return false;
      arrived_.wait(key, std::min(deadline, Clock::now() + kSlice));
    }
  }

  /// Waits until all that was put in it is published. To be called once upstream has
  /// ended, or was closed. False if that will never be, since upstream failed or the
  /// server is shut down: then the epoch has no end.
  bool end_epoch() {
    ring_.close();
    const std::uint64_t end = ring_.tail();
    while (header().published.load(std::memory_order_acquire) < end) {
      if (is_down() || is_halted()) return false;
      ring_.filled().notify();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    const std::lock_guard lock(seats_);
    if (is_halted()) return false;
    const std::uint64_t number = header().ended.load(std::memory_order_relaxed);
    header().ends[number % Header::kEnds].store(end, std::memory_order_release);
    header().ended.store(number + 1, std::memory_order_release);
    header().news.notify();
    header().room.notify();  // whoever left the epoch holds it no longer
    ring_.reopen();
    if (is_down()) ring_.close();  // a close that came before is undone by it
    return true;
  }

  /// Tells the jobs that there is no further epoch; `why`: upstream failed.
  void finish(const std::string& why, bool failed) {
    const std::lock_guard lock(seats_);
    auto& text = header().why;
    std::size_t bytes = std::min(why.size(), text.size() - 1);
    // Not in the middle of a character of UTF-8.
    if (bytes < why.size())
      while (bytes > 0 && (static_cast<unsigned char>(why[bytes]) & 0xC0) == 0x80)
        --bytes;
    std::memcpy(text.data(), why.data(), bytes);
    text[bytes] = 0;
    header().phase.store(failed ? Header::kFailed : Header::kOver,
                         std::memory_order_release);
    header().news.notify();
  }

  // ---- jobs

  /// Takes a seat for a job, from the next epoch on; its number and its holder's, or
  /// nothing if all are taken.
  std::optional<std::pair<std::uint64_t, std::uint64_t>> take_seat() {
    const std::lock_guard lock(seats_);
    for (std::uint64_t i = 0; i < Header::kSeats; ++i) {
      Seat& seat = header().seats[i];
      if (seat.state != Seat::kFree) continue;
      const std::uint64_t holder = seat.holder + 1;
      seat.released = 0;
      seat.left = header().begun.load();
      seat.taken = 0;
      seat.beat_ns = now_ns();
      seat.state = Seat::kWaiting;
      seat.holder.store(holder, std::memory_order_release);
      arrived_.notify();
      return std::pair{i, holder};
    }
    return std::nullopt;
  }

  /// Gives the seat up, if it is still that holder's.
  void leave_seat(std::uint64_t number, std::uint64_t holder) {
    const std::lock_guard lock(seats_);
    Seat& seat = header().seats[number];
    if (seat.holder == holder) clear(seat);
    header().room.notify();
  }

  bool holds(std::uint64_t number, std::uint64_t holder) const {
    return number < Header::kSeats && header().seats[number].holder == holder &&
           header().seats[number].state != Seat::kFree;
  }

  /// The jobs that there are.
  std::vector<JobReport> jobs() const {
    const std::lock_guard lock(seats_);
    std::vector<JobReport> reports;
    const std::uint64_t published = header().published;
    const std::int64_t now = now_ns();
    for (std::uint64_t i = 0; i < Header::kSeats; ++i) {
      const Seat& seat = header().seats[i];
      if (seat.state == Seat::kFree) continue;
      const bool waiting = seat.state == Seat::kWaiting;
      const std::uint64_t held =
          waiting ? 0 : published - std::min(published, read_by(seat));
      reports.push_back(
          {i, waiting, seat.left, seat.taken, held, to_seconds(now - seat.beat_ns)});
    }
    return reports;
  }

  void shut_down() {
    down_.store(true, std::memory_order_release);
    ring_.close();
    ring_.wake_all();
    header().room.notify();
    arrived_.notify();
  }

 private:
  static constexpr auto kSlice = std::chrono::milliseconds(50);

  Station(const BufferOptions& options, std::unique_ptr<Feed> feed, std::uint64_t slots,
          int memory, double lease_s)
      : options_(options),
        feed_(std::move(feed)),
        silence_(**feed_, lease_s, now_ns()),
        store_(RecordLayout(options.fields, false), prepare(slots, options), memory),
        // What a server that is gone had not published is written again.
        ring_(header().slots, header().slots, header().published, in_use(), nullptr),
        put_path_(ring_, store_) {
    try {
      publisher_ = std::make_unique<std::thread>([this] { publish(); });
      keeper_ = std::make_unique<std::thread>([this] { keep(); });
    } catch (...) {
      end_threads();
      throw;
    }
  }

  void end_threads() {
    shut_down();
    for (const auto* thread : {&publisher_, &keeper_})
      if (*thread) (*thread)->join();
  }

  static std::uint64_t some(std::uint64_t slots) {
    if (slots == 0) throw std::invalid_argument("a ring has at least one slot");
    return slots;
  }

  /// The number of slots.
  std::uint64_t prepare(std::uint64_t slots, const BufferOptions& options) {
    const std::size_t stride = RecordLayout(options.fields, false).stride();
    if (slots > 0) {
      header().slots = slots;
      header().stride = stride;
      std::random_device random;
      for (auto& byte : header().session) byte = static_cast<unsigned char>(random());
    } else if (header().stride != stride) {
      throw std::invalid_argument("its records were of another size");
    }
    return header().slots;
  }

  Header& header() const { return **feed_; }
  bool is_halted() const { return halted_.load(std::memory_order_acquire); }

  std::uint64_t base_of(std::uint64_t epoch) const {
    return epoch == 0 ? 0 : header().end_of(epoch - 1);
  }

  bool try_begin(std::uint64_t jobs) {
    const std::lock_guard lock(seats_);
    const std::uint64_t next = header().begun;
    std::uint64_t there = 0;
    for (const Seat& seat : header().seats) {
      if (seat.state == Seat::kFree) continue;
      if (seat.state == Seat::kTaken && next - seat.left >= Header::kEnds - 2)
        return false;
      ++there;
    }
    if (there < std::max<std::uint64_t>(jobs, 1)) return false;
    for (Seat& seat : header().seats) {
      if (seat.state != Seat::kWaiting) continue;
      seat.first_epoch = next;
      seat.base = ring_.tail();
      seat.released = seat.base;
      seat.taken = seat.base;
      seat.left = next;
      seat.state.store(Seat::kTaken, std::memory_order_release);
    }
    header().begun.store(next + 1, std::memory_order_release);
    header().news.notify();
    return true;
  }

  /// Below this position a job reads nothing any more.
  std::uint64_t read_by(const Seat& seat) const {
    // Acquire: pairs with the job's release.
    const std::uint64_t released = seat.released.load(std::memory_order_acquire);
    const std::uint64_t left = seat.left.load(std::memory_order_acquire);
    const std::uint64_t ended = header().ended.load(std::memory_order_relaxed);
    if (left > ended)  // it has left the epoch that is going on
      return std::max(released, header().published.load(std::memory_order_relaxed));
    return std::max(released, base_of(left));
  }

  /// From this position on jobs read slots; if there are none, where the next one would
  /// begin.
  std::uint64_t in_use() const {
    std::uint64_t least = header().published;
    for (const Seat& seat : header().seats)
      if (seat.state == Seat::kTaken) least = std::min(least, read_by(seat));
    return least;
  }

  void clear(Seat& seat) {
    seat.holder.fetch_add(1, std::memory_order_acq_rel);
    seat.state = Seat::kFree;
  }

  /// Makes what is committed known to the jobs.
  void publish() {
    std::uint64_t published = header().published;
    for (;;) {
      const std::uint64_t end = ring_.committed();
      // Acquire, and after the look: if it is not halted, all of that was written.
      if (is_halted()) return;
      if (end != published) {
        published = end;
        // Release: pairs with the jobs' acquire; the records come with it.
        header().published.store(end, std::memory_order_release);
        header().news.notify();
        continue;
      }
      ring_.want(end);
      const std::uint32_t key = ring_.filled().prepare();
      if (ring_.is_committed(end)) continue;
      if (is_down()) return;
      ring_.filled().wait(key, Clock::now() + kSlice);
    }
  }

  /// Gives slots back that no job needs, and drops jobs that are silent.
  void keep() {
    for (;;) {
      const std::uint32_t key = header().room.prepare();
      if (is_down()) return;
      release();
      arrived_.notify();  // perhaps a job is not too far behind any more
      header().room.wait(key, Clock::now() + kSlice);
    }
  }

  void release() {
    const std::lock_guard lock(seats_);
    silence_.look(now_ns());
    bool any = false;
    for (Seat& seat : header().seats) {
      if (seat.state == Seat::kFree) continue;
      if (silence_.is_over(seat)) clear(seat);
      any |= seat.state == Seat::kTaken;
    }
    ring_.release(std::max(in_use(), ring_.released()));
    // If nobody is left in this epoch, upstream need not go on.
    if (!any && header().begun != header().ended) ring_.close();
  }

  const BufferOptions options_;
  const std::uint32_t generation_ = fork_generation();
  const std::unique_ptr<Feed> feed_;
  Silence silence_;  // of the keeper
  HostStore store_;
  Ring ring_;
  PutPath<Ring, HostStore> put_path_;

  mutable std::mutex seats_;  // their states, and the epochs'
  EventCount arrived_;        // a job, or one that was too far behind
  std::atomic<bool> down_{false};
  std::atomic<bool> halted_{false};  // nothing more is published
  std::unique_ptr<std::thread> publisher_;
  std::unique_ptr<std::thread> keeper_;
};

}  // namespace echobuf::serve
