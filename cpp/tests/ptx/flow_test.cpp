// Threads that part and meet again, barriers, schedules.
#include <algorithm>
#include <set>

#include "support.hpp"

namespace echobuf::ptx::test {
namespace {

using Words = std::vector<std::uint64_t>;

Words numbers(std::uint32_t count, std::uint64_t (*of)(std::uint64_t)) {
  Words found(count);
  for (std::uint64_t i = 0; i < count; ++i) found[i] = of(i);
  return found;
}

TEST(PtxFlow, ThreadsThatLeaveEarlyAreNotWaitedFor) {
  const std::string text = kernel(R"(
  setp.gt.u32 %p1, %t, 40;
  mov.u64 %d1, 3;
  @%p1 bra LEAVE;
  shl.b32 %r2, %t, 2;
  mov.u32 %r3, words;
  add.u32 %r3, %r3, %r2;
  st.shared.u32 [%r3], %t;
  bar.sync 0;
  sub.u32 %r4, 40, %t;
  shl.b32 %r4, %r4, 2;
  mov.u32 %r5, words;
  add.u32 %r5, %r5, %r4;
  ld.shared.u32 %r6, [%r5];
  cvt.u64.u32 %d1, %r6;
  st.global.u64 [%at], %d1;
  ret;
LEAVE:
  st.global.u64 [%at], %d1;
  ret;)",
                                  ".shared .align 4 .b8 words[256];");
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    RunSettings settings;
    settings.threads = 70;
    settings.out = 70;
    settings.seed = seed;
    EXPECT_EQ(run(text, settings), numbers(70, [](std::uint64_t t) {
                return t > 40 ? std::uint64_t{3} : 40 - t;
              }));
  }
}

TEST(PtxFlow, BarriersOrderSharedMemory) {
  // A sum over a tree, as kernels of stages do it.
  const std::string text = kernel(R"(
  mov.u32 %r1, words;
  mad.lo.u32 %r2, %t, 4, %r1;
  st.shared.u32 [%r2], %t;
  mov.u32 %r3, 64;
AGAIN:
  bar.sync 0;
  setp.ge.u32 %p1, %t, %r3;
  @%p1 bra NEXT;
  mad.lo.u32 %r4, %r3, 4, %r2;
  ld.shared.u32 %r5, [%r4];
  ld.shared.u32 %r6, [%r2];
  add.u32 %r6, %r6, %r5;
  st.shared.u32 [%r2], %r6;
NEXT:
  shr.u32 %r3, %r3, 1;
  setp.ne.u32 %p2, %r3, 0;
  @%p2 bra AGAIN;
  setp.ne.u32 %p3, %t, 0;
  @%p3 ret;
  ld.shared.u32 %r7, [words];
  cvt.u64.u32 %d1, %r7;
  st.global.u64 [%at], %d1;
  ret;)",
                                  ".shared .align 4 .b8 words[512];");
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    RunSettings settings;
    settings.threads = 128;
    settings.seed = seed;
    EXPECT_EQ(run(text, settings), Words{128 * 127 / 2});
  }
}

TEST(PtxFlow, BarriersThatNotAllThreadsComeToAreFound) {
  const auto expect = [](const std::string& body, std::uint32_t threads,
                         const std::string& said) {
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      RunSettings settings;
      settings.threads = threads;
      settings.seed = seed;
      const auto fault = fault_of(kernel(body), settings);
      ASSERT_TRUE(fault) << said;
      EXPECT_EQ(fault->kind(), FaultKind::kDivergentBarrier) << fault->what();
      EXPECT_NE(std::string(fault->what()).find(said), std::string::npos)
          << fault->what();
    }
  };
  // In one branch, and another barrier in the other one.
  expect(R"(
  setp.lt.u32 %p1, %t, 5;
  @%p1 bra HERE;
  bar.sync 0;
  bra MEET;
HERE:
  bar.sync 0;
MEET:
  ret;)",
         32, "another one of its warp has");
  // In one branch alone, with the other threads behind it.
  expect(R"(
  setp.lt.u32 %p1, %t, 5;
  @%p1 bra MEET;
  bar.sync 0;
MEET:
  bar.sync 0;
  ret;)",
         32, "another one of its warp has");
  expect("  setp.lt.u32 %p1, %t, 5;\n  @%p1 bar.sync 0;\n  ret;", 32, "its predicate");
  // Warps at barriers of different lines.
  expect(R"(
  setp.lt.u32 %p1, %t, 32;
  @%p1 bra MEET;
  bar.sync 0;
MEET:
  bar.sync 0;
  ret;)",
         64, "another warp has come to that of line");
}

TEST(PtxFlow, BarriersMayHaveAPredicateThatAllThreadsShare) {
  const std::string body = R"(
  ld.global.u64 %d1, [%in];
  setp.eq.u64 %p1, %d1, 1;
  @%p1 bar.sync 0;
  bar.sync 0;
  st.global.u64 [%at], %d1;
  ret;)";
  RunSettings settings;
  settings.out = settings.threads = 70;
  for (const std::uint64_t word : {0U, 1U}) {
    settings.in = {word};
    EXPECT_EQ(run(kernel(body), settings), Words(70, word));
  }
  // In one warp alone: the others come to another barrier.
  const std::string text = kernel(R"(
  setp.lt.u32 %p1, %t, 32;
  @%p1 bar.sync 0;
  bar.sync 0;
  st.global.u64 [%at], 1;
  ret;)");
  const auto fault = fault_of(text, settings);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), FaultKind::kDivergentBarrier) << fault->what();
}

TEST(PtxFlow, UniformBranchesThatPartThreadsAreFound) {
  const std::string text = kernel(
      "  setp.lt.u32 %p1, %t, 5;\n  @%p1 bra.uni END;\n  bra END;\nEND:\n  ret;");
  RunSettings settings;
  settings.out = 0;
  settings.threads = 4;
  EXPECT_EQ(fault_of(text, settings), std::nullopt);
  settings.threads = 8;
  const auto fault = fault_of(text, settings);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), FaultKind::kDivergentBranch);
}

TEST(PtxFlow, KernelsWithoutAnEndAreEnded) {
  const std::string text = kernel("AGAIN:\n  bra AGAIN;");
  RunSettings settings;
  settings.threads = 64;
  settings.most_instructions = 1000;
  const auto fault = fault_of(text, settings);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), FaultKind::kLimit);
  EXPECT_EQ(fault->line(), line_of(text, "bra AGAIN"));
}

TEST(PtxFlow, TheSeedDecidesOnTheSchedule) {
  // The first fault shows the order in which threads ran.
  const std::string race =
      kernel("  cvt.u64.u32 %d0, %t;\n  st.global.u64 [%out], %d0;\n  ret;");
  std::set<std::string> faults;
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    RunSettings settings;
    settings.threads = 256;
    settings.blocks = 3;
    settings.seed = seed;
    // Of one warp the first two threads meet; which warp is of chance.
    const auto once = fault_of(race, settings);
    const auto again = fault_of(race, settings);
    ASSERT_TRUE(once && again);
    EXPECT_STREQ(once->what(), again->what());
    faults.insert(once->what());
  }
  EXPECT_GT(faults.size(), 3U);
}

}  // namespace
}  // namespace echobuf::ptx::test
