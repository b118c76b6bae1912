// The task: digits of seven segments, drawn somewhere in a noisy picture. Example i is
// a function of i, so that a run that resumes can make the same ones again.
#pragma once

#include <array>
#include <cstdint>
#include <random>

inline constexpr int kSide = 16;
inline constexpr int kPixels = kSide * kSide;
inline constexpr int kClasses = 10;

struct Digit {
  std::array<std::uint8_t, kPixels> pixels;
  std::int32_t label;
};

class DigitMaker {
 public:
  explicit DigitMaker(std::uint64_t seed) : seed_(seed) {}

  Digit make(std::uint64_t index) const {
    std::mt19937_64 random(seed_ * 0x9E3779B97F4A7C15u + index);
    Digit digit{};
    for (auto& pixel : digit.pixels)
      pixel = static_cast<std::uint8_t>(random() % kNoise);
    digit.label = static_cast<std::int32_t>(random() % kClasses);
    const int left = 3 + static_cast<int>(random() % 4);
    const int top = 1 + static_cast<int>(random() % 3);
    for (int segment = 0; segment < 7; ++segment)
      if (kSegments[static_cast<std::size_t>(digit.label)] >> segment & 1)
        draw(digit, left, top, segment);
    return digit;
  }

 private:
  static constexpr std::uint64_t kNoise = 120;
  static constexpr int kLength = 5;
  // Bit s: segment s is lit; top, the two upper, middle, the two lower, bottom.
  static constexpr std::array<std::uint8_t, kClasses> kSegments = {
      0x77, 0x24, 0x5D, 0x6D, 0x2E, 0x6B, 0x7B, 0x25, 0x7F, 0x6F};

  static void draw(Digit& digit, int left, int top, int segment) {
    const bool across = segment % 3 == 0;
    const int row = segment / 3 * kLength;
    const int column = segment % 3 == 2 ? kLength : 0;
    for (int i = 0; i <= kLength; ++i) {
      const int y = top + row + (across ? 0 : i);
      const int x = left + column + (across ? i : 0);
      digit.pixels[static_cast<std::size_t>(y * kSide + x)] = 255;
    }
  }

  std::uint64_t seed_;
};
