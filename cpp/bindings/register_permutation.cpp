// The keyed permutation for the tests of its quality: many keys at once.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <stdexcept>

#include "echobuf/schedule/permutation_range.hpp"
#include "register.hpp"

namespace py = pybind11;

namespace {

using Keys = py::array_t<std::uint64_t, py::array::c_style | py::array::forcecast>;
constexpr int kMaxRounds = 64;

/// Element i of `keys`, or its only element.
std::uint64_t at(const Keys& keys, py::ssize_t i) {
  return keys.data()[keys.size() == 1 ? 0 : i];
}

py::array_t<std::uint32_t> permutation(std::uint32_t n, const Keys& seed,
                                       const Keys& epoch, const Keys& passes,
                                       std::uint32_t first, std::uint32_t count,
                                       int rounds) {
  if (n < 1 || n > echobuf::kPermutationMaxSize) {
    throw std::invalid_argument("`n` must be from 1 to 2**31 - 1");
  }
  if (first > n || count > n - first) {
    throw std::invalid_argument("`first` + `count` must not be above `n`");
  }
  if (rounds < 0 || rounds > kMaxRounds || rounds % 2 != 0) {
    throw std::invalid_argument("`rounds` must be even, from 0 (the default) to 64");
  }
  const py::ssize_t rows = std::max({seed.size(), epoch.size(), passes.size()});
  for (const Keys* keys : {&seed, &epoch, &passes}) {
    if (keys->size() != rows && keys->size() != 1) {
      throw std::invalid_argument("`seed`, `epoch`, `passes` must have equal lengths");
    }
  }
  py::array_t<std::uint32_t> out({rows, static_cast<py::ssize_t>(count)});
  std::uint32_t* row = out.mutable_data();
  for (py::ssize_t i = 0; i < rows; ++i, row += count) {
    const echobuf::PermutationKey key =
        echobuf::permutation_key(at(seed, i), at(epoch, i), at(passes, i));
    const int used = rounds == 0 ? echobuf::permutation_rounds(n) : rounds;
    echobuf::permute_range(echobuf::Permutation(n, key, used), first, count, row);
  }
  return out;
}

}  // namespace

void register_permutation(py::module_& m) {
  m.def(
      "permutation", &permutation, py::arg("n"), py::arg("seed"), py::arg("epoch"),
      py::arg("passes"), py::arg("first"), py::arg("count"), py::kw_only(),
      py::arg("rounds") = 0,
      "Runs of permutations of [0, n), one row a key: uint32[keys, count]. `seed`, "
      "`epoch` and `passes` are integers or arrays; one element stands for all rows.");
}
