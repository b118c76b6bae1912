#include "echobuf/store/copy.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <vector>

#include "echobuf/draw/copy_ahead.hpp"
#include "echobuf/store/memory.hpp"

namespace {

using echobuf::CpuLevel;
using echobuf::Lookahead;
using echobuf::RowCopyAhead;

struct Named {
  std::function<void(std::byte*, const std::byte*, std::size_t)> copy;
  int level;  // -1: through the caches
};

std::vector<Named> copies() {
  std::vector<Named> all = {{echobuf::copy_row, -1}};
  for (int level = 0; level <= static_cast<int>(echobuf::cpu_level()); ++level)
    all.push_back({echobuf::streaming_copy(static_cast<CpuLevel>(level)), level});
  for (int level = 0; level <= static_cast<int>(echobuf::cpu_level()); ++level)
    for (const RowCopyAhead copy :
         {echobuf::cold_copy_ahead(static_cast<CpuLevel>(level)),
          echobuf::streaming_copy_ahead(static_cast<CpuLevel>(level))})
      all.push_back({[copy](std::byte* to, const std::byte* from, std::size_t bytes) {
                       copy(to, from, bytes, {from + bytes, from, bytes});
                     },
                     level});
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

TEST(Lookahead, GoesOnInTheNextRecord) {
  const std::vector<std::byte> record(100), next(100);
  const Lookahead ahead{record.data() + 100, next.data(), 60};
  EXPECT_EQ(ahead.after(record.data()), record.data() + 60);
  EXPECT_EQ(ahead.after(record.data() + 39), record.data() + 99);
  EXPECT_EQ(ahead.after(record.data() + 40), next.data());
  EXPECT_EQ(ahead.after(record.data() + 99), next.data() + 59);
}

}  // namespace
