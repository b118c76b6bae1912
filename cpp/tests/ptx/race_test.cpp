// Accesses that nothing orders.
#include <span>

#include "support.hpp"

namespace echobuf::ptx::test {
namespace {

constexpr const char* kShared = ".shared .align 8 .b8 words[1024];";

/// Expects that a launch has a race, or none, with each of six seeds.
void expect_race(const std::string& body, bool races, std::uint32_t threads = 64,
                 std::uint32_t blocks = 1) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    RunSettings settings;
    settings.threads = threads;
    settings.blocks = blocks;
    settings.in = {1, 2, 3, 4, 5, 6, 7, 8};
    settings.out = 64;
    settings.seed = seed;
    try {
      run(kernel(body, kShared), settings);
      EXPECT_FALSE(races) << body;
    } catch (const Fault& fault) {
      EXPECT_TRUE(races) << fault.what();
      EXPECT_EQ(fault.kind(), FaultKind::kRace) << fault.what();
      EXPECT_NE(
          std::string(fault.what()).find("nothing orders it and the access of line"),
          std::string::npos)
          << fault.what();
    } catch (const HostError&) {
      EXPECT_FALSE(races) << body;  // it has not written all of `out`
    }
  }
}

/// Each thread writes its word, and reads that of the next thread, or of its own.
std::string exchange(const std::string& between, const std::string& by) {
  return R"(
  mov.u32 %r1, words;
  mad.lo.u32 %r2, %t, 8, %r1;
  st.shared.u64 [%r2], %at;
)" + between +
         R"(
  add.u32 %r3, %t, )" +
         by + R"(;
  and.b32 %r3, %r3, 63;
  mad.lo.u32 %r4, %r3, 8, %r1;
  ld.shared.u64 %d1, [%r4];
  st.global.u64 [%at], %d1;
  ret;)";
}

TEST(PtxRaces, SharedMemoryNeedsABarrier) {
  expect_race(exchange("  bar.sync 0;", "1"), false);
  expect_race(exchange("  bar.sync 0;", "40"), false);
  expect_race(exchange("", "0"), false);
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    // Within a warp, too, where all threads seem to run together. The other thread's
    // word may not have been written yet.
    for (const char* const by : {"1", "40"}) {
      RunSettings settings;
      settings.threads = 64;
      settings.out = 64;
      settings.seed = seed;
      const auto fault = fault_of(kernel(exchange("", by), kShared), settings);
      ASSERT_TRUE(fault);
      EXPECT_TRUE(fault->kind() == FaultKind::kRace ||
                  fault->kind() == FaultKind::kUnwrittenMemory)
          << fault->what();
    }
  }
}

TEST(PtxRaces, WritesAfterReadsNeedABarrier) {
  const std::string body = R"(
  mov.u32 %r1, words;
  mad.lo.u32 %r2, %t, 8, %r1;
  st.shared.u64 [%r2], %at;
  bar.sync 0;
  ld.shared.u64 %d1, [words];
  AGAIN
  setp.eq.u32 %p1, %t, 5;
  @%p1 st.shared.u64 [words], %d1;
  ret;)";
  const auto with = [&](const std::string& barrier) {
    std::string text = body;
    return text.replace(text.find("AGAIN"), 5, barrier);
  };
  expect_race(with("bar.sync 0;"), false);
  expect_race(with(""), true);
}

TEST(PtxRaces, TwoReadsAreNone) {
  expect_race("  ld.global.u64 %d1, [%in];\n  ret;", false, 64, 3);
}

TEST(PtxRaces, TwoWritesOfTheSameAreOne) {
  expect_race("  st.global.u64 [%out], 1;\n  ret;", true);
  expect_race("  st.global.u64 [%out], 1;\n  ret;", false, 1);
}

TEST(PtxRaces, BytesOfOneWordAreApart) {
  expect_race(R"(
  cvt.u64.u32 %d1, %t;
  add.u64 %d1, %d1, %out;
  st.global.u8 [%d1], 1;
  ret;)",
              false);
}

TEST(PtxRaces, NothingOrdersBlocks) {
  const std::string body = R"(
  mov.u32 %r1, %ctaid.x;
  setp.ne.u32 %p1, %r1, 0;
  bar.sync 0;
  @%p1 bra READ;
  st.global.u64 [%out], 1;
  bra END;
READ:
  ld.global.u64 %d1, [%in];
END:
  bar.sync 0;
  ret;)";
  expect_race(body, false, 1, 4);
  std::string reads = body;
  reads.replace(reads.find("[%in]"), 5, "[%out]");
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    RunSettings settings;
    settings.blocks = 4;
    settings.seed = seed;
    const auto fault = fault_of(kernel(reads, kShared), settings);
    ASSERT_TRUE(fault);  // a race, or a read before the write
  }
  // The same shared word in each block is another one.
  expect_race("  st.shared.u64 [words], 1;\n  ret;", false, 1, 4);
}

TEST(PtxRaces, ReadsByManyBlocksAreKept) {
  // All blocks read, and then one of them writes.
  const std::string body = R"(
  ld.global.u64 %d1, [%in];
  bar.sync 0;
  mov.u32 %r1, %ctaid.x;
  setp.eq.u32 %p1, %r1, 2;
  setp.eq.and.u32 %p1, %t, 3, %p1;
  @%p1 st.global.u64 [%in], %d1;
  ret;)";
  expect_race(body, true, 32, 4);
  expect_race(body, false, 32, 1);
}

TEST(PtxRaces, LaunchesFollowEachOther) {
  Machine machine(1);
  const LoadedModule& module = machine.load(kernel(R"(
  st.global.u64 [%out], 1;
  ret;)"));
  const std::uint64_t address = machine.memory().allocate(8);
  const std::span<const unsigned char> argument(
      reinterpret_cast<const unsigned char*>(&address), 8);
  for (int i = 0; i < 3; ++i) machine.launch(module, "k", {}, {argument, argument});
}

TEST(PtxRaces, ReadOnlyLoadsSeeNothingThatIsWritten) {
  const std::string text = kernel(R"(
  st.global.u64 [%out], 1;
  ld.global.nc.u64 %d1, [%out];
  ret;)");
  const auto fault = fault_of(text, {});
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), FaultKind::kRace);
  EXPECT_EQ(fault->line(), line_of(text, "ld.global.nc"));
}

TEST(PtxRaces, NothingIsWrittenThatAReadOnlyLoadHasSeen) {
  const std::string body = R"(
  ld.global.nc.u64 %d1, [%in];
  bar.sync 0;
  setp.eq.u32 %p1, %t, 0;
  @%p1 st.global.u64 [%in], %d1;
  st.global.u64 [%at], %d1;
  ret;)";
  RunSettings settings;
  settings.in = {5};
  settings.out = settings.threads = 4;
  const std::string text = kernel(body);
  const auto fault = fault_of(text, settings);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), FaultKind::kRace);
  EXPECT_EQ(fault->line(), line_of(text, "@%p1 st"));
  std::string plain = body;
  EXPECT_EQ(fault_of(kernel(plain.replace(plain.find(".nc"), 3, "")), settings),
            std::nullopt);
}

}  // namespace
}  // namespace echobuf::ptx::test
