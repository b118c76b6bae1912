#include "operations.hpp"

#include <pybind11/stl.h>

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace echobuf::python {
namespace {

using namespace transform;  // NOLINT(google-build-using-namespace)

/// Reads members by their names.
class Reader {
 public:
  explicit Reader(const py::dict& settings) : settings_(settings) {}

  template <class T>
  void operator()(const char* name, T& member) const {
    member = settings_[name].template cast<T>();
  }
  void operator()(const char* name, Extent& member) const {
    const auto [height, width, channels] =
        settings_[name].cast<std::tuple<std::int32_t, std::int32_t, std::int32_t>>();
    member = {height, width, channels};
  }
  void operator()(const char* name, Axis& member) const {
    member = settings_[name].cast<int>() == 0 ? Axis::kRow : Axis::kColumn;
  }
  void operator()(const char* name, Border& member) const {
    member = static_cast<Border>(settings_[name].cast<std::uint32_t>());
  }
  void operator()(const char* name, NumberType& member) const {
    member = static_cast<NumberType>(settings_[name].cast<std::uint32_t>());
  }
  template <class T, std::size_t n>
  void operator()(const char* name, T (&member)[n]) const {
    const auto values = settings_[name].cast<std::vector<T>>();
    if (values.size() > n) throw py::value_error(std::string(name) + ": too many");
    std::copy(values.begin(), values.end(), member);
  }

 private:
  const py::dict& settings_;
};

void read(const Reader& get, Crop& op) {
  get("in", op.in);
  get("height", op.height);
  get("width", op.width);
  get("top", op.top);
  get("left", op.left);
  get("tops", op.tops);
  get("lefts", op.lefts);
  get("border", op.border);
  get("columns_first", op.columns_first);
  get("fill", op.fill);
}
void read(const Reader& get, Flip& op) {
  get("in", op.in);
  get("axis", op.axis);
  get("p", op.p);
}
void read(const Reader& get, Nearest& op) {
  get("in", op.in);
  get("height", op.height);
  get("width", op.width);
  get("centred", op.centred);
}
void read(const Reader& get, Resample& op) {
  get("in", op.in);
  get("height", op.height);
  get("width", op.width);
  get("antialias", op.antialias);
  get("windowed", op.windowed);
  get("scale", op.scale);
  get("ratio", op.ratio);
}
void read(const Reader& get, Warp& op) {
  get("in", op.in);
  get("bilinear", op.bilinear);
  get("degrees", op.degrees);
  get("shift", op.shift);
  get("scale", op.scale);
  get("shear_x", op.shear_x);
  get("shear_y", op.shear_y);
  get("centre", op.centre);
  get("fill", op.fill);
}
void read(const Reader& get, Normalize& op) {
  get("scale", op.scale);
  get("mean", op.mean);
  get("deviation", op.deviation);
}
void read(const Reader& get, Scale& op) { get("factor", op.factor); }
void read(const Reader& get, Round& op) { get("type", op.type); }
void read(const Reader& get, Gain& op) {
  get("low", op.low);
  get("high", op.high);
}
void read(const Reader& get, Noise& op) {
  get("mean", op.mean);
  get("sigma", op.sigma);
  get("most", op.most);
  get("clip", op.clip);
  get("integer", op.integer);
}
void read(const Reader& get, Erase& op) {
  get("p", op.p);
  get("scale", op.scale);
  get("ratio", op.ratio);
  get("random", op.random);
  get("value", op.value);
}
void read(const Reader& get, Bands& op) {
  get("rows", op.rows);
  get("columns", op.columns);
  get("tallest", op.tallest);
  get("widest", op.widest);
  get("value", op.value);
}
void read(const Reader& get, Jitter& op) {
  get("in", op.in);
  get("least", op.least);
  get("most", op.most);
  get("active", op.active);
  get("integer", op.integer);
  get("bound", op.bound);
}
void read(const Reader& get, Mix& op) {
  get("whole", op.whole);
  get("alpha", op.alpha);
  get("cut", op.cut);
  get("flat", op.flat);
}
void read(const Reader& get, Mask& op) {
  get("p", op.p);
  get("hidden", op.hidden);
  get("replaced", op.replaced);
  get("mask", op.mask);
  get("vocabulary", op.vocabulary);
  get("labels", op.labels);
  get("ignored", op.ignored);
  get("specials", op.specials);
  get("special", op.special);
}

template <class Op>
void put(OpBlock& block, const py::dict& settings) {
  Op op{};
  read(Reader(settings), op);
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
      {"crop", put<Crop>},         {"flip", put<Flip>},   {"nearest", put<Nearest>},
      {"resample", put<Resample>}, {"warp", put<Warp>},   {"normalize", put<Normalize>},
      {"scale", put<Scale>},       {"round", put<Round>}, {"gain", put<Gain>},
      {"noise", put<Noise>},       {"erase", put<Erase>}, {"bands", put<Bands>},
      {"jitter", put<Jitter>},     {"mix", put<Mix>},     {"mask", put<Mask>},
      {"custom", put_custom}};
  OpBlock block{};
  block.number = number;
  kinds.at(kind)(block, settings);
  return block;
}

}  // namespace echobuf::python
