// Weights of a resampled axis that are the same for each image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "echobuf/transform/resample.hpp"

namespace echobuf::transform {

/// The `Weights` of all pixels of the result along an axis: an image that is resized
/// whole needs them once, and not for each example.
class AxisWeights {
 public:
  AxisWeights() = default;  // none
  /// Throws std::bad_alloc.
  explicit AxisWeights(const Stretch& stretch)
      : taps_(static_cast<std::size_t>(stretch.taps())) {
    const auto count = static_cast<std::size_t>(stretch.result);
    first_.reserve(count);
    weights_.reserve(count * taps_);
    for (int32_t i = 0; i < stretch.result; ++i) {
      const Weights weights(stretch, i);
      first_.push_back(weights.first());
      for (int32_t k = 0; k < stretch.taps(); ++k) weights_.push_back(weights(k));
    }
  }

  bool any() const { return !first_.empty(); }
  /// Pixel `i`, as `Weights::first`.
  int32_t first(int32_t i) const { return first_[static_cast<std::size_t>(i)]; }
  /// The weights of pixel `i`.
  const float* of(int32_t i) const {
    return weights_.data() + static_cast<std::size_t>(i) * taps_;
  }

 private:
  std::size_t taps_ = 0;
  std::vector<int32_t> first_;
  std::vector<float> weights_;
};

}  // namespace echobuf::transform
