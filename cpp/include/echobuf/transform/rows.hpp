// Rows of numbers, as the host changes them: each channel an array of floats, so that
// the compiler makes vectors of what is written for one number. What is hot is compiled
// for each level of vector instructions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "echobuf/cpu.hpp"
#include "echobuf/transform/half_rows.hpp"
#include "echobuf/transform/stage.hpp"

namespace echobuf::transform {

#if defined(__x86_64__) && defined(__GNUC__)
template <class Work>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"), flatten)) void work_avx512(
    Work work) {
  work();
}
template <class Work>
__attribute__((target("avx2"), flatten)) void work_avx2(Work work) {
  work();
}
#endif

/// Runs `work`, compiled for the processor that this is. It captures by value what its
/// loops use: the compiler must see that what they write changes none of it.
template <class Work>
void work_fast(Work work, CpuLevel level = cpu_level()) {
#if defined(__x86_64__) && defined(__GNUC__)
  if (level == CpuLevel::kAvx512) return work_avx512(work);
  if (level == CpuLevel::kAvx2) return work_avx2(work);
#else
  (void)level;
#endif
  work();
}

/// Changes all numbers of a row, in place.
template <class Op, class Draw>
void change_row(const Op& settings, const Draw& draw, float* const* rows,
                const Place& first) {
  if constexpr (ElementOp<Op>) {
    for (int c = 0; c < first.extent.channels; ++c) {
      float* __restrict__ row = rows[c];
      work_fast([op = settings, d = draw, at = first, row, c]() mutable {
        for (int32_t x = 0; x < at.extent.width; ++x) {
          at.x = x;
          row[x] = op.element(d, row[x], c, at);
        }
      });
    }
  } else {
    const auto all = [&]<int kChannels>() {
      float* row[kChannels];
      for (int c = 0; c < kChannels; ++c) row[c] = rows[c];
      work_fast([op = settings, d = draw, at = first, row]() mutable {
        for (int32_t x = 0; x < at.extent.width; ++x) {
          float v[kMostChannels];
          for (int c = 0; c < kChannels; ++c) v[c] = row[c][x];
          // GCC does not know that only leaves of four channels hold boxes.
          for (int c = kChannels; c < 4; ++c) v[c] = 0.0f;
          at.x = x;
          op.pixel(d, v, at);
          for (int c = 0; c < kChannels; ++c) row[c][x] = v[c];
        }
      });
    };
    switch (first.extent.channels) {
      case 1:
        return all.template operator()<1>();
      case 2:
        return all.template operator()<2>();
      case 3:
        return all.template operator()<3>();
      case 4:
        return all.template operator()<4>();
      default:
        Place at = first;
        for (int32_t x = 0; x < first.extent.width; ++x) {
          float v[kMostChannels];
          for (int c = 0; c < first.extent.channels; ++c) v[c] = rows[c][x];
          at.x = x;
          settings.pixel(draw, v, at);
          for (int c = 0; c < first.extent.channels; ++c) rows[c][x] = v[c];
        }
    }
  }
}

// ---- numbers of a type to floats, and back

/// Reads `count` numbers that are next to each other.
template <class T>
void read_numbers(const std::byte* from, int32_t count, float* __restrict__ to) {
  if constexpr (std::is_same_v<T, Half>) {
    read_halves(from, count, to);
  } else {
    work_fast([=] {
      for (int32_t i = 0; i < count; ++i) {
        T value;
        std::memcpy(&value, from + i * sizeof(T), sizeof(T));
        to[i] = static_cast<float>(value);
      }
    });
  }
}

template <class T>
void write_numbers(const float* __restrict__ from, int32_t count, std::byte* to) {
  if constexpr (std::is_same_v<T, Half>) {
    write_halves(from, count, to);
  } else {
    work_fast([=] {
      for (int32_t i = 0; i < count; ++i) {
        const T value = number_of<T>(from[i]);
        std::memcpy(to + i * sizeof(T), &value, sizeof(T));
      }
    });
  }
}

}  // namespace echobuf::transform
