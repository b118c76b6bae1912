// Bytes that are moved row by row arrive whole, at every level of vector instructions;
// 16-bit floats are those of `number.hpp`.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "echobuf/transform/column_picks.hpp"
#include "echobuf/transform/half_rows.hpp"
#include "echobuf/transform/row_sink.hpp"
#include "echobuf/transform/shuffles.hpp"

namespace echobuf::transform {
namespace {

std::vector<CpuLevel> levels_to_move_at() {
  std::vector<CpuLevel> all;
  for (const CpuLevel level : {CpuLevel::kBaseline, CpuLevel::kAvx2, CpuLevel::kAvx512})
    if (level <= detect_cpu_level()) all.push_back(level);
  return all;
}

/// Bytes that differ from their neighbours.
std::vector<std::byte> counted_bytes(std::size_t count, std::size_t first = 0) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>((first + i) * 151 + (first + i) / 256);
  return bytes;
}

TEST(TransformMoves, PixelsAreTakenApartAndPutTogether) {
  for (const CpuLevel level : levels_to_move_at())
    for (const std::uint32_t bytes : {1, 2, 4, 8, 12, 16, 5})
      for (std::int32_t channels = 1; channels <= 6; ++channels)
        for (std::size_t count = 0; count < 70; ++count) {
          const std::size_t all = count * bytes * static_cast<std::size_t>(channels);
          const std::vector<std::byte> pixels = counted_bytes(all);
          std::vector<std::vector<std::byte>> planes;
          std::array<std::byte*, 6> rows{};
          for (std::int32_t c = 0; c < channels; ++c)
            rows[static_cast<std::size_t>(c)] =
                planes.emplace_back(count * bytes + 1, std::byte{0x5A}).data();
          const auto pieces = static_cast<std::ptrdiff_t>(count);
          split_pixels(channels, bytes, pixels.data(), pieces, rows.data(), level);
          for (std::size_t i = 0; i < all; ++i) {
            const std::size_t element = i / bytes;
            const auto c = element % static_cast<std::size_t>(channels);
            const auto x = element / static_cast<std::size_t>(channels);
            ASSERT_EQ(planes[c][x * bytes + i % bytes], pixels[i])
                << channels << " channels of " << bytes << " bytes, level "
                << static_cast<int>(level);
          }
          for (const auto& plane : planes) ASSERT_EQ(plane.back(), std::byte{0x5A});
          std::vector<std::byte> again(all + 1, std::byte{0x5A});
          merge_pixels(channels, bytes, rows.data(), pieces, again.data(), level);
          ASSERT_EQ(again.back(), std::byte{0x5A});
          again.pop_back();
          ASSERT_EQ(again, pixels);
        }
}

TEST(TransformMoves, PiecesAreTurnedRound) {
  for (const CpuLevel level : levels_to_move_at())
    for (std::size_t bytes = 1; bytes <= 33; ++bytes)
      for (std::size_t count = 0; count < 70; ++count) {
        const std::vector<std::byte> pieces = counted_bytes(bytes * count);
        std::vector<std::byte> turned(bytes * count + 1, std::byte{0x5A});
        reverse_pieces(bytes, pieces.data(), static_cast<std::ptrdiff_t>(count),
                       turned.data(), level);
        ASSERT_EQ(turned.back(), std::byte{0x5A});
        for (std::size_t i = 0; i < count; ++i)
          ASSERT_EQ(std::memcmp(turned.data() + i * bytes,
                                pieces.data() + (count - 1 - i) * bytes, bytes),
                    0)
              << bytes << " bytes, level " << static_cast<int>(level);
      }
}

TEST(TransformMoves, ColumnsArePickedFromAnywhere) {
  std::uint32_t chance = 1;
  const auto from = [&](std::uint32_t count) {  // 0 ... count - 1
    chance = chance * 1664525 + 1013904223;
    return static_cast<std::int32_t>((chance >> 8) % count);
  };
  for (int again = 0; again < 3000; ++again) {
    const auto bytes = static_cast<std::size_t>(1 + from(20));
    const std::int32_t width = 1 + from(90), count = 1 + from(90);
    std::vector<std::int32_t> index(static_cast<std::size_t>(count));
    const std::int32_t kind = from(4), start = from(7);
    for (std::int32_t i = 0; i < count; ++i) {
      std::int32_t column = i - start;
      if (kind == 1) column = width - 1 - i;
      if (kind == 2) column = i * width / count;
      if (kind == 3) column = from(static_cast<std::uint32_t>(width));
      const bool inside = column >= 0 && column < width;
      index[static_cast<std::size_t>(i)] = inside ? column : kOutside;
    }
    const std::vector<std::byte> row =
        counted_bytes(static_cast<std::size_t>(width) * bytes);
    const std::vector<std::byte> fill = counted_bytes(bytes, 1000);
    for (const CpuLevel level : levels_to_move_at()) {
      ColumnPicks picks(count, bytes);
      picks.find(index.data(), count, width, level);
      const auto all = static_cast<std::size_t>(count) * bytes;
      std::vector<std::byte> got(all + 1, std::byte{0x5A});
      picks.pick(row.data(), fill.data(), got.data());
      ASSERT_EQ(got.back(), std::byte{0x5A});
      for (std::size_t i = 0; i < index.size(); ++i) {
        const std::byte* const want =
            index[i] == kOutside
                ? fill.data()
                : row.data() + static_cast<std::size_t>(index[i]) * bytes;
        ASSERT_EQ(std::memcmp(got.data() + i * bytes, want, bytes), 0)
            << "case " << again << ", level " << static_cast<int>(level);
      }
    }
  }
}

TEST(TransformMoves, SinksWriteWhatTheyAreGivenAndNoMore) {
  for (const CpuLevel level : levels_to_move_at())
    for (const bool past : {false, true})
      for (std::size_t offset = 0; offset < 70; offset += 3)
        for (const std::size_t row : {1, 3, 63, 64, 65, 200, 900, 3000, 9001}) {
          RowSink sink(row, past ? streaming_copy(level) : nullptr);
          for (int again = 0; again < 2; ++again) {
            const std::size_t rows = 1 + 10'000 / row;
            const std::vector<std::byte> all = counted_bytes(rows * row);
            std::vector<std::byte> memory(rows * row + 200, std::byte{0x5A});
            sink.begin(memory.data() + offset);
            for (std::size_t y = 0; y < rows; ++y) {
              if (y % 3 == 0) {
                sink.write(all.data() + y * row, row);
              } else {
                std::memcpy(sink.room(), all.data() + y * row, row);
                sink.wrote(row);
              }
            }
            sink.end();
            finish_streaming();
            ASSERT_EQ(std::memcmp(memory.data() + offset, all.data(), all.size()), 0)
                << "rows of " << row << " bytes, " << offset << " past";
            for (std::size_t i = 0; i < memory.size(); ++i)
              if (i < offset || i >= offset + all.size()) {
                ASSERT_EQ(memory[i], std::byte{0x5A});
              }
          }
        }
}

TEST(TransformMoves, SinksTakeAnyNumberOfBytesAtOnce) {
  const std::vector<std::byte> all = counted_bytes(100'000);
  std::vector<std::byte> memory(all.size() + 64);
  RowSink sink(10, streaming_copy());
  sink.begin(memory.data() + 7);
  sink.write(all.data(), 5);
  sink.write(all.data() + 5, all.size() - 5);
  sink.end();
  finish_streaming();
  ASSERT_EQ(std::memcmp(memory.data() + 7, all.data(), all.size()), 0);
}

TEST(TransformMoves, HalvesAreReadAsNumbersSay) {
  std::vector<std::uint16_t> halves(1 << 16);
  std::iota(halves.begin(), halves.end(), std::uint16_t{0});
  for (const CpuLevel level : levels_to_move_at())
    for (std::size_t first = 0; first < 40; first += 7) {
      std::vector<float> got(halves.size() - first);
      read_halves(reinterpret_cast<const std::byte*>(halves.data() + first),
                  static_cast<std::ptrdiff_t>(got.size()), got.data(), level);
      for (std::size_t i = 0; i < got.size(); ++i)
        ASSERT_EQ(exact::bits(got[i]), exact::bits(float_of_half(halves[first + i])))
            << halves[first + i];
    }
}

TEST(TransformMoves, HalvesAreWrittenAsNumbersSay) {
  // All halves and what lies close to the middle between two, then all over.
  std::vector<float> floats;
  for (std::uint32_t half = 0; half < 1u << 16; ++half)
    for (const std::uint32_t off : {0u, 1u, 0xFFFu, 0x1000u, 0x1001u, 0x1FFFu})
      floats.push_back(exact::float_of(
          exact::bits(float_of_half(static_cast<std::uint16_t>(half))) + off));
  for (std::uint64_t word = 0; word < 1ull << 32; word += 9973)
    floats.push_back(exact::float_of(static_cast<std::uint32_t>(word)));
  for (const CpuLevel level : levels_to_move_at())
    for (std::size_t first = 0; first < 17; first += 5) {
      const std::size_t count = floats.size() - first;
      std::vector<std::byte> got(2 * count + 1, std::byte{0x5A});
      write_halves(floats.data() + first, static_cast<std::ptrdiff_t>(count),
                   got.data(), level);
      ASSERT_EQ(got.back(), std::byte{0x5A});
      std::vector<float> rounded(floats.begin() + static_cast<std::ptrdiff_t>(first),
                                 floats.end());
      round_halves(rounded.data(), static_cast<std::ptrdiff_t>(count), level);
      for (std::size_t i = 0; i < count; ++i) {
        std::uint16_t half;
        std::memcpy(&half, got.data() + 2 * i, 2);
        ASSERT_EQ(half, half_of(floats[first + i]))
            << exact::bits(floats[first + i]) << ", level " << static_cast<int>(level);
        ASSERT_EQ(exact::bits(rounded[i]), exact::bits(float_of_half(half)));
      }
    }
}

}  // namespace
}  // namespace echobuf::transform
