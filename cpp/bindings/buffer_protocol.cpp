#include "buffer_protocol.hpp"

#include <bit>
#include <cstring>

namespace echobuf::python {
namespace {

/// The code of DLPack's for the item that `format` describes (`struct`'s syntax, and
/// NumPy's for complex numbers); none for all others, and for the other byte order.
std::optional<std::uint8_t> code_of(const char* format) {
  if (format == nullptr) return kDlpackUnsigned;  // bytes
  constexpr bool kLittle = std::endian::native == std::endian::little;
  if (*format == '@' || *format == '=' || *format == (kLittle ? '<' : '>')) ++format;
  const bool is_complex = *format == 'Z';
  if (is_complex) ++format;
  if (*format == '\0' || format[1] != '\0') return std::nullopt;
  if (is_complex) {
    if (std::strchr("fd", *format) == nullptr) return std::nullopt;
    return kDlpackComplex;
  }
  if (*format == '?') return kDlpackBool;
  if (std::strchr("efd", *format) != nullptr) return kDlpackFloat;
  if (std::strchr("bhilqn", *format) != nullptr) return kDlpackSigned;
  if (std::strchr("BHILQN", *format) != nullptr) return kDlpackUnsigned;
  return std::nullopt;
}

}  // namespace

std::optional<ImportedBuffer> ImportedBuffer::of(PyObject* item,
                                                 const DlpackType& wanted) {
  if (!PyObject_CheckBuffer(item) || PyBytes_Check(item)) return std::nullopt;
  auto buffer = std::make_unique<Py_buffer>();
  if (PyObject_GetBuffer(item, buffer.get(), PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
    PyErr_Clear();  // who asks it from Python gets its message
    return std::nullopt;
  }
  Held held(buffer.release());
  if (code_of(held->format) != wanted.code || held->itemsize * 8 != wanted.bits)
    return std::nullopt;
  return ImportedBuffer(std::move(held));
}

ArrayView ImportedBuffer::view() const {
  return {static_cast<const std::byte*>(buffer_->buf),
          buffer_->ndim,
          buffer_->shape,
          buffer_->strides,
          1,
          buffer_->itemsize};
}

}  // namespace echobuf::python
