#include <poll.h>
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "any_worker_pool.hpp"
#include "device_buffer.hpp"
#include "echobuf/process.hpp"
#include "echobuf/shared/rows_delivery.hpp"
#include "echobuf/shared/rows_worker.hpp"
#include "echobuf/shared/worker.hpp"
#include "echobuf/shared/worker_pool.hpp"
#include "host_buffer.hpp"
#include "leaves.hpp"
#include "ragged_buffer.hpp"
#include "ragged_device_buffer.hpp"
#include "register.hpp"
#include "shared_ring.hpp"
#include "waiting.hpp"

namespace py = pybind11;

namespace {

using echobuf::Deadline;
using echobuf::Poll;
using echobuf::Status;
using echobuf::WaitLimit;
using echobuf::python::AnyWorkerPool;
using echobuf::python::code;
using echobuf::python::core_of;
using echobuf::python::Counts;
using echobuf::python::Does;

constexpr auto kNever = [] { return false; };

/// Ends this process once one of `fds` is readable: on a thread that needs no GIL,
/// which native code of a dataset may keep for ever.
void exit_when_readable(const std::vector<int>& fds, int code) {
  std::thread([fds, code] {
    std::vector<pollfd> each;
    each.reserve(fds.size());
    for (const int fd : fds) each.push_back({fd, POLLIN, 0});
    while (poll(each.data(), each.size(), -1) <= 0) {
    }
    _exit(code);
  }).detach();
}

using echobuf::workers::RowsDelivery;
using echobuf::workers::SlotDelivery;

/// WorkerPool as Python has it. `Core`: a BasicBuffer, or a SharedRing.
template <class Core, class Delivery>
class BoundWorkerPool : public AnyWorkerPool {
 public:
  BoundWorkerPool(std::shared_ptr<Core> buffer, std::uint64_t workers,
                  std::uint64_t ahead)
      : buffer_(std::move(buffer)) {
    if (!buffer_) throw std::invalid_argument("the buffer was released");
    pool_ = std::make_unique<WorkerPool>(buffer_, workers, ahead);
    if (!delivery().memory())
      throw std::invalid_argument("the buffer's slots are not shared");
  }

  /// In a forked child there is no collector thread to be joined.
  ~BoundWorkerPool() override {
    if (!buffer_->of_this_process()) {
      static_cast<void>(pool_.release());  // NOLINT: the parent's
      return;
    }
    const echobuf::python::GilRelease released;
    pool_.reset();
    buffer_.reset();
  }

  int control_block_fd() const override { return pool_->control_block().fd(); }
  /// Of the memory that workers write examples into.
  int memory_fd() const override { return delivery().memory()->fd(); }
  const Delivery& delivery() const { return pool_->delivery(); }
  std::uint64_t term() const override { return buffer_->term(); }

  /// Returns a code, and how many of `indices` have been submitted so far.
  py::tuple submit(std::uint64_t term, const Indices& indices,
                   std::uint64_t submitted) override {
    const auto n = static_cast<std::uint64_t>(indices.size());
    const std::int64_t* data = indices.data();
    const Status status = echobuf::python::run(
        Does::kOther, true, true, std::nullopt,
        [&](const WaitLimit& wait_limit, Poll*) {
          return pool_->submit(term, data, n, submitted, wait_limit.end);
        },
        kNever);
    return py::make_tuple(code(status), submitted);
  }

  /// Returns true once all tickets up to `counts` are committed, false after the time.
  bool wait_committed(const Counts& counts, double timeout_s) override {
    check(counts);
    const Status status = echobuf::python::run(
        Does::kOther, false, true, timeout_s,
        [&](const WaitLimit& wait_limit, Poll*) {
          return pool_->wait_committed(counts, wait_limit.end);
        },
        kNever);
    if (status == Status::kInterrupted) throw py::error_already_set();
    return status == Status::kOk;
  }

  Counts submitted() const override { return pool_->submitted(); }
  void revoke(std::uint64_t term, const Counts& counts) override {
    check(counts);
    const echobuf::python::GilRelease
        released;  // a draw that it waits for may need the GIL
    pool_->revoke(term, counts);
  }
  /// Does nothing in a forked child: the term is the parent's.
  void abandon(std::uint64_t term) override {
    if (!buffer_->of_this_process()) return;
    const echobuf::python::GilRelease released;
    pool_->abandon(term);
  }
  void reap(std::uint64_t queue) override { pool_->reap(queue); }
  bool is_wanted(std::uint64_t queue, std::uint64_t ticket) const override {
    return pool_->is_wanted(queue, ticket);
  }
  void close() override { pool_->close(); }
  std::uint64_t outstanding(std::uint64_t queue) const override {
    return pool_->outstanding(queue);
  }
  std::optional<std::int64_t> making(std::uint64_t queue) const override {
    return pool_->making(queue);
  }

 private:
  using WorkerPool = echobuf::workers::WorkerPool<Core, Delivery>;

  void check(const Counts& counts) const {
    if (counts.size() != pool_->control_block().queues())
      throw std::invalid_argument("there must be one count for each worker");
  }

  std::shared_ptr<Core> buffer_;
  std::unique_ptr<WorkerPool> pool_;
};

/// A worker as Python has it. `Native`: a Worker, or a RowsWorker.
template <class Native>
class BoundQueueWorker {
 public:
  /// `memory...`: where examples are written, and what `Native` knows of it.
  template <class... Memory>
  BoundQueueWorker(int control_block, std::uint64_t queues, std::uint64_t queue,
                   echobuf::python::Leaves leaves, Memory&&... memory)
      : leaves_(std::move(leaves)),
        worker_(control_block, queues, queue, std::forward<Memory>(memory)...) {}

  /// Returns a code, and the index of the example to make.
  py::tuple take(double timeout_s) {
    std::int64_t index = 0;
    const int status = wait(
        timeout_s, [&](Deadline deadline) { return worker_.take(index, deadline); });
    return py::make_tuple(status, index);
  }

  int wait_revoked(double timeout_s) {
    return wait(timeout_s,
                [&](Deadline deadline) { return worker_.wait_revoked(deadline); });
  }

  /// Writes the leaves of the example; returns the index of one that does not fit.
  std::optional<std::size_t> write(const py::list& arrays) {
    echobuf::python::Sources sources;
    if (const auto leaf = leaves_.bind(arrays, false, sources)) return leaf;
    const echobuf::python::GilRelease released;
    Status status = Status::kTimeout;  // until there is room, or nobody wants it
    while (status == Status::kTimeout)
      status = worker_.write(sources.leaves.data(), echobuf::Clock::now() + kSecond);
    return std::nullopt;
  }

  std::uint64_t ticket() const { return worker_.id(); }
  void done() { worker_.done(); }

 private:
  template <class Call>
  int wait(double timeout_s, Call&& call) {
    const Status status = echobuf::python::run(
        Does::kOther, true, true, timeout_s,
        [&](const WaitLimit& wait_limit, Poll*) { return call(wait_limit.end); },
        kNever);
    if (status == Status::kInterrupted) throw py::error_already_set();
    return code(status);
  }

  static constexpr std::chrono::seconds kSecond{1};

  const echobuf::python::Leaves leaves_;
  Native worker_;
};

using BoundWorker = BoundQueueWorker<echobuf::workers::Worker>;
using BoundRowsWorker = BoundQueueWorker<echobuf::workers::RowsWorker>;

std::unique_ptr<BoundWorker> make_worker(int control_block, std::uint64_t queues,
                                         std::uint64_t queue, int slots,
                                         const py::list& leaves,
                                         std::uint64_t capacity) {
  const echobuf::python::Leaves own(leaves, false);
  return std::make_unique<BoundWorker>(control_block, queues, queue, own, slots,
                                       echobuf::RecordLayout(own.fields(), false),
                                       capacity);
}

/// `usual`, `all`: the sizes of an area; `most`: bytes of the rows of an example.
std::unique_ptr<BoundRowsWorker> make_rows_worker(
    int control_block, std::uint64_t queues, std::uint64_t queue, int areas,
    const py::list& leaves,
    const std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>& sizes,
    const std::vector<std::uint64_t>& max_lengths, std::uint64_t pack_to, bool cut) {
  const auto [usual, all, most] = sizes;
  echobuf::LengthOptions lengths;
  lengths.fields = echobuf::python::ragged_fields(leaves, max_lengths, {});
  lengths.pack_to = pack_to;
  lengths.cut = cut;
  echobuf::python::Leaves own(leaves, false);
  own.limit(lengths, most);
  return std::make_unique<BoundRowsWorker>(
      control_block, queues, queue, own, areas, echobuf::workers::AreaSizes{usual, all},
      echobuf::workers::AreaRecord({own.fields(), false}, lengths.fields, most));
}

template <class Bound>
void register_worker(py::class_<Bound>& worker) {
  worker.def("take", &Bound::take)
      .def("wait_revoked", &Bound::wait_revoked)
      .def("write", &Bound::write)
      .def("ticket", &Bound::ticket)
      .def("done", &Bound::done);
}

/// Registers WorkerPool for a kind of buffer. `Bound`: the buffer's Python class.
template <class Bound, class Core, class Delivery = SlotDelivery<Core>>
void register_pool(py::module_& m, const char* name) {
  using WorkerPool = BoundWorkerPool<Core, Delivery>;
  auto pool = py::class_<WorkerPool, AnyWorkerPool>(m, name);
  pool.def(
      py::init([](const Bound& buffer, std::uint64_t workers, std::uint64_t ahead) {
        return std::make_unique<WorkerPool>(core_of(buffer), workers, ahead);
      }),
      py::arg("buffer"), py::arg("workers"), py::arg("ahead"));
  if constexpr (std::is_same_v<Delivery, RowsDelivery<Core>>)
    pool.def("sizes", [](const WorkerPool& of) {
      const Delivery& delivery = of.delivery();
      return py::make_tuple(delivery.sizes().usual, delivery.sizes().all,
                            delivery.most());
    });
}

/// Registers WorkerPool for buffers of examples that differ in length.
template <class Bound, class Core>
void register_rows_pool(py::module_& m, const char* name) {
  register_pool<Bound, Core, RowsDelivery<Core>>(m, name);
}

}  // namespace

void register_workers(py::module_& m) {
  m.def("exit_when_readable", &exit_when_readable);

  py::class_<AnyWorkerPool>(m, "_WorkerPool")
      .def("control_block_fd", &AnyWorkerPool::control_block_fd)
      .def("memory_fd", &AnyWorkerPool::memory_fd)
      .def("term", &AnyWorkerPool::term)
      .def("submit", &AnyWorkerPool::submit, py::arg("term"), py::arg("indices"),
           py::arg("submitted"))
      .def("submitted", &AnyWorkerPool::submitted)
      .def("wait_committed", &AnyWorkerPool::wait_committed)
      .def("revoke", &AnyWorkerPool::revoke)
      .def("abandon", &AnyWorkerPool::abandon)
      .def("reap", &AnyWorkerPool::reap)
      .def("is_wanted", &AnyWorkerPool::is_wanted)
      .def("close", &AnyWorkerPool::close)
      .def("outstanding", &AnyWorkerPool::outstanding)
      .def("making", &AnyWorkerPool::making);
  register_arrivals(m);
  register_pool<echobuf::python::HostBuffer, echobuf::Buffer>(m, "WorkerPool");
  register_pool<echobuf::python::SharedRingOfOne, echobuf::serve::SharedRing>(
      m, "RingWorkerPool");
  register_pool<echobuf::python::DeviceBuffer, echobuf::python::DeviceCore>(
      m, "DeviceWorkerPool");

  register_rows_pool<echobuf::python::RaggedHostBuffer<echobuf::RaggedBuffer>,
                     echobuf::RaggedBuffer>(m, "RaggedWorkerPool");
  register_rows_pool<echobuf::python::RaggedHostBuffer<echobuf::PackingBuffer>,
                     echobuf::PackingBuffer>(m, "PackingWorkerPool");
  register_rows_pool<echobuf::python::RaggedSharedRing,
                     echobuf::serve::PayloadSharedRing>(m, "RaggedRingWorkerPool");
  using RaggedOnDevice = echobuf::BasicBuffer<echobuf::cuda::DevicePayloadBackend>;
  register_rows_pool<echobuf::python::RaggedDeviceBuffer<RaggedOnDevice>,
                     RaggedOnDevice>(m, "RaggedDeviceWorkerPool");
  using PackingOnDevice = echobuf::BasicBuffer<echobuf::cuda::DevicePackingBackend>;
  register_rows_pool<echobuf::python::RaggedDeviceBuffer<PackingOnDevice>,
                     PackingOnDevice>(m, "PackingDeviceWorkerPool");

  auto worker = py::class_<BoundWorker>(m, "Worker");
  worker.def(py::init(&make_worker), py::arg("control_block"), py::arg("queues"),
             py::arg("queue"), py::arg("slots"), py::arg("leaves"),
             py::arg("capacity"));
  register_worker(worker);
  auto rows_worker = py::class_<BoundRowsWorker>(m, "RowsWorker");
  rows_worker.def(py::init(&make_rows_worker), py::arg("control_block"),
                  py::arg("queues"), py::arg("queue"), py::arg("areas"),
                  py::arg("leaves"), py::arg("sizes"), py::arg("max_lengths"),
                  py::arg("pack_to"), py::arg("cut"));
  register_worker(rows_worker);
}
