// Losses on a device, as Python reports them to its buffers.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "bound_buffer.hpp"
#include "echobuf/cuda/loss_reports.hpp"

namespace echobuf::python {

/// A buffer on a device, whose passes may go by losses. These calls are for one whose
/// passes do; for others they return kMismatch.
template <class Core>
class ReportingBuffer : public BoundBuffer<Core> {
  using Bound = BoundBuffer<Core>;

 public:
  using Bound::Bound;

  /// Reports the losses at an address, in a type of LossType, of `count` records, or
  /// one for all, once what is on `stream` has computed them. Returns a code.
  int report_at(std::uintptr_t records, std::uintptr_t losses, int type,
                std::size_t count, bool one_for_all, std::uintptr_t stream) {
    return with_reports([&](cuda::LossReports& reports) {
      const bool reported = reports.report(
          {records, losses, static_cast<cuda::LossType>(type), count, one_for_all},
          reinterpret_cast<cuda::StreamHandle>(stream));
      return reported ? 0 : code(Status::kCapturing);
    });
  }

  /// Reports losses of a checkpoint, which count after so many batches. Returns a code.
  int report_late(std::uint64_t batches, const py::array_t<std::int64_t>& records,
                  const py::array_t<float>& losses) {
    return with_reports([&](cuda::LossReports& reports) {
      reports.report({batches, vector_of(records), vector_of(losses)});
      return 0;
    });
  }

  /// Waits for the losses that do not count yet. Returns them, each as report_late()
  /// takes it, or a code.
  py::object pending_reports() {
    std::vector<cuda::HostLosses> all;
    const int refused = with_reports([&](cuda::LossReports& reports) {
      const GilRelease released;
      all = reports.pending();
      return 0;
    });
    if (refused) return py::int_(refused);
    py::list pending;
    for (const cuda::HostLosses& each : all)
      pending.append(
          py::make_tuple(each.batches, array_of(each.records), array_of(each.losses)));
    return pending;
  }

 private:
  template <class Use>
  int with_reports(Use&& use) {
    const std::shared_ptr<Core> buffer = this->hold();
    if (const int refused = Bound::refuse(buffer)) return refused;
    cuda::LossReports* const reports = buffer->backend().reports();
    return reports ? std::forward<Use>(use)(*reports) : kMismatch;
  }

  template <class T>
  static std::vector<T> vector_of(const py::array_t<T>& array) {
    return {array.data(), array.data() + array.size()};
  }
  template <class T>
  static py::array_t<T> array_of(const std::vector<T>& values) {
    return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
  }
};

/// Registers its methods.
template <class Bound>
void register_reports(py::class_<Bound, AnyBuffer>& bound) {
  bound.def("report_at", &Bound::report_at)
      .def("report_late", &Bound::report_late, py::arg("batches"),
           py::arg("records").noconvert(), py::arg("losses").noconvert())
      .def("pending_reports", &Bound::pending_reports);
}

}  // namespace echobuf::python
