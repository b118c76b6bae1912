// The buffer: many producers put fresh examples, and each is served as often as the
// factor says, in shuffled batches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>

#include "echobuf/buffer/argument_checks.hpp"
#include "echobuf/buffer/draw_path.hpp"
#include "echobuf/buffer/epoch_accounting.hpp"
#include "echobuf/buffer/epoch_changes.hpp"
#include "echobuf/buffer/host_backend.hpp"
#include "echobuf/buffer/option_checks.hpp"
#include "echobuf/buffer/stats.hpp"
#include "echobuf/buffer/termination.hpp"
#include "echobuf/options.hpp"
#include "echobuf/status.hpp"

namespace echobuf {

/// `Backend`: where records are kept, and how a batch is brought from there.
///
/// All calls may come from any number of threads at once. Calls that wait take a
/// deadline and return kTimeout when it has passed; call again to go on.
template <class Backend>
class BasicBuffer {
  using Ring = typename Backend::Ring;

 public:
  /// Throws std::bad_alloc, std::system_error where no thread can be started, or
  /// std::invalid_argument for what cannot work. Everything but batch memory is
  /// allocated here, once.
  template <class... Where>
  explicit BasicBuffer(const BufferOptions& options, Where&&... where)
      : options_(Backend::accept(checked(options))),
        own_backend_(
            std::make_unique<Backend>(options_, std::forward<Where>(where)...)),
        put_path_(backend_.put_path()),
        termination_(ring_,
                     options_.borrowed ? options_.borrowed->slot_owner.get() : nullptr),
        accounting_(options_, ring_, make_sweep(options_, options_.epoch)),
        draw_path_(options_, ring_, backend_.drawer(options_), accounting_,
                   termination_) {
    backend_.start([this] {
      termination_.break_down();
      ring_.close();
      wake_all();
    });
  }

  /// No thread may be inside a call. In a forked child the thread that assembles ahead
  /// is not there to be joined, locks may be held for ever, and the fork may have come
  /// in the middle of a draw: what threads change is left alone, and the pool with it.
  /// Of a device's buffer all is: its thread, locks that the thread had, streams,
  /// events.
  ~BasicBuffer() {
    if (of_this_process()) {
      shut_down();
    } else {
      draw_path_.abandon();
      if constexpr (Backend::kUploads) static_cast<void>(own_backend_.release());
    }
  }
  BasicBuffer(const BasicBuffer&) = delete;
  BasicBuffer& operator=(const BasicBuffer&) = delete;

  /// Returns the memory that a buffer will take; the products can pass 2^64, so they
  /// are left apart. Throws as the constructor does.
  static BufferNeeds needs(const BufferOptions& options) {
    return Backend::needs(checked(options));
  }

  const BufferOptions& options() const { return options_; }
  const BatchLayout& layout() const { return backend_.batch; }
  const RecordLayout& record() const { return backend_.store.layout(); }
  /// False in a forked child, which may do nothing with it but destroy it.
  bool of_this_process() const { return generation_ == fork_generation(); }

  // ---- upstream

  /// A put goes on over several calls; it belongs to the term in which it began.
  std::uint64_t term() const { return ring_.term(); }

  /// Puts examples `done` ... n-1 of `leaves` and counts them in `done`. `rows`: the
  /// examples of each, if it is a whole batch. Throws std::invalid_argument, before
  /// anything is put, for null pointers, more rows than a record has, and leaves of
  /// another size. `versions`: of all n, for leaves of infos; null: 0.
  Status put(std::uint64_t term, const SourceLeaf* leaves, std::uint64_t n,
             std::size_t rows, std::uint64_t& done, const WaitLimit& wait_limit,
             Poll* poll, const std::int64_t* versions = nullptr) {
    if (done < n) argument_checks::check_leaves("put", record(), leaves, rows);
    return put_path_.put(term, leaves, n, rows, done, wait_limit, poll, versions);
  }

  /// Puts one example; `leaves` has one for each field. `rows`: the examples of a whole
  /// batch.
  Status put(const SourceLeaf* leaves, const WaitLimit& wait_limit = Deadline::max(),
             std::size_t rows = 0) {
    std::uint64_t done = 0;
    return put(term(), leaves, 1, rows, done, wait_limit, nullptr);
  }

  /// The same as put(), of what `write` writes: see PutPath::put_by().
  template <class Write>
  Status put_by(Write&& write, std::uint64_t term, const SourceLeaf* leaves,
                std::uint64_t n, std::size_t rows, std::uint64_t& done,
                const WaitLimit& wait_limit, Poll* poll, const std::int64_t* versions) {
    return put_path_.put_by(write, term, leaves, n, rows, done, wait_limit, poll,
                            versions);
  }

  /// Takes up to `count` positions, and says how many from which on, for another
  /// process to write. What is claimed must be committed before the buffer goes over to
  /// another epoch, which waits for it.
  Status claim(std::uint64_t term, std::uint64_t& first, std::uint64_t& count,
               const WaitLimit& wait_limit) {
    return put_path_.claim(term, first, count, wait_limit);
  }
  /// Returns the first record of the last claim that cannot be drawn, where records are
  /// borrowed. For the thread that claims them.
  Misfit misfit() const { return put_path_.misfit(); }
  /// Positions that were claimed have been written.
  void commit(std::uint64_t first, std::uint64_t count) {
    put_path_.commit(first, count);
  }
  /// Puts one example of any length that another process has made; see
  /// PutPath::put_made(). It throws as put() does.
  Status put_made(std::uint64_t term, const SourceLeaf* leaves, std::uint64_t& done,
                  const WaitLimit& wait_limit) {
    argument_checks::check_leaves("put", record(), leaves, 0);
    return put_path_.put_made(term, leaves, done, wait_limit);
  }
  void begin_making(std::uint64_t n) { put_path_.begin_making(n); }
  void end_making(std::uint64_t n) { put_path_.end_making(n); }
  /// The position that is claimed next.
  std::uint64_t tail() const { return ring_.tail(); }
  /// Returns the memory of the slots that are claimed, with `shared`; else null.
  const SharedMemory* shared_memory() const { return backend_.store.shared_memory(); }

  /// Says that upstream has ended; what is there is still served out.
  void close() {
    put_path_.clock().close();
    ring_.close();
  }

  /// Upstream failed: nothing more is served.
  void fail() {
    termination_.fail();
    close();
    wake_all();
  }
  /// Fails a term, unless it is over: the next one is left alone. On return nothing of
  /// that term is served any more. It may wait for a change of epoch, and so for a
  /// draw: a caller holds nothing that the poll of a draw wants.
  void fail(std::uint64_t term) {
    epochs_.fail_in(term, [this] { fail(); });
  }
  bool has_failed() const { return termination_.has_failed(); }

  // ---- downstream

  /// The next batch; the memory that `batch` had is dropped.
  Status next(Batch& batch, const WaitLimit& wait_limit = Deadline::max(),
              Poll* poll = nullptr) {
    return draw_path_.next(batch, wait_limit, poll);
  }

  /// Draws into the caller's leaves. On a device, where `target.stream` is captured:
  /// into the graph, once in a capture (kTwice), and nothing is waited for or used up.
  /// Throws std::invalid_argument for null pointers.
  Status next_into(Target& target, const WaitLimit& wait_limit, Poll* poll = nullptr) {
    argument_checks::check_target("next_into", layout(), target.leaves);
    return draw_path_.next_into(target, wait_limit, poll);
  }

  /// Where records differ in length: draws into the caller's leaves, if the batch fits
  /// these, else says in `target` which size that has (kResize), and draws nothing;
  /// with "auto" the next batch may be another one by the next call. In host memory a
  /// target always has `room`. On a device, where `target.stream` is captured: see
  /// next_into(); then it must have `room`. Throws std::invalid_argument for another
  /// number of leaves than batches have, and for null pointers.
  Status next_rows(RowsTarget& target, const WaitLimit& wait_limit,
                   Poll* poll = nullptr) {
    argument_checks::check_rows("next_rows", layout(), target);
    return draw_path_.next_rows(target, wait_limit, poll);
  }

  /// On a device: makes the next batch the one that a captured draw draws when its
  /// graph is launched, on the stream of `target`, where all that it reads will be
  /// there. To be called before each launch; the batch is handed out by it, whether one
  /// comes or not, and is drawn by any number of launches until the next call of this
  /// buffer that draws or goes over to another epoch (later ones draw nothing).
  /// kFinished also before a last batch that is shorter, or a short whole batch:
  /// next_into() serves that. Where records have rows, `target` names, without
  /// addresses, the rows that captured leaves have room for, or no leaves for any.
  /// kResize: the batch has more, as `target` says then; it stays the next one.
  Status before_replay(RowsTarget& target, const WaitLimit& wait_limit) {
    return draw_path_.before_replay(target, wait_limit);
  }
  /// The same on `stream`, for any rows.
  Status before_replay(void* stream, const WaitLimit& wait_limit) {
    RowsTarget target;
    target.stream = stream;
    return before_replay(target, wait_limit);
  }

  /// Returns the address of field `index` of a batch: `count` times its bytes, 64-byte
  /// aligned. Throws std::out_of_range where there is no such field, and
  /// std::invalid_argument where it holds no whole number of `T`, or the batch has no
  /// memory.
  template <class T>
  T* field(const Batch& batch, std::size_t index) const {
    static_assert(std::is_trivially_copyable_v<T>, "a batch holds bytes of examples");
    static_assert(alignof(T) <= kLeafAlignment, "a leaf is not aligned for it");
    argument_checks::check_field(layout(), index, sizeof(T),
                                 static_cast<bool>(batch.block));
    return reinterpret_cast<T*>(batch.block.data() + layout().offset(index));
  }

  bool prefetches() const { return draw_path_.prefetches(); }

  /// Returns whether next() would return, with a batch or an end, without waiting. Not
  /// while another thread is drawing.
  bool ready() { return draw_path_.ready(); }
  /// The same without waiting for a batch that is just being assembled ahead.
  std::optional<bool> look() { return draw_path_.look(); }

  /// True if what is put has to be brought to where it is drawn from.
  static constexpr bool kUploads = Backend::kUploads;

  /// Returns whether a draw, or a put, that has just run out of time waited for an
  /// upload, and not for the other side: then it is worth another moment.
  bool draws_wait_for_upload() const { return ring_.behind(); }
  bool puts_wait_for_upload() const { return ring_.clearing(); }

  // ---- life

  /// Ends the epoch as it stands and begins another, in the same memory. kReentrant if
  /// called from the poll of a draw: the reset would wait for it. `skipped`: positions
  /// that are passed over in between, fewer than there are slots.
  Status reset(std::uint64_t epoch, std::uint64_t skipped = 0) {
    return epochs_.reset(epoch, skipped);
  }

  /// True once upstream has ended and all that it put has entered the window: what is
  /// freed from now on is room for the next epoch.
  bool draining() { return !termination_.failed_here() && accounting_.draining(); }

  /// Opens the next epoch for upstream while this one, whose upstream has ended, is
  /// served out. A failure from now on is the next epoch's. False if upstream has not
  /// ended or has failed, or if an epoch was opened ahead already.
  bool open_ahead(std::uint64_t epoch) { return epochs_.open_ahead(epoch); }

  /// Goes over to the epoch that was opened ahead; what is left of this one is given
  /// up. False if there is none, and from the poll of a draw.
  bool go_ahead() { return epochs_.go_ahead(); }

  /// Goes on from a checkpoint of a buffer with the same options. False if anything was
  /// put or drawn in this epoch, if it has been closed, or from the poll of a draw.
  /// Throws std::invalid_argument for one of a buffer with another window or factor.
  [[nodiscard]] bool restore(const Checkpoint& from) { return epochs_.restore(from); }

  /// An upstream that failed has not ended, unless it had before: it may come back with
  /// more.
  Checkpoint checkpoint() {
    Checkpoint point = accounting_.checkpoint(termination_.cut_off());
    // The draws that are given up are known by their number where records are of one
    // size, and none expires.
    if (((options_.lengths.any() && options_.drop_last) || options_.expires()) &&
        point.total)
      point.epoch_done = point.epoch_done || draw_path_.finished();
    return point;
  }

  /// The oldest fresh example of the epoch that batches after those handed out need:
  /// what is kept beside an older one may go.
  std::uint64_t oldest_needed() { return accounting_.oldest_needed(); }

  BufferStats stats() {
    // First: what is put meanwhile would be resident, and not yet fresh.
    const std::uint64_t tail = ring_.tail();
    BufferStats stats = accounting_.stats();
    // Others write what was claimed for them; all of it, once upstream has ended.
    if (!ring_.end()) stats.fresh -= std::min(stats.fresh, put_path_.outstanding());
    stats.resident = tail - std::min(tail, ring_.released());
    stats.bytes = backend_.bytes();
    stats.device_bytes = backend_.device_bytes();
    const auto upstream = put_path_.clock().read(ring_.end().value_or(tail));
    stats.put_wait_s = upstream.wait_s;
    stats.t_upstream_s = upstream.each_s;
    const auto downstream = draw_path_.clock().read(accounting_.draws_here());
    stats.next_wait_s = downstream.wait_s;
    stats.t_downstream_s = downstream.each_s;
    stats.wait_share = downstream.wait_share;
    if constexpr (requires { backend_.describe(stats); }) backend_.describe(stats);
    return stats;
  }

  /// Wakes everybody; every call from now on ends with kClosed. Stops the thread.
  void shut_down() {
    termination_.shut_down();
    ring_.close();
    wake_all();
    draw_path_.stop();
    backend_.stop();
  }
  bool is_down() const { return termination_.is_down(); }
  /// The most bytes of the rows of a record; 0 where records have none.
  std::uint64_t most_bytes() const { return put_path_.most_bytes(); }

  Backend& backend() { return backend_; }

 private:
  void wake_all() {
    ring_.wake_all();
    draw_path_.wake_all();
  }

  const BufferOptions options_;
  const std::uint32_t generation_ = fork_generation();
  std::unique_ptr<Backend> own_backend_;
  Backend& backend_ = *own_backend_;
  Ring& ring_ = backend_.ring;

  typename Backend::PutPath put_path_;
  Termination<Ring> termination_;
  EpochAccounting<Ring> accounting_;
  DrawPath<Ring> draw_path_;  // its thread uses what is above
  EpochChanges<Ring> epochs_{options_,     ring_,       put_path_.clock(),
                             termination_, accounting_, draw_path_};
};

/// On the CPU. Where records have rows, as `BufferOptions::lengths` says, batches say
/// in `places` where their leaves are; next_into() and field() are not for these.
using Buffer = BasicBuffer<HostBackend>;

}  // namespace echobuf
