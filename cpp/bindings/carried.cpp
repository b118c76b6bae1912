#include "carried.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

namespace echobuf::python {
namespace {

constexpr std::uint64_t kSlots = 64;  // of a table that is new: a power of two

/// A list or a tuple, and no class of the caller's.
bool is_plain_sequence(PyObject* leaf) {
  return PyList_CheckExact(leaf) || PyTuple_CheckExact(leaf);
}

/// Of a batch's leaf, whether it has one object for each of `n` examples.
bool is_split(PyObject* leaf, std::uint64_t n) {
  return is_plain_sequence(leaf) &&
         static_cast<std::uint64_t>(PySequence_Fast_GET_SIZE(leaf)) == n;
}

/// A list with the object of each of `n` examples.
py::object spread(PyObject* leaf, std::uint64_t n) {
  if (is_split(leaf, n)) return checked(PySequence_List(leaf));
  py::object list = checked(PyList_New(static_cast<py::ssize_t>(n)));
  for (std::uint64_t i = 0; i < n; ++i)
    PyList_SET_ITEM(list.ptr(), static_cast<py::ssize_t>(i), Py_NewRef(leaf));
  return list;
}

py::object list_of_none(std::uint64_t count) {
  py::object list = checked(PyList_New(static_cast<py::ssize_t>(count)));
  for (std::uint64_t i = 0; i < count; ++i)
    PyList_SET_ITEM(list.ptr(), static_cast<py::ssize_t>(i), Py_NewRef(Py_None));
  return list;
}

}  // namespace

bool CarriedObjects::is_known(PyObject* leaf, bool in_batch) const {
  if (PyUnicode_CheckExact(leaf) || leaf == Py_None || PyBytes_CheckExact(leaf))
    return true;
  if (in_batch && is_plain_sequence(leaf))
    return PySequence_Fast_GET_SIZE(leaf) > 0 &&
           is_known(checked(PySequence_GetItem(leaf, 0)).ptr(), false);
  const int known =
      PySet_Contains(kinds_.ptr(), reinterpret_cast<PyObject*>(Py_TYPE(leaf)));
  if (known < 0) throw py::error_already_set();
  return known == 1;
}

bool CarriedObjects::add(const HeldLeaves& leaves, std::uint64_t n, bool stacked) {
  for (std::size_t i = 0; i < leaves.size(); ++i)
    if (!is_known(leaves.data()[i], stacked || whole_)) return false;
  add_known(leaves, n, stacked);
  return true;
}

void CarriedObjects::add_known(const HeldLeaves& leaves, std::uint64_t n,
                               bool stacked) {
  const Alone alone(*this);
  const std::uint64_t examples = stacked ? n : 1;
  make_room(examples);
  for (std::uint64_t i = 0; i < examples; ++i) {
    for (std::size_t leaf = 0; leaf < std::min(leaves_, leaves.size()); ++leaf) {
      PyObject* const object = leaves.data()[leaf];
      py::object value = py::reinterpret_borrow<py::object>(object);
      if (whole_)
        value = spread(object, n);
      else if (stacked && is_split(object, n))
        value = checked(PySequence_GetItem(object, static_cast<py::ssize_t>(i)));
      store(next_, leaf, std::move(value));
    }
    ++next_;
  }
}

std::uint64_t CarriedObjects::slots() const { return objects_.size() / leaves_; }

/// Makes the table larger until it has room for so many more examples.
void CarriedObjects::make_room(std::uint64_t examples) {
  const std::uint64_t needed = next_ - oldest_ + examples;
  if (needed <= slots()) return;
  std::uint64_t more = std::max(kSlots, slots());
  while (more < needed) more *= 2;
  // Nothing runs between here and the exchange but what makes a list: of a collection
  // that it may begin, what is forgotten meanwhile is looked at again.
  py::list larger = list_of_none(more * leaves_);
  for (std::uint64_t number = oldest_; number < next_; ++number)
    for (std::size_t leaf = 0; leaf < leaves_; ++leaf)
      PyList_SetItem(larger.ptr(),
                     static_cast<py::ssize_t>(number % more * leaves_ + leaf),
                     Py_NewRef(PyList_GET_ITEM(
                         objects_.ptr(),
                         static_cast<py::ssize_t>(number % slots() * leaves_ + leaf))));
  std::swap(objects_, larger);
}

/// What was in its place goes last.
void CarriedObjects::store(std::uint64_t number, std::size_t leaf, py::object value) {
  const auto place = static_cast<py::ssize_t>(number % slots() * leaves_ + leaf);
  if (PyList_SetItem(objects_.ptr(), place, value.release().ptr()) != 0)
    throw py::error_already_set();
}

py::list CarriedObjects::take(const Numbers& numbers) const {
  const Alone alone(*this);
  const std::int64_t* const wanted = numbers.data();
  const auto count = whole_ ? std::min<py::ssize_t>(numbers.size(), 1) : numbers.size();
  for (py::ssize_t i = 0; i < count; ++i) {
    const auto number = static_cast<std::uint64_t>(wanted[i]);
    if (number < oldest_ || number >= next_)
      throw std::out_of_range("example " + std::to_string(number) +
                              " has no objects here");
  }
  // A collection that a new list begins may run code that clears the table.
  const py::list objects = objects_;
  const std::uint64_t size = slots();
  py::list columns;
  for (std::size_t leaf = 0; leaf < leaves_; ++leaf) {
    py::object column = checked(PyList_New(count));
    for (py::ssize_t i = 0; i < count; ++i) {
      const auto number = static_cast<std::uint64_t>(wanted[i]);
      const auto place = static_cast<py::ssize_t>(number % size * leaves_ + leaf);
      PyList_SET_ITEM(column.ptr(), i,
                      Py_NewRef(PyList_GET_ITEM(objects.ptr(), place)));
    }
    if (whole_ && count > 0)
      column = checked(PySequence_List(PyList_GET_ITEM(column.ptr(), 0)));
    columns.append(std::move(column));
  }
  return columns;
}

void CarriedObjects::forget(std::uint64_t oldest) {
  const Alone alone(*this);
  // The code of an object that goes may come back here: what is there is looked at
  // anew.
  while (oldest_ < std::min(oldest, next_)) {
    const std::uint64_t number = oldest_++;
    for (std::size_t leaf = 0; leaf < leaves_; ++leaf) store(number, leaf, py::none());
  }
}

void CarriedObjects::clear() {
  py::list objects;  // goes last
  const Alone alone(*this);
  std::swap(objects_, objects);
  oldest_ = next_;
}

}  // namespace echobuf::python
