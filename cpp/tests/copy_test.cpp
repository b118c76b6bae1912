#include "echobuf/store/copy.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <vector>

#include "echobuf/draw/side_by_side.hpp"
#include "echobuf/store/memory.hpp"

namespace {

using echobuf::CopySideBySide;
using echobuf::CpuLevel;
using echobuf::RowsSideBySide;

struct Named {
  std::function<void(std::byte*, const std::byte*, std::size_t)> copy;
  int level;  // -1: through the caches
};

std::vector<Named> copies() {
  std::vector<Named> all = {{echobuf::copy_row, -1}};
  for (int level = 0; level <= static_cast<int>(echobuf::cpu_level()); ++level)
    all.push_back({echobuf::streaming_copy(static_cast<CpuLevel>(level)), level});
  for (int level = 0; level <= static_cast<int>(echobuf::cpu_level()); ++level)
    for (const bool stream : {false, true}) {
      const CopySideBySide copy =
          echobuf::side_by_side(stream, static_cast<CpuLevel>(level));
      all.push_back({[copy](std::byte* to, const std::byte* from, std::size_t bytes) {
                       copy({to, bytes, 1, {from}, {from}});
                     },
                     level});
    }
  return all;
}

/// Copies between two guarded places and looks at every byte.
void expect_exact(const Named& copy, std::size_t to_offset, std::size_t from_offset,
                  std::size_t bytes) {
  constexpr std::size_t kGuard = 64;
  static const echobuf::HostMemory from_memory(std::size_t{3} << 20);
  static const echobuf::HostMemory to_memory(std::size_t{3} << 20);
  std::byte* const from = from_memory.data() + from_offset;
  std::byte* const to = to_memory.data() + kGuard + to_offset;
  for (std::size_t i = 0; i < bytes; ++i) from[i] = static_cast<std::byte>(i * 31 + 7);
  std::memset(to - kGuard, 0xEE, bytes + 2 * kGuard);
  copy.copy(to, from, bytes);
  echobuf::finish_streaming();
  ASSERT_TRUE(bytes == 0 || std::memcmp(to, from, bytes) == 0)
      << "level " << copy.level << " to " << to_offset << " from " << from_offset
      << " bytes " << bytes;
  for (std::size_t i = 0; i < kGuard; ++i) {
    ASSERT_EQ(*(to - 1 - i), std::byte{0xEE}) << "level " << copy.level << " before";
    ASSERT_EQ(to[bytes + i], std::byte{0xEE}) << "level " << copy.level << " behind";
  }
}

TEST(RowCopy, IsExactAtAnyAlignmentAndLength) {
  for (const Named& copy : copies())
    for (std::size_t bytes = 0; bytes <= 300; ++bytes)
      for (std::size_t align = 0; align < 64; ++align) {
        // Every target alignment with some source alignment, and the other way round.
        expect_exact(copy, align, (align * 7 + bytes) % 64, bytes);
        if (HasFatalFailure()) return;
      }
}

TEST(RowCopy, IsExactForLongRows) {
  for (const Named& copy : copies())
    for (const std::size_t bytes : {1023u, 1024u, 4096u, 4097u, 150528u, 2000003u})
      for (const std::size_t align : {0u, 1u, 16u, 31u, 32u, 63u}) {
        expect_exact(copy, align, 63 - align, bytes);
        if (HasFatalFailure()) return;
      }
}

/// Rows of `bytes` that lie so far `apart`, the last one first, to consecutive ones.
void expect_exact_side_by_side(CopySideBySide copy, std::size_t count,
                               std::size_t bytes, std::size_t apart,
                               std::size_t align) {
  constexpr std::size_t kGuard = 64;
  std::vector<std::byte> from(count * apart + bytes);
  for (std::size_t i = 0; i < from.size(); ++i)
    from[i] = static_cast<std::byte>(i * 31 + i / 256 * 11 + 7);
  RowsSideBySide rows{};
  rows.bytes = bytes;
  rows.count = count;
  for (std::size_t k = 0; k < count; ++k) {
    rows.from[k] = from.data() + (count - 1 - k) * apart;
    rows.next[k] = from.data() + k * apart;
  }
  std::vector<std::byte> to(align + count * bytes + 2 * kGuard, std::byte{0xEE});
  rows.to = to.data() + kGuard + align;
  copy(rows);
  echobuf::finish_streaming();
  std::vector<std::byte> expected(to.size(), std::byte{0xEE});
  for (std::size_t k = 0; k < count; ++k)
    std::memcpy(expected.data() + kGuard + align + k * bytes, rows.from[k], bytes);
  ASSERT_EQ(to, expected) << count << " rows of " << bytes << " bytes, " << apart
                          << ", " << align;
}

TEST(CopySideBySide, CopiesEachRowToItsPlace) {
  for (int level = 0; level <= static_cast<int>(echobuf::cpu_level()); ++level)
    for (const bool stream : {false, true})
      for (std::size_t count = 1; count <= RowsSideBySide::kMost; ++count)
        for (const std::size_t bytes : {1024u, 1027u, 2111u, 4096u, 12288u, 40001u})
          for (const std::size_t apart : {bytes, bytes + 5})
            for (const std::size_t align : {0u, 1u, 32u, 63u}) {
              expect_exact_side_by_side(
                  echobuf::side_by_side(stream, static_cast<CpuLevel>(level)), count,
                  bytes, apart, align);
              if (HasFatalFailure()) return;
            }
}

}  // namespace
