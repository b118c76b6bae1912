// Registers the pool of workers whose examples enter the ring as they arrive.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "any_worker_pool.hpp"
#include "device_buffer.hpp"
#include "echobuf/shared/arrival_pool.hpp"
#include "host_buffer.hpp"
#include "ragged_buffer.hpp"
#include "ragged_device_buffer.hpp"
#include "register.hpp"
#include "waiting.hpp"

namespace py = pybind11;

namespace {

namespace workers = echobuf::workers;
using echobuf::python::AnyWorkerPool;
using echobuf::python::Counts;
using echobuf::python::Does;

/// ArrivalPool as Python has it, for buffers of all kinds.
class BoundArrivalPool : public AnyWorkerPool {
 public:
  using Pool = workers::ArrivalPool;

  /// `differ`: examples differ in length.
  template <class Core, bool differ>
  BoundArrivalPool(std::shared_ptr<Core> buffer, std::bool_constant<differ>,
                   std::uint64_t workers, std::uint64_t ahead, std::uint64_t keep)
      : buffer_(buffer),
        of_this_process_([core = buffer.get()] { return core->of_this_process(); }),
        term_([core = buffer.get()] { return core->term(); }) {
    using workers::ArrivalRows, workers::ArrivalSlots;
    if constexpr (differ) {
      pool_ =
          std::make_unique<Pool>(std::make_unique<ArrivalRows<Core>>(buffer), workers,
                                 ahead, keep, areas_for(*buffer, workers, ahead));
      memory_ = &pool_->areas()->areas.memory();
    } else {
      memory_ = buffer->shared_memory();
      if (!memory_) throw std::invalid_argument("the buffer's slots are not shared");
      pool_ = std::make_unique<Pool>(std::make_unique<ArrivalSlots<Core>>(buffer),
                                     workers, ahead, keep, nullptr);
    }
  }

  /// In a forked child there is no collector thread to be joined.
  ~BoundArrivalPool() override {
    if (!of_this_process_()) {
      static_cast<void>(pool_.release());  // NOLINT: the parent's
      return;
    }
    const echobuf::python::GilRelease released;
    pool_.reset();
    buffer_.reset();
  }

  int control_block_fd() const override { return pool_->control_block().fd(); }
  int memory_fd() const override { return memory_->fd(); }
  std::uint64_t term() const override { return term_(); }

  void begin(std::uint64_t term, std::uint64_t ordered) { pool_->begin(term, ordered); }

  py::tuple submit(std::uint64_t term, const Indices& indices,
                   std::uint64_t submitted) override {
    const auto n = static_cast<std::uint64_t>(indices.size());
    const std::int64_t* data = indices.data();
    const echobuf::Status status = echobuf::python::run(
        Does::kOther, true, true, std::nullopt,
        [&](const echobuf::WaitLimit& wait_limit, echobuf::Poll*) {
          return pool_->submit(term, data, n, submitted, wait_limit.end);
        },
        [] { return false; });
    return py::make_tuple(echobuf::python::code(status), submitted);
  }

  bool wait_committed(const Counts& counts, double timeout_s) override {
    const std::uint64_t count = of(counts);
    const echobuf::Status status = echobuf::python::run(
        Does::kOther, false, true, timeout_s,
        [&](const echobuf::WaitLimit& wait_limit, echobuf::Poll*) {
          return pool_->wait_committed(count, wait_limit.end);
        },
        [] { return false; });
    if (status == echobuf::Status::kInterrupted) throw py::error_already_set();
    return status == echobuf::Status::kOk;
  }

  /// One count: the items are of all workers.
  Counts submitted() const override { return {pool_->submitted()}; }
  void revoke(std::uint64_t term, const Counts& counts) override {
    const std::uint64_t count = of(counts);
    const echobuf::python::GilRelease released;
    pool_->revoke(term, count);
  }
  void abandon(std::uint64_t term) override {
    if (!of_this_process_()) return;
    const echobuf::python::GilRelease released;
    pool_->abandon(term);
  }
  void reap(std::uint64_t queue) override {
    check(queue);
    const echobuf::python::GilRelease released;
    pool_->reap(queue);
  }
  bool is_wanted(std::uint64_t, std::uint64_t ticket) const override {
    return pool_->is_wanted(ticket);
  }
  void close() override { pool_->close(); }
  std::uint64_t outstanding(std::uint64_t queue) const override {
    return making(queue) ? 1 : 0;
  }
  std::optional<std::int64_t> making(std::uint64_t queue) const override {
    return pool_->making(queue);
  }

  /// Returns the items that have entered, from entry `from` of a term on; those that
  /// have not, before one that has; and the first behind all of them. None of a term
  /// that was not begun.
  py::object entered(std::uint64_t term, std::uint64_t from) const {
    const auto found = pool_->entered(term, from);
    if (!found) return py::none();
    return py::make_tuple(found->first.order, found->first.missing, found->second);
  }

  py::object sizes() const {
    const workers::ArrivalAreas* areas = pool_->areas();
    if (!areas) return py::none();
    return py::make_tuple(areas->areas.sizes().usual, areas->areas.sizes().all,
                          areas->record.most());
  }

 private:
  static std::uint64_t of(const Counts& counts) {
    if (counts.size() != 1) throw std::invalid_argument("there must be one count");
    return counts.front();
  }
  void check(std::uint64_t queue) const {
    if (queue >= pool_->control_block().queues())
      throw std::invalid_argument("there is no such worker");
  }

  template <class Core>
  static std::unique_ptr<workers::ArrivalAreas> areas_for(const Core& buffer,
                                                          std::uint64_t workers,
                                                          std::uint64_t ahead) {
    const echobuf::BufferOptions& options = buffer.options();
    workers::AreaRecord record(echobuf::record_of(options), options.lengths.fields,
                               buffer.most_bytes());
    const workers::AreaSizes sizes = record.sizes(workers::mean_bytes(options), ahead);
    return std::unique_ptr<workers::ArrivalAreas>(
        new workers::ArrivalAreas{std::move(record), {workers, sizes}});
  }

  std::shared_ptr<void> buffer_;
  const std::function<bool()> of_this_process_;
  const std::function<std::uint64_t()> term_;
  std::unique_ptr<Pool> pool_;
  const echobuf::SharedMemory* memory_ = nullptr;
};

/// Registers a way to make an ArrivalPool for a kind of buffer.
template <class Bound, class Core, bool differ>
void register_arrivals(py::class_<BoundArrivalPool, AnyWorkerPool>& pool) {
  pool.def(py::init([](const Bound& buffer, std::uint64_t workers, std::uint64_t ahead,
                       std::uint64_t keep) {
             std::shared_ptr<Core> core = echobuf::python::core_of(buffer);
             if (!core) throw std::invalid_argument("the buffer was released");
             return std::make_unique<BoundArrivalPool>(
                 std::move(core), std::bool_constant<differ>{}, workers, ahead, keep);
           }),
           py::arg("buffer"), py::arg("workers"), py::arg("ahead"), py::arg("keep"));
}

}  // namespace

void register_arrivals(py::module_& m) {
  using RaggedOnDevice = echobuf::BasicBuffer<echobuf::cuda::DevicePayloadBackend>;
  using PackingOnDevice = echobuf::BasicBuffer<echobuf::cuda::DevicePackingBackend>;
  auto arrivals = py::class_<BoundArrivalPool, AnyWorkerPool>(m, "ArrivalPool");
  arrivals.def("begin", &BoundArrivalPool::begin)
      .def("entered", &BoundArrivalPool::entered)
      .def("sizes", &BoundArrivalPool::sizes);
  register_arrivals<echobuf::python::HostBuffer, echobuf::Buffer, false>(arrivals);
  register_arrivals<echobuf::python::DeviceBuffer, echobuf::python::DeviceCore, false>(
      arrivals);
  register_arrivals<echobuf::python::RaggedHostBuffer<echobuf::RaggedBuffer>,
                    echobuf::RaggedBuffer, true>(arrivals);
  register_arrivals<echobuf::python::RaggedHostBuffer<echobuf::PackingBuffer>,
                    echobuf::PackingBuffer, true>(arrivals);
  register_arrivals<echobuf::python::RaggedDeviceBuffer<RaggedOnDevice>, RaggedOnDevice,
                    true>(arrivals);
  register_arrivals<echobuf::python::RaggedDeviceBuffer<PackingOnDevice>,
                    PackingOnDevice, true>(arrivals);
}
