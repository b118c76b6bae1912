#include "literals.hpp"

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <type_traits>

#include "members.hpp"

namespace echobuf::python {
namespace {

namespace py = pybind11;
using namespace transform;  // NOLINT(google-build-using-namespace)

/// Members one after another, as C++ has them between braces.
class LiteralWriter {
 public:
  std::string text() const { return text_ + "}"; }

  template <class T>
    requires std::is_arithmetic_v<T>
  void operator()(const char*, T member) {
    add(number(member));
  }
  void operator()(const char*, const Extent& member) {
    add("{" + number(member.height) + ", " + number(member.width) + ", " +
        number(member.channels) + "}");
  }
  void operator()(const char*, Axis member) { add_enum("Axis", member); }
  void operator()(const char*, Border member) { add_enum("Border", member); }
  void operator()(const char*, Filter member) { add_enum("Filter", member); }
  void operator()(const char*, NumberType member) { add_enum("NumberType", member); }
  void operator()(const char*, Core member) { add_enum("Core", member); }
  void operator()(const char*, Whole member) { add_enum("Whole", member); }
  void operator()(const char*, const Levels& levels) {
    LiteralWriter inner;
    inner("", levels.count);
    inner("", levels.either_sign);
    inner("", levels.value);
    add(inner.text());
  }
  void operator()(const char*, const Layout& layout) {
    LiteralWriter inner;
    inner("", layout.extent);
    inner("", layout.type);
    inner("", layout.bytes);
    inner("", layout.row);
    inner("", layout.column);
    inner("", layout.channel);
    add(inner.text());
  }
  template <class T, std::size_t n>
  void operator()(const char*, const T (&member)[n]) {
    LiteralWriter inner;
    for (const T& value : member) inner("", value);
    add(inner.text());
  }

 private:
  void add(const std::string& value) {
    text_ += (text_.size() > 1 ? ", " : "") + value;
  }
  template <class Enum>
  void add_enum(const char* name, Enum value) {
    add(std::string("echobuf::transform::") + name + "(" +
        std::to_string(static_cast<int>(value)) + ")");
  }

  /// Every bit of it.
  template <class T>
  static std::string number(T value) {
    if constexpr (std::is_floating_point_v<T>) {
      const char* const suffix = std::is_same_v<T, float> ? "f" : "";
      if (std::isinf(value))
        return std::string(value < 0 ? "-" : "") + "__builtin_huge_val" + suffix + "()";
      char digits[64];
      std::snprintf(digits, sizeof digits, "%a%s", static_cast<double>(value), suffix);
      return digits;
    } else if constexpr (std::is_signed_v<T>) {
      if (value != std::numeric_limits<T>::min()) return std::to_string(value) + "ll";
      return "(" + std::to_string(value + 1) + "ll - 1)";
    } else {
      return std::to_string(value) + "ull";
    }
  }

  std::string text_ = "{";
};

template <class Op>
py::tuple literals_of(const char* type, const OpBlock& block) {
  Op op = block.as<Op>();
  LiteralWriter writer;
  members(writer, op);
  return py::make_tuple(type, block.number, writer.text());
}

py::tuple operation_literals(const OpBlock& block) {
  switch (block.code) {
#define ECHOBUF_LITERALS(Op) \
  case OpCode::k##Op:        \
    return literals_of<Op>(#Op, block);
    ECHOBUF_LITERALS(Crop)
    ECHOBUF_LITERALS(Flip)
    ECHOBUF_LITERALS(Nearest)
    ECHOBUF_LITERALS(NearestWindow)
    ECHOBUF_LITERALS(Resample)
    ECHOBUF_LITERALS(Warp)
    ECHOBUF_LITERALS(Normalize)
    ECHOBUF_LITERALS(Scale)
    ECHOBUF_LITERALS(Round)
    ECHOBUF_LITERALS(Gain)
    ECHOBUF_LITERALS(Noise)
    ECHOBUF_LITERALS(Erase)
    ECHOBUF_LITERALS(Bands)
    ECHOBUF_LITERALS(Jitter)
    ECHOBUF_LITERALS(Mix)
    ECHOBUF_LITERALS(Mask)
    ECHOBUF_LITERALS(Invert)
    ECHOBUF_LITERALS(Solarize)
    ECHOBUF_LITERALS(Posterize)
    ECHOBUF_LITERALS(AutoContrast)
    ECHOBUF_LITERALS(Equalize)
    ECHOBUF_LITERALS(Grey)
    ECHOBUF_LITERALS(GradedColor)
    ECHOBUF_LITERALS(GradedWarp)
    ECHOBUF_LITERALS(Blur)
    ECHOBUF_LITERALS(Sharpen)
    ECHOBUF_LITERALS(Perspective)
    ECHOBUF_LITERALS(CropPoints)
    ECHOBUF_LITERALS(FlipPoints)
    ECHOBUF_LITERALS(ResizePoints)
    ECHOBUF_LITERALS(WindowPoints)
    ECHOBUF_LITERALS(WarpPoints)
    ECHOBUF_LITERALS(GradedWarpPoints)
    ECHOBUF_LITERALS(PerspectivePoints)
    ECHOBUF_LITERALS(SanitizePoints)
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
  LiteralWriter plan;
  plan("source", stage.source);
  plan("target", stage.target);
  plan("raw", stage.raw);
  plan("core", stage.core);
  plan("whole", stage.whole);
  plan("before", stage.before);
  plan("after", stage.after);
  plan("count", stage.count);
  plan("fill", stage.fill);
  plan("statistic", stage.statistic);
  plan("mix", stage.mix);
  plan("frames", stage.frames);
  py::list operations;
  for (std::int32_t i = 0; i < stage.count; ++i)
    operations.append(operation_literals(stage.ops[i]));
  return py::make_tuple(plan.text(), operations, stage.statistic >= 0,
                        stage.gates.count > 0);
}

}  // namespace echobuf::python
