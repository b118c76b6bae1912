// An echoing factor as a ratio.
#pragma once

#include <cstdint>

namespace echobuf {

/// An echoing factor as a ratio >= 1, in lowest terms.
struct Ratio {
  std::uint64_t num;
  std::uint64_t den;

  bool operator==(const Ratio&) const = default;
  std::uint64_t ceil() const { return (num + den - 1) / den; }
  /// floor((i * num + more) / den), exact for every i: i can pass 2^40 and num 2^50.
  std::uint64_t times(std::uint64_t i, std::uint64_t more = 0) const {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::uint64_t>((static_cast<Wide>(i) * num + more) / den);
  }
};

}  // namespace echobuf
