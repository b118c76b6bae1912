#include "operations.hpp"

#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "echobuf/transform/stage.hpp"

namespace echobuf::python {
namespace {

using namespace transform;  // NOLINT(google-build-using-namespace)

/// Reads members from settings of the same names.
class Reader {
 public:
  explicit Reader(const py::dict& settings) : settings_(settings) {}

  /// `names`: of the members, with ", " in between.
  template <class... T>
  void operator()(std::string_view names, T&... members) const {
    const auto read_next = [&](auto& member) {
      const std::size_t end = std::min(names.find(','), names.size());
      read(std::string(names.substr(0, end)), member);
      names.remove_prefix(std::min(end + 2, names.size()));
    };
    (read_next(members), ...);
  }

 private:
  template <class T>
  void read(const std::string& name, T& member) const {
    if constexpr (std::is_enum_v<T>)
      member = static_cast<T>(settings_[py::str(name)].cast<std::uint32_t>());
    else if constexpr (std::is_class_v<T>)  // an operation that another one holds
      member.members(*this);
    else
      member = settings_[py::str(name)].cast<T>();
  }
  void read(const std::string& name, Extent& member) const {
    const auto [height, width, channels] =
        settings_[py::str(name)]
            .cast<std::tuple<std::int32_t, std::int32_t, std::int32_t>>();
    member = {height, width, channels};
  }
  void read(const std::string& name, Levels& member) const {
    const auto [values, either_sign] =
        settings_[py::str(name)].cast<std::tuple<std::vector<float>, bool>>();
    if (values.empty() || values.size() > static_cast<std::size_t>(Levels::kMost))
      throw py::value_error(name + ": too few or too many");
    member.count = static_cast<std::uint32_t>(values.size());
    member.either_sign = either_sign ? 1 : 0;
    std::copy(values.begin(), values.end(), member.value);
  }
  template <class T, std::size_t n>
  void read(const std::string& name, T (&member)[n]) const {
    const auto values = settings_[py::str(name)].cast<std::vector<T>>();
    if (values.size() > n) throw py::value_error(name + ": too many");
    std::copy(values.begin(), values.end(), member);
  }

  const py::dict& settings_;
};

template <class Op>
void put(OpBlock& block, const py::dict& settings) {
  Op op{};
  op.members(Reader(settings));
  block.code = kCodeOf<Op>;
  std::memcpy(block.settings, &op, sizeof op);
}

void put_custom(OpBlock& block, const py::dict& settings) {
  const auto bytes = settings["settings"].cast<std::string>();
  if (bytes.size() > OpBlock::kBytes) throw py::value_error("settings: too many bytes");
  block.code = OpCode::kCustom;
  block.table = settings["table"].cast<std::uint64_t>();
  std::memcpy(block.settings, bytes.data(), bytes.size());
}

}  // namespace

OpBlock make_operation(const std::string& kind, std::uint32_t number,
                       const py::dict& settings) {
  using Put = void (*)(OpBlock&, const py::dict&);
  static const std::map<std::string, Put> kinds = {
#define ECHOBUF_PUT(name, Op) {#name, put<Op>},
      ECHOBUF_OPERATIONS(ECHOBUF_PUT)
#undef ECHOBUF_PUT
          {"custom", put_custom}};
  OpBlock block{};
  block.number = number;
  kinds.at(kind)(block, settings);
  return block;
}

}  // namespace echobuf::python
