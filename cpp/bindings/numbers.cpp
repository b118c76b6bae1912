#include "numbers.hpp"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

namespace echobuf::python {
namespace {

template <class T>
bool write(T value, NumberBytes& bytes) {
  static_assert(sizeof(T) <= sizeof(NumberBytes));
  std::memcpy(bytes.data(), &value, sizeof(T));
  return true;
}

bool write_bool(PyObject* number, NumberBytes& bytes) {
  return PyBool_Check(number) && write<std::uint8_t>(number == Py_True, bytes);
}

template <class T>
bool write_integer(PyObject* number, NumberBytes& bytes) {
  if (!PyLong_CheckExact(number)) return false;
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow == 0)
    return std::in_range<T>(value) && write(static_cast<T>(value), bytes);
  if (sizeof(T) < sizeof(std::uint64_t) || std::in_range<T>(-1) || overflow < 0)
    return false;
  const unsigned long long large = PyLong_AsUnsignedLongLong(number);
  if (large == static_cast<unsigned long long>(-1) && PyErr_Occurred()) {
    PyErr_Clear();
    return false;
  }
  return write(static_cast<T>(large), bytes);
}

/// Returns whether `value`, rounded to `T`, is still what it was, and not infinite.
template <class T>
bool holds(double value) {
  return std::isfinite(static_cast<T>(value)) || !std::isfinite(value);
}

template <class T>
bool write_float(PyObject* number, NumberBytes& bytes) {
  if (!PyFloat_CheckExact(number)) return false;
  const double value = PyFloat_AS_DOUBLE(number);
  return holds<T>(value) && write(static_cast<T>(value), bytes);
}

template <class T>
bool write_complex(PyObject* number, NumberBytes& bytes) {
  if (!PyComplex_CheckExact(number)) return false;
  const Py_complex value = PyComplex_AsCComplex(number);
  const std::array<T, 2> parts{static_cast<T>(value.real), static_cast<T>(value.imag)};
  return holds<T>(value.real) && holds<T>(value.imag) && write(parts, bytes);
}

}  // namespace

WriteNumber writer_of_numbers(const py::dtype& dtype) {
  const py::ssize_t size = dtype.itemsize();
  // '|': of one byte; '=': the machine's order.
  const char order = dtype.byteorder();
  if (order != '=' && order != '|') return nullptr;
  switch (dtype.kind()) {
    case 'b':
      return write_bool;
    case 'i':
      return size == 1   ? write_integer<std::int8_t>
             : size == 2 ? write_integer<std::int16_t>
             : size == 4 ? write_integer<std::int32_t>
                         : write_integer<std::int64_t>;
    case 'u':
      return size == 1   ? write_integer<std::uint8_t>
             : size == 2 ? write_integer<std::uint16_t>
             : size == 4 ? write_integer<std::uint32_t>
                         : write_integer<std::uint64_t>;
    case 'f':
      return size == 4 ? write_float<float> : size == 8 ? write_float<double> : nullptr;
    case 'c':
      return size == 8    ? write_complex<float>
             : size == 16 ? write_complex<double>
                          : nullptr;
    default:
      return nullptr;
  }
}

}  // namespace echobuf::python
