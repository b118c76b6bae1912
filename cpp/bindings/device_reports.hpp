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
  /// one for all, once what is on `stream` has computed them. `owners`: of their
  /// memory, which live until then. Returns a code.
  int report_at(std::uintptr_t records, std::uintptr_t losses, int type,
                std::size_t count, bool one_for_all, std::uintptr_t stream,
                const py::object& /*owners*/) {
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

/// Says where two arrays of NumPy lie, as report_at() takes them, if they have no gaps:
/// int64 `[n]`, and numbers of a LossType, `[n]` or one. Returns the objects that own
/// their memory, their addresses, the type, n, and whether there is one loss; else
/// None.
inline py::object loss_vectors(const py::object& index, const py::object& loss) {
  if (!py::isinstance<py::array>(index) || !py::isinstance<py::array>(loss))
    return py::none();
  const py::array arrays[] = {py::reinterpret_borrow<py::array>(index),
                              py::reinterpret_borrow<py::array>(loss)};
  const bool is_one = arrays[1].ndim() == 0;
  for (const py::array& each : arrays)
    if ((each.flags() & py::array::c_style) == 0 || each.dtype().byteorder() != '=')
      return py::none();
  if (arrays[0].ndim() != 1 || arrays[0].dtype().kind() != 'i' ||
      arrays[0].itemsize() != sizeof(std::int64_t) || arrays[1].dtype().kind() != 'f' ||
      (!is_one && (arrays[1].ndim() != 1 || arrays[1].shape(0) != arrays[0].shape(0))))
    return py::none();
  cuda::LossType type = cuda::LossType::kHalf;
  if (arrays[1].itemsize() == sizeof(float)) type = cuda::LossType::kFloat;
  if (arrays[1].itemsize() == sizeof(double)) type = cuda::LossType::kDouble;
  if (static_cast<std::size_t>(arrays[1].itemsize()) != cuda::bytes_of(type))
    return py::none();
  const auto owner = [](const py::array& array) -> py::object {
    py::object base = array;
    while (py::isinstance<py::array>(base))
      base = py::reinterpret_borrow<py::array>(base).base();
    return base ? base : py::none();
  };
  return py::make_tuple(owner(arrays[0]), owner(arrays[1]),
                        reinterpret_cast<std::uintptr_t>(arrays[0].data()),
                        reinterpret_cast<std::uintptr_t>(arrays[1].data()),
                        static_cast<int>(type), arrays[0].shape(0), is_one);
}

/// Registers its methods.
template <class Bound>
void register_reports(py::class_<Bound, AnyBuffer>& bound) {
  bound.def("report_at", &Bound::report_at)
      .def("report_late", &Bound::report_late, py::arg("batches"),
           py::arg("records").noconvert(), py::arg("losses").noconvert())
      .def("pending_reports", &Bound::pending_reports);
}

}  // namespace echobuf::python
