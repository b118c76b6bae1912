#include "operations.hpp"

#include <pybind11/stl.h>

#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "members.hpp"

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
  void operator()(const char* name, Levels& member) const {
    const auto [values, either_sign] =
        settings_[name].cast<std::tuple<std::vector<float>, bool>>();
    if (values.empty() || values.size() > static_cast<std::size_t>(Levels::kMost))
      throw py::value_error(std::string(name) + ": too few or too many");
    member.count = static_cast<std::uint32_t>(values.size());
    member.either_sign = either_sign ? 1 : 0;
    std::copy(values.begin(), values.end(), member.value);
  }
  void operator()(const char* name, Filter& member) const {
    member = static_cast<Filter>(settings_[name].cast<std::uint32_t>());
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

template <class Op>
void put(OpBlock& block, const py::dict& settings) {
  Op op{};
  members(Reader(settings), op);
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
      {"crop", put<Crop>},
      {"flip", put<Flip>},
      {"nearest", put<Nearest>},
      {"nearest_window", put<NearestWindow>},
      {"resample", put<Resample>},
      {"warp", put<Warp>},
      {"normalize", put<Normalize>},
      {"scale", put<Scale>},
      {"round", put<Round>},
      {"gain", put<Gain>},
      {"noise", put<Noise>},
      {"erase", put<Erase>},
      {"bands", put<Bands>},
      {"jitter", put<Jitter>},
      {"mix", put<Mix>},
      {"mask", put<Mask>},
      {"invert", put<Invert>},
      {"solarize", put<Solarize>},
      {"posterize", put<Posterize>},
      {"auto_contrast", put<AutoContrast>},
      {"equalize", put<Equalize>},
      {"grey", put<Grey>},
      {"graded_color", put<GradedColor>},
      {"graded_warp", put<GradedWarp>},
      {"blur", put<Blur>},
      {"sharpen", put<Sharpen>},
      {"perspective", put<Perspective>},
      {"crop_points", put<CropPoints>},
      {"flip_points", put<FlipPoints>},
      {"resize_points", put<ResizePoints>},
      {"window_points", put<WindowPoints>},
      {"warp_points", put<WarpPoints>},
      {"graded_warp_points", put<GradedWarpPoints>},
      {"perspective_points", put<PerspectivePoints>},
      {"sanitize_points", put<SanitizePoints>},
      {"custom", put_custom}};
  OpBlock block{};
  block.number = number;
  kinds.at(kind)(block, settings);
  return block;
}

}  // namespace echobuf::python
