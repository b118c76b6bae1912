#include "echobuf/store/memory.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <system_error>

#include "echobuf/store/shared_memory.hpp"

namespace {

using echobuf::HostMemory;
using echobuf::SharedMemory;

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

TEST(SharedMemory, NamesTheLimitOfTheSizeOfFiles) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  int code = 0;
  try {
    const SharedMemory fits(4096);
    const SharedMemory refused(4097);
  } catch (const std::system_error& error) {
    code = error.code().value();
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(code, EFBIG);
}

}  // namespace
