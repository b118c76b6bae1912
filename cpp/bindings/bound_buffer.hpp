// The part that Python's buffers on the CPU and on devices share.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "any_buffer.hpp"
#include "carried.hpp"
#include "checkpoint_dict.hpp"
#include "direct.hpp"
#include "echobuf/buffer/buffer.hpp"
#include "gil.hpp"
#include "gil_yield.hpp"
#include "leaves.hpp"
#include "structure.hpp"
#include "waiting.hpp"

namespace echobuf::python {

/// Codes that calls return beside Status; Python makes them into exceptions.
inline constexpr int kForked = 100;
inline constexpr int kMismatch = 101;
inline constexpr int kLeft = 102;      // the context was left
inline constexpr int kVersions = 103;  // there are more or fewer than examples

inline int code(Status status) { return static_cast<int>(status); }

/// `Core`: a BasicBuffer. Calls return a code, or what they say and codes above it.
/// `Methods`: those that Python calls, AnyBuffer's, or of a ring AnyPuts's.
template <class Core, class Methods = AnyBuffer>
class BoundBuffer : public Methods {
 public:
  // AnyPuts has some of them alone. NOLINTBEGIN(modernize-use-override)
  /// `leaves`: of what is put; `output`: of batches.
  BoundBuffer(const py::list& leaves, const py::list& output,
              std::shared_ptr<Core> buffer)
      : leaves_(leaves, buffer->options().lengths.in_batches()),
        output_(output, buffer->options().lengths.in_batches()),
        buffer_(std::move(buffer)) {}

  /// The object that takes apart the trees that are put.
  void use(std::shared_ptr<const Structure> structure) {
    structure_ = std::move(structure);
  }

  /// Says which leaves of trees stand for tensors of types that NumPy lacks.
  void take_foreign(const std::vector<std::optional<std::string>>& names) {
    leaves_.take_foreign(names);
  }

  /// Puts one example, or those stacked on axis 0: their leaves. Returns None, or a
  /// tuple of a code and the number of examples put (kMismatch: of the leaf that does
  /// not fit, or is no array whose rows are contiguous; kVersions: of all examples).
  /// `version`: None, an int for all examples, or an array of int64 for each.
  py::object put(const py::list& arrays, bool stacked, std::optional<double> timeout_s,
                 const py::object& version) {
    const std::shared_ptr<Core> buffer = hold();
    if (const int refused = refuse(buffer)) return py::make_tuple(refused, 0);
    Sources sources;
    if (const auto leaf = leaves_.bind(arrays, stacked, sources))
      return py::make_tuple(kMismatch, *leaf);
    return put_bound(*buffer, buffer->term(), sources, timeout_s, version);
  }

  /// The same of a tree; kMismatch also if it has another structure. `term`: that it
  /// belongs to, if not the one that is open.
  py::object put_tree(const py::object& tree, bool stacked,
                      std::optional<double> timeout_s,
                      std::optional<std::uint64_t> term = std::nullopt,
                      py::handle version = Py_None) {
    if (const int refused = refuse(peek())) return py::make_tuple(refused, 0);
    HeldLeaves arrays;  // the last to go
    Sources sources;
    if (!bind_tree(tree, stacked, Py_None, arrays, sources))
      return py::make_tuple(kMismatch, 0);
    if (!stacked && version.is_none() && put_at_once(term, sources)) return py::none();
    const std::shared_ptr<Core> buffer = hold();
    if (const int refused = refuse(buffer)) return py::make_tuple(refused, 0);
    return put_bound(*buffer, term.value_or(buffer->term()), sources, timeout_s,
                     version);
  }

  /// Puts what an iterator yields into a term, as it comes: each with put_tree(), at
  /// most `most`. What they carry is added to the object that `carried` refers to
  /// weakly, if it is not None: a put that waits holds no object. Returns how many were
  /// put; whether the iterator has ended; and, of an item that was not put, what
  /// put_tree() has returned, and the item, if that must be looked at. Throws what the
  /// iterator does.
  py::tuple put_all(bool stacked, std::uint64_t term, const py::object& items,
                    std::uint64_t most, const py::object& carried) {
    GilYield gil;
    for (std::uint64_t count = 0; count < most; ++count) {
      auto item = py::reinterpret_steal<py::object>(next_of_upstream(items.ptr()));
      if (!item) {
        if (PyErr_Occurred()) throw py::error_already_set();
        return py::make_tuple(count, true, py::none(), py::none());
      }
      const std::shared_ptr<Core> buffer = hold();
      if (const int refused = refuse(buffer))
        return py::make_tuple(count, false, py::make_tuple(refused, 0), py::none());
      HeldLeaves arrays;
      Sources sources;
      if (!bind_tree(item, stacked, carried, arrays, sources))
        return py::make_tuple(count, false, py::make_tuple(kMismatch, 0), item);
      if (!carried.is_none()) item = py::none();
      const py::object outcome =
          put_bound(*buffer, term, sources, std::nullopt, Py_None);
      if (!outcome.is_none()) return py::make_tuple(count, false, outcome, item);
      if (!gil.yield()) throw py::error_already_set();
    }
    return py::make_tuple(most, false, py::none(), py::none());
  }

  int ready() {
    const std::shared_ptr<Core> buffer = hold();
    if (const int refused = refuse(buffer)) return refused;
    if (const auto answer = buffer->look()) return *answer ? 1 : 0;
    const GilRelease released;  // while a batch is assembled
    return buffer->ready() ? 1 : 0;
  }

  int close() {
    const std::shared_ptr<Core> buffer = hold();
    if (const int refused = refuse(buffer)) return refused;
    buffer->close();
    return 0;
  }

  int fail() {
    const std::shared_ptr<Core> buffer = hold();
    if (const int refused = refuse(buffer)) return refused;
    buffer->fail();
    return 0;
  }

  /// Fails a term, unless it is over.
  int abandon(std::uint64_t term) {
    const std::shared_ptr<Core> buffer = hold();
    if (const int refused = refuse(buffer)) return refused;
    const GilRelease released;  // a draw that it waits for may want the GIL
    buffer->fail(term);
    return 0;
  }

  /// The term that puts belong to; 0 after release().
  std::uint64_t term() const {
    const std::shared_ptr<Core> buffer = hold();
    return buffer ? buffer->term() : 0;
  }

  /// The oldest fresh example that batches after those handed out need, of the epoch
  /// that is drawn from; 0 where there is no buffer.
  std::uint64_t oldest_needed() {
    const std::shared_ptr<Core> buffer = hold();
    return refuse(buffer) ? 0 : buffer->oldest_needed();
  }

  int reset(std::uint64_t epoch, std::uint64_t skipped) {
    const std::shared_ptr<Core> buffer = hold();
    if (const int refused = refuse(buffer)) return refused;
    const GilRelease released;
    return code(buffer->reset(epoch, skipped));
  }

  /// An epoch opened for upstream before this one is served out: 0, 1, or a code.
  int draining() {
    const std::shared_ptr<Core> buffer = hold();
    if (const int refused = refuse(buffer)) return refused;
    return buffer->draining() ? 1 : 0;
  }

  int open_ahead(std::uint64_t epoch) {
    const std::shared_ptr<Core> buffer = hold();
    if (const int refused = refuse(buffer)) return refused;
    const GilRelease released;
    return buffer->open_ahead(epoch) ? 1 : 0;
  }

  int go_ahead() {
    const std::shared_ptr<Core> buffer = hold();
    if (const int refused = refuse(buffer)) return refused;
    const GilRelease released;
    return buffer->go_ahead() ? 1 : 0;
  }

  py::object checkpoint() {
    const std::shared_ptr<Core> buffer = hold();
    if (const int refused = refuse(buffer)) return py::int_(refused);
    const Checkpoint point = [&] {
      const GilRelease released;  // it may wait for a thread that assembles ahead
      return buffer->checkpoint();
    }();
    return to_dict(point);
  }

  /// 0, a code, or kMismatch if the buffer has been used.
  int restore(const py::dict& state) {
    const std::shared_ptr<Core> buffer = hold();
    if (const int refused = refuse(buffer)) return refused;
    const Checkpoint checkpoint = from_dict(state, buffer->options());
    const GilRelease released;
    return buffer->restore(checkpoint) ? 0 : kMismatch;
  }

  py::object stats() {
    const std::shared_ptr<Core> buffer = hold();
    if (const int refused = refuse(buffer)) return py::int_(refused);
    const BufferStats stats = buffer->stats();
    return py::make_tuple(
        py::make_tuple(stats.fresh, stats.served, stats.passes, stats.resident,
                       stats.device_bytes, stats.bytes),
        py::make_tuple(stats.put_wait_s, stats.next_wait_s, stats.t_upstream_s,
                       stats.t_downstream_s, stats.ratio(), stats.wait_share),
        py::make_tuple(stats.payload_bytes, stats.payload_capacity, stats.mean_rows,
                       stats.padding_share),
        stats.expired);
  }

  /// Ends all calls and gives the memory back, once the last call has left.
  void release() {
    std::shared_ptr<Core> buffer;
    {
      const auto lock = lock_pointer();
      // In a forked child the destructor leaves the parent's buffer alone.
      if (buffer_ && buffer_->of_this_process()) released_ = buffer_;
      buffer.swap(buffer_);
    }
    if (!buffer || !buffer->of_this_process()) return;
    const GilRelease released;
    buffer->shut_down();
    buffer.reset();
  }

  std::unique_ptr<RecordSink> sink() const {
    std::shared_ptr<Core> buffer = hold();
    if (!buffer) throw std::invalid_argument("the buffer was released");
    return std::make_unique<RecordSinkOf<Core>>(std::move(buffer));
  }

  /// After release(): whether the last call has left, so that the memory is given back.
  bool gone() const {
    const auto lock = lock_pointer();
    return released_.expired();
  }
  // NOLINTEND(modernize-use-override)

 protected:
  /// The buffer, kept alive for a call; empty after release().
  std::shared_ptr<Core> hold() const {
    const auto lock = lock_pointer();
    return buffer_;
  }

  /// The same while the GIL is kept, without a count of who holds it.
#ifdef Py_GIL_DISABLED
  std::shared_ptr<Core> peek() const { return hold(); }
#else
  const std::shared_ptr<Core>& peek() const { return buffer_; }
#endif

  /// 0 if a call may go on, else the code that ends it.
  static int refuse(const std::shared_ptr<Core>& buffer) {
    if (!buffer) return kLeft;
    return buffer->of_this_process() ? 0 : kForked;
  }

  /// Of so many examples; none where there is another number of them.
  static std::optional<std::vector<std::int64_t>> versions_of(py::handle version,
                                                              std::uint64_t n) {
    if (PyLong_Check(version.ptr()))
      return std::vector<std::int64_t>(n, version.cast<std::int64_t>());
    const auto array = version.cast<py::array_t<std::int64_t, py::array::c_style>>();
    if (array.ndim() != 1 || static_cast<std::uint64_t>(array.size()) != n)
      return std::nullopt;
    return std::vector<std::int64_t>(array.data(), array.data() + n);
  }

  /// Runs `put`, which counts in `done`. None, or a tuple of a code and that.
  template <class Put>
  static py::object run_put(Core& buffer, bool brief, std::optional<double> timeout_s,
                            const std::uint64_t& done, Put&& put) {
    const Status status =
        run(Does::kOther, brief, true, timeout_s, std::forward<Put>(put),
            [&, seen = done]() mutable {
              const bool moved = std::exchange(seen, done) != done;
              return Core::kUploads && (moved || buffer.puts_wait_for_upload());
            });
    if (status == Status::kOk) return py::none();
    if (status == Status::kClosed && buffer.is_down())
      return py::make_tuple(kLeft, done);
    if (status == Status::kInterrupted) {
      py::error_already_set error;
      error.value().attr("accepted") = done;
      throw error;
    }
    return py::make_tuple(code(status), done);
  }

  Leaves leaves_;
  const Leaves output_;

 private:
  /// Finds the arrays of a tree, and adds what it carries to the object that `carried`
  /// refers to. False if Python must look at it.
  bool bind_tree(const py::object& tree, bool stacked, py::handle carried,
                 HeldLeaves& arrays, Sources& sources) {
    HeldLeaves objects;
    if (!structure_->flatten(tree.ptr(), arrays, objects)) return false;
    if (leaves_.bind(arrays.data(), Form::kYielded, stacked, sources) != arrays.size())
      return false;
    if (carried.is_none()) return true;
    const py::object table = referent(carried.ptr());
    return !table || self_of<CarriedObjects>(table.ptr())
                         .add(objects, stacked ? sources.n : sources.rows, stacked);
  }

  /// Puts a small example on the host, if it has room. The GIL is kept.
  bool put_at_once(std::optional<std::uint64_t> term, const Sources& sources) try {
    const auto& buffer = peek();
    if (Core::kUploads || !buffer || buffer->record().stride() > kKeepGil ||
        sources.payload > kKeepGil)
      return false;
    std::uint64_t done = 0;
    return buffer->put(term.value_or(buffer->term()), sources.leaves.data(), 1,
                       sources.rows, done, kAtOnce, nullptr) == Status::kOk;
  } catch (const std::bad_alloc&) {
    return false;
  }

  py::object put_bound(Core& buffer, std::uint64_t term, const Sources& sources,
                       std::optional<double> timeout_s, py::handle version) {
    std::uint64_t done = 0;
    std::optional<std::vector<std::int64_t>> versions;
    if (!version.is_none()) {
      versions = versions_of(version, sources.n);
      if (!versions) return py::make_tuple(kVersions, sources.n);
    }
    const bool brief =
        sources.n <= kKeepGil / buffer.record().stride() && sources.payload <= kKeepGil;
    const SourceLeaf* const leaves = sources.leaves.data();
    const std::int64_t* const each = versions ? versions->data() : nullptr;
    return run_put(buffer, brief, timeout_s, done,
                   [&](const WaitLimit& wait_limit, Poll* poll) {
                     // A server's ring has none.
                     if constexpr (requires {
                                     buffer.put(term, leaves, sources.n, sources.rows,
                                                done, wait_limit, poll, each);
                                   })
                       return buffer.put(term, leaves, sources.n, sources.rows, done,
                                         wait_limit, poll, each);
                     else
                       return buffer.put(term, leaves, sources.n, sources.rows, done,
                                         wait_limit, poll);
                   });
  }

  /// Guards `buffer_` and `released_` where the GIL does not.
#ifdef Py_GIL_DISABLED
  std::unique_lock<std::mutex> lock_pointer() const {
    std::unique_lock lock(holding_, std::defer_lock);
    // In a forked child there is one thread, and another may have had the lock.
    if (generation_ == fork_generation()) lock.lock();
    return lock;
  }
  const std::uint32_t generation_ = fork_generation();
  mutable std::mutex holding_;
#else
  struct WithGil {
    // Not trivial: a variable of it counts as used.
    ~WithGil() {}  // NOLINT(modernize-use-equals-default)
  };
  static WithGil lock_pointer() { return {}; }
#endif

  std::shared_ptr<const Structure> structure_;
  std::shared_ptr<Core> buffer_;  // empty after release()
  std::weak_ptr<Core> released_;
};

}  // namespace echobuf::python
