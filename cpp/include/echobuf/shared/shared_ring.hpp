// The server's ring: upstream puts each fresh example once, and a slot is reused when
// no job needs it any more.
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

#include "echobuf/options.hpp"
#include "echobuf/process.hpp"
#include "echobuf/shared/job_seats.hpp"
#include "echobuf/shared/ring_header.hpp"
#include "echobuf/shared/ring_memory.hpp"
#include "echobuf/status.hpp"
#include "echobuf/store/host_store.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/store/shared_memory.hpp"

namespace echobuf::serve {

/// A ring that several jobs read. Any number of threads put; one begins and ends
/// epochs.
class SharedRing {
 public:
  static constexpr bool kUploads = false;

  /// `memory`: a descriptor of memory for the slots, or -1 for new memory. Throws
  /// std::invalid_argument for no slots, std::bad_alloc, std::system_error.
  SharedRing(const BufferOptions& options, std::uint64_t slots, int memory,
             double lease_s)
      : SharedRing(options, std::make_unique<MappedHeader>(), some(slots), memory,
                   lease_s) {}

  /// Goes on with the ring of a server that has gone; `header`, `memory`: descriptors
  /// of the memory that it shared. Throws std::invalid_argument if the ring is of
  /// records of another size, else as the constructor.
  static std::unique_ptr<SharedRing> adopt(const BufferOptions& options, int header,
                                           int memory, double lease_s) {
    return std::unique_ptr<SharedRing>(new SharedRing(
        options, std::make_unique<MappedHeader>(header), 0, memory, lease_s));
  }

  ~SharedRing() {
    if (!of_this_process()) {  // its threads are the parent's
      static_cast<void>(publisher_.release());
      static_cast<void>(keeper_.release());
      return;
    }
    end_threads();
  }
  SharedRing(const SharedRing&) = delete;
  SharedRing& operator=(const SharedRing&) = delete;

  bool of_this_process() const { return generation_ == fork_generation(); }
  bool is_down() const { return down_.load(std::memory_order_acquire); }
  const BufferOptions& options() const { return options_; }
  const RecordLayout& record() const { return memory_.store.layout(); }
  const SharedMemory* shared_memory() const { return memory_.store.shared_memory(); }
  const MappedHeader& mapped_header() const { return *header_; }
  std::uint64_t slots() const { return memory_.ring.capacity(); }

  // ---- the put path, as in a buffer

  std::uint64_t term() const { return memory_.ring.term(); }
  std::uint64_t tail() const { return memory_.ring.tail(); }
  Status put(std::uint64_t term, const SourceLeaf* leaves, std::uint64_t n,
             std::size_t rows, std::uint64_t& done, const WaitLimit& wait_limit,
             Poll* poll) {
    return memory_.put_path.put(term, leaves, n, rows, done, wait_limit, poll);
  }
  Status claim(std::uint64_t term, std::uint64_t& first, std::uint64_t& count,
               const WaitLimit& wait_limit) {
    return memory_.put_path.claim(term, first, count, wait_limit);
  }
  void commit(std::uint64_t first, std::uint64_t count) {
    memory_.put_path.commit(first, count);
  }
  /// Nothing here is borrowed.
  static constexpr Misfit misfit() { return {}; }
  /// See BasicBuffer.
  Status put_made(std::uint64_t term, const SourceLeaf* leaves, std::uint64_t& done,
                  const WaitLimit& wait_limit) {
    return memory_.put_path.put_made(term, leaves, done, wait_limit);
  }
  void begin_making(std::uint64_t n) { memory_.put_path.begin_making(n); }
  void end_making(std::uint64_t n) { memory_.put_path.end_making(n); }
  /// The most bytes of the rows of a record; 0 where records have none.
  std::uint64_t most_bytes() const { return header().most; }
  void close() { memory_.ring.close(); }

  /// Ends the term as failed: records committed from now on are not published, for they
  /// may not have been written. The next server writes them again.
  void fail() { fail(term()); }
  /// The same, unless another term has begun.
  void fail(std::uint64_t term) {
    const std::unique_lock lock = seats_.lock();
    if (this->term() != term) return;
    // Release, and before the commits that are not to be published: pairs with
    // is_halted(), which the publisher reads after the commits.
    halted_.store(true, std::memory_order_release);
    close();
  }
  static constexpr bool puts_wait_for_upload() { return false; }

  // ---- epochs

  /// The number of examples already published of an epoch that another server began and
  /// did not end; nothing if there is no such epoch.
  std::optional<std::uint64_t> resume_offset() const {
    if (header().begun == header().ended) return std::nullopt;
    return header().published - header().base_of(header().begun - 1);
  }

  /// Begins the next epoch for all jobs, once at least `jobs` are attached and none is
  /// too many epochs behind. False if the time has run out.
  bool begin_epoch(std::uint64_t jobs, Deadline deadline) {
    for (;;) {
      const std::uint32_t key = seats_.arrived().prepare();
      if (is_down()) return false;
      if (try_begin(jobs)) return true;
      if (Clock::now() >= deadline) return false;
      seats_.arrived().wait(key, std::min(deadline, Clock::now() + kSlice));
    }
  }

  /// Waits until all records of the epoch are published, and ends it. Called once
  /// upstream has ended, or was closed. False if upstream failed or the server is shut
  /// down: then the epoch has no end.
  bool end_epoch() {
    close();
    const std::uint64_t end = tail();
    while (header().published.load(std::memory_order_acquire) < end) {
      if (is_down() || is_halted()) return false;
      memory_.ring.filled().notify();
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    const std::unique_lock lock = seats_.lock();
    if (is_halted()) return false;
    const std::uint64_t number = header().ended.load(std::memory_order_relaxed);
    header().ends[number % RingHeader::kEnds].store(end, std::memory_order_release);
    header().ended.store(number + 1, std::memory_order_release);
    header().news.notify();
    header().room.notify();  // a job that has left the epoch holds it no longer
    memory_.ring.reopen();
    if (is_down()) close();  // a close that came before is undone by it
    return true;
  }

  /// Announces that there is no further epoch; `reason`: the message if upstream
  /// failed.
  void finish(const std::string& reason, bool failed) {
    const std::unique_lock lock = seats_.lock();
    auto& text = header().reason;
    std::size_t bytes = std::min(reason.size(), text.size() - 1);
    // Never cut in the middle of a UTF-8 character.
    if (bytes < reason.size())
      while (bytes > 0 && (static_cast<unsigned char>(reason[bytes]) & 0xC0) == 0x80)
        --bytes;
    std::memcpy(text.data(), reason.data(), bytes);
    text[bytes] = 0;
    header().phase.store(failed ? RingHeader::kFailed : RingHeader::kOver,
                         std::memory_order_release);
    header().news.notify();
  }

  // ---- jobs

  JobSeats& seats() { return seats_; }

  void shut_down() {
    down_.store(true, std::memory_order_release);
    close();
    memory_.ring.wake_all();
    header().room.notify();
    seats_.arrived().notify();
  }

 private:
  static constexpr auto kSlice = std::chrono::milliseconds(50);

  SharedRing(const BufferOptions& options, std::unique_ptr<MappedHeader> mapped,
             std::uint64_t slots, int memory, double lease_s)
      : options_(options),
        header_(std::move(mapped)),
        seats_(**header_, lease_s),
        memory_(options, prepare(slots, options), memory, seats_.in_use()) {
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

  /// Fills in the header of a new ring, or checks that of an adopted one.
  const RingHeader& prepare(std::uint64_t slots, const BufferOptions& options) {
    const SharedWindow window = window_of(options, slots > 0 ? slots : header().slots);
    if (slots > 0) {
      header().slots = slots;
      header().stride = window.stride;
      header().fields = window.fields;
      header().unit = window.unit;
      header().units = window.units;
      header().most = most_of(options);
      std::random_device random;
      for (auto& byte : header().session) byte = static_cast<unsigned char>(random());
    } else if (header().stride != window.stride || header().fields != window.fields) {
      throw std::invalid_argument("its records were of another size");
    }
    return header();
  }

  RingHeader& header() const { return **header_; }
  bool is_halted() const { return halted_.load(std::memory_order_acquire); }

  bool try_begin(std::uint64_t jobs) {
    const std::unique_lock lock = seats_.lock();
    return seats_.begin_epoch(jobs, tail());
  }

  /// Publishes committed records to the jobs; runs on a thread.
  void publish() {
    Ring& ring = memory_.ring;
    std::uint64_t published = header().published;
    for (;;) {
      const std::uint64_t end = ring.committed();
      // Acquire, and after committed(): if it is not halted, all of that was written.
      if (is_halted()) return;
      if (end != published) {
        published = end;
        // Release: pairs with the jobs' acquire; the records come with it.
        header().published.store(end, std::memory_order_release);
        header().news.notify();
        continue;
      }
      ring.want(end);
      const std::uint32_t key = ring.filled().prepare();
      if (ring.is_committed(end)) continue;
      if (is_down()) return;
      ring.filled().wait(key, Clock::now() + kSlice);
    }
  }

  /// Releases slots that no job needs, and drops jobs whose lease is over; runs on a
  /// thread.
  void keep() {
    for (;;) {
      const std::uint32_t key = header().room.prepare();
      if (is_down()) return;
      release();
      seats_.arrived().notify();  // perhaps a job is not too far behind any more
      header().room.wait(key, Clock::now() + kSlice);
    }
  }

  void release() {
    const std::unique_lock lock = seats_.lock();
    const bool any = seats_.drop_silent();
    memory_.ring.release(std::max(seats_.in_use(), memory_.ring.released()));
    // If no job is left in this epoch, upstream need not go on.
    if (!any && header().begun != header().ended) close();
  }

  const BufferOptions options_;
  const std::uint32_t generation_ = fork_generation();
  const std::unique_ptr<MappedHeader> header_;
  JobSeats seats_;
  RingMemory memory_;

  std::atomic<bool> down_{false};
  std::atomic<bool> halted_{false};  // nothing more is published
  std::unique_ptr<std::thread> publisher_;
  std::unique_ptr<std::thread> keeper_;
};

}  // namespace echobuf::serve
