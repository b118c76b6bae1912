// The model: two layers, trained by stochastic gradient descent with momentum.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

#include "digits.hpp"

/// A layer: out = weights * in + bias.
class Linear {
 public:
  Linear(std::size_t inputs, std::size_t outputs, std::mt19937& random)
      : inputs_(inputs),
        outputs_(outputs),
        weights_((inputs + 1) * outputs),
        gradient_(weights_.size()),
        velocity_(weights_.size()) {
    std::normal_distribution<float> normal(0.f,
                                           std::sqrt(2.f / static_cast<float>(inputs)));
    for (std::size_t i = 0; i < inputs * outputs; ++i) weights_[i] = normal(random);
  }

  void forward(const float* in, float* out) const {
    for (std::size_t o = 0; o < outputs_; ++o) {
      const float* row = weights_.data() + o * inputs_;
      float sum = weights_[inputs_ * outputs_ + o];
      for (std::size_t i = 0; i < inputs_; ++i) sum += row[i] * in[i];
      out[o] = sum;
    }
  }

  /// Adds to the gradient, and to `to_in` (unless null) what goes on backwards.
  void backward(const float* in, const float* from_out, float* to_in) {
    for (std::size_t o = 0; o < outputs_; ++o) {
      const float* row = weights_.data() + o * inputs_;
      float* gradient = gradient_.data() + o * inputs_;
      for (std::size_t i = 0; i < inputs_; ++i) gradient[i] += from_out[o] * in[i];
      gradient_[inputs_ * outputs_ + o] += from_out[o];
      if (!to_in) continue;
      for (std::size_t i = 0; i < inputs_; ++i) to_in[i] += row[i] * from_out[o];
    }
  }

  void step(float rate) {
    constexpr float kMomentum = 0.9f;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      velocity_[i] = kMomentum * velocity_[i] - rate * gradient_[i];
      weights_[i] += velocity_[i];
      gradient_[i] = 0;
    }
  }

 private:
  std::size_t inputs_, outputs_;
  std::vector<float> weights_, gradient_, velocity_;
};

class Model {
 public:
  explicit Model(std::uint32_t seed) : random_(seed) {}

  /// One step over a batch as the buffer hands it out; the mean loss.
  float train(const std::uint8_t* pixels, const std::int32_t* labels, std::size_t n) {
    float loss = 0;
    for (std::size_t i = 0; i < n; ++i) {
      forward(pixels + i * kPixels);
      const auto label = static_cast<std::size_t>(labels[i]);
      loss -= std::log(std::max(scores_[label], 1e-9f));
      scores_[label] -= 1;  // the gradient of the loss
      std::array<float, kHidden> back{};
      second_.backward(hidden_.data(), scores_.data(), back.data());
      for (std::size_t h = 0; h < kHidden; ++h)
        if (hidden_[h] == 0) back[h] = 0;
      first_.backward(input_.data(), back.data(), nullptr);
    }
    first_.step(kRate / static_cast<float>(n));
    second_.step(kRate / static_cast<float>(n));
    return loss / static_cast<float>(n);
  }

  std::int32_t guess(const std::uint8_t* pixels) {
    forward(pixels);
    return static_cast<std::int32_t>(std::max_element(scores_.begin(), scores_.end()) -
                                     scores_.begin());
  }

 private:
  static constexpr std::size_t kHidden = 64;
  static constexpr float kRate = 0.05f;

  void forward(const std::uint8_t* pixels) {
    for (std::size_t i = 0; i < kPixels; ++i)
      input_[i] = static_cast<float>(pixels[i]) / 255.f - 0.3f;
    first_.forward(input_.data(), hidden_.data());
    for (float& h : hidden_) h = std::max(h, 0.f);
    second_.forward(hidden_.data(), scores_.data());
    const float most = *std::max_element(scores_.begin(), scores_.end());
    float sum = 0;
    for (float& s : scores_) sum += s = std::exp(s - most);
    for (float& s : scores_) s /= sum;
  }

  std::mt19937 random_;
  Linear first_{kPixels, kHidden, random_};
  Linear second_{kHidden, kClasses, random_};
  std::array<float, kPixels> input_{};
  std::array<float, kHidden> hidden_{};
  std::array<float, kClasses> scores_{};
};
