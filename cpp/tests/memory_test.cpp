#include "echobuf/store/memory.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <new>

namespace {

using echobuf::HostMemory;

TEST(HostMemory, IsAlignedAndWritableToItsEnd) {
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64},
        std::size_t{65}, std::size_t{4096}, (std::size_t{1} << 20) - 1,
        std::size_t{1} << 20, (std::size_t{5} << 20) + 3}) {
    const HostMemory memory(bytes);
    EXPECT_GE(memory.bytes(), bytes);
    EXPECT_EQ(memory.bytes() % echobuf::kLeafAlignment, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory.data()) % echobuf::kLeafAlignment,
              0u);
    std::memset(memory.data(), 0xA5, memory.bytes());
    EXPECT_EQ(memory.data()[memory.bytes() - 1], std::byte{0xA5});
  }
}

TEST(HostMemory, ThrowsWhenThereIsNotEnough) {
  constexpr std::size_t kMost = std::numeric_limits<std::size_t>::max();
  EXPECT_THROW(HostMemory memory(kMost / 2), std::bad_alloc);
  EXPECT_THROW(HostMemory memory(kMost), std::bad_alloc);
}

}  // namespace
