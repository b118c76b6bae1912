#include "literals.hpp"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <type_traits>

#include "echobuf/transform/stage.hpp"

namespace echobuf::python {
namespace {

namespace py = pybind11;
using namespace transform;  // NOLINT(google-build-using-namespace)

const char* type_of(Axis) { return "Axis"; }
const char* type_of(Border) { return "Border"; }
const char* type_of(Core) { return "Core"; }
const char* type_of(Filter) { return "Filter"; }
const char* type_of(NumberType) { return "NumberType"; }
const char* type_of(Whole) { return "Whole"; }

/// Every bit of a number.
template <class T>
std::string text_of(T number) {
  if constexpr (std::is_floating_point_v<T>) {
    const char* const suffix = std::is_same_v<T, float> ? "f" : "";
    if (std::isinf(number))
      return std::string(number < 0 ? "-" : "") + "__builtin_huge_val" + suffix + "()";
    char digits[64];
    std::snprintf(digits, sizeof digits, "%a%s", static_cast<double>(number), suffix);
    return digits;
  } else if constexpr (std::is_signed_v<T>) {
    if (number != std::numeric_limits<T>::min()) return std::to_string(number) + "ll";
    return "(" + std::to_string(number + 1) + "ll - 1)";
  } else {
    return std::to_string(number) + "ull";
  }
}

/// Returns a value as C++ has it: the members of a struct, and the items of an array,
/// between braces.
template <class T>
std::string literal(T& value) {
  if constexpr (std::is_enum_v<T>) {
    return std::string("echobuf::transform::") + type_of(value) + "(" +
           std::to_string(static_cast<int>(value)) + ")";
  } else if constexpr (std::is_arithmetic_v<T>) {
    return text_of(value);
  } else {
    std::string text = "{";
    const auto add = [&](auto& item) {
      text += (text.size() > 1 ? ", " : "") + literal(item);
    };
    if constexpr (std::is_array_v<T>)
      for (auto& item : value) add(item);
    else
      value.members([&](const char*, auto&... members) { (add(members), ...); });
    return text + "}";
  }
}

template <class Op>
py::tuple literals_of(const char* type, const OpBlock& block) {
  Op op = block.as<Op>();
  return py::make_tuple(type, block.number, literal(op));
}

py::tuple operation_literals(const OpBlock& block) {
  switch (block.code) {
#define ECHOBUF_LITERALS(name, Op) \
  case OpCode::k##Op:              \
    return literals_of<Op>(#Op, block);
    ECHOBUF_OPERATIONS(ECHOBUF_LITERALS)
#undef ECHOBUF_LITERALS
    case OpCode::kCustom:
      break;
  }
  const auto* const bytes = reinterpret_cast<const char*>(block.settings);
  return py::make_tuple(py::none(), block.number,
                        py::make_tuple(block.table, py::bytes(bytes, OpBlock::kBytes)));
}

}  // namespace

py::tuple stage_literals(const Stage& stage) {
  StagePlan plan = stage;
  py::list operations;
  for (std::int32_t i = 0; i < stage.count; ++i)
    operations.append(operation_literals(stage.ops[i]));
  return py::make_tuple(literal(plan), operations, stage.statistic >= 0,
                        stage.gates.count > 0);
}

}  // namespace echobuf::python
