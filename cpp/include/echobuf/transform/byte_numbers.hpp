// Bytes that become 16-bit floats by tables: a byte has 256 values only, and a table of
// them is looked up sooner than a division is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "echobuf/cpu.hpp"
#include "echobuf/transform/number.hpp"
#include "echobuf/transform/stage.hpp"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#endif

namespace echobuf::transform {

namespace detail {

#if defined(__x86_64__) && defined(__GNUC__)
/// Each shuffle looks up 64 of the 256 entries, by the lower six bits of a byte.
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))) inline std::ptrdiff_t
look_up_avx512(const std::uint16_t* table, const unsigned char* from,
               std::ptrdiff_t count, std::byte* to) {
  constexpr std::ptrdiff_t kLanes = 32;
  __m512i part[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) part[i] = _mm512_loadu_si512(table + kLanes * i);
  const __m512i seventh = _mm512_set1_epi16(64);
  const __m512i eighth = _mm512_set1_epi16(128);
  std::ptrdiff_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    const __m512i byte = _mm512_cvtepu8_epi16(
        _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i)));
    const __mmask32 upper = _mm512_test_epi16_mask(byte, seventh);
    const __m512i low = _mm512_mask_blend_epi16(
        upper, _mm512_permutex2var_epi16(part[0], byte, part[1]),
        _mm512_permutex2var_epi16(part[2], byte, part[3]));
    const __m512i high = _mm512_mask_blend_epi16(
        upper, _mm512_permutex2var_epi16(part[4], byte, part[5]),
        _mm512_permutex2var_epi16(part[6], byte, part[7]));
    _mm512_storeu_si512(
        to + i * 2,
        _mm512_mask_blend_epi16(_mm512_test_epi16_mask(byte, eighth), low, high));
  }
  return i;
}
#endif

}  // namespace detail

/// The 16-bit floats that bytes of each channel become.
class ByteNumbers {
 public:
  /// True for a stage that moves bytes and makes 16-bit floats of each by itself, on
  /// processors that look many of them up at once: on others that takes as long.
  static bool fits(const Stage& stage, CpuLevel level = cpu_level()) {
    const NumberType from = stage.source.type, to = stage.target.type;
    if (level != CpuLevel::kAvx512 || stage.core != Core::kNone || stage.mix >= 0 ||
        (from != NumberType::kUint8 && from != NumberType::kBool) ||
        (to != NumberType::kFloat16 && to != NumberType::kBfloat16))
      return false;
    for (int32_t i = stage.after; i < stage.count; ++i)
      if (!is_alike(stage.ops[i].code)) return false;
    return true;
  }

  /// `number(v, c)`: the float that a byte `v` of channel `c` becomes. Throws
  /// std::bad_alloc.
  template <class Number>
  ByteNumbers(NumberType type, int32_t channels, Number&& number)
      : table_(kValues * static_cast<std::size_t>(channels)) {
    for (int32_t c = 0; c < channels; ++c)
      for (std::size_t v = 0; v < kValues; ++v) {
        const float value = number(static_cast<float>(v), c);
        table_[kValues * static_cast<std::size_t>(c) + v] =
            type == NumberType::kFloat16 ? half_of(value) : bfloat_of(value);
      }
  }

  /// Writes what `count` bytes of a channel become, at any alignment.
  void convert(int32_t channel, const unsigned char* from, int32_t count,
               std::byte* to) const {
    const std::uint16_t* const table =
        table_.data() + kValues * static_cast<std::size_t>(channel);
    std::ptrdiff_t done = 0;
#if defined(__x86_64__) && defined(__GNUC__)
    done = detail::look_up_avx512(table, from, count, to);
#endif
    for (; done < count; ++done) std::memcpy(to + done * 2, table + from[done], 2);
  }

 private:
  /// True if what an operation makes of a number depends on its channel only.
  static bool is_alike(OpCode code) {
    return code == OpCode::kNormalize || code == OpCode::kScale ||
           code == OpCode::kRound;
  }

  static constexpr std::size_t kValues = 256;

  std::vector<std::uint16_t> table_;
};

}  // namespace echobuf::transform
