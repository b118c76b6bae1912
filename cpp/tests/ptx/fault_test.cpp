// Faults in memory and registers; each beside the same kernel without it.
#include <span>

#include "support.hpp"

namespace echobuf::ptx::test {
namespace {

/// Expects `body` to run, and `broken`, which replaces `part` of it, to end with a
/// fault of that kind, at the line of `broken`, whose message holds `said`.
struct Pair {
  std::string body;
  std::string part;
  std::string broken;
  FaultKind kind;
  std::string said;
  std::string declarations;
  RunSettings settings;
};

void check(const Pair& pair) {
  const std::string good = kernel(pair.body, pair.declarations);
  EXPECT_EQ(fault_of(good, pair.settings), std::nullopt);
  std::string bad = good;
  const std::size_t place = bad.find(pair.part);
  ASSERT_NE(place, std::string::npos) << pair.part;
  bad.replace(place, pair.part.size(), pair.broken);
  const auto fault = fault_of(bad, pair.settings);
  ASSERT_TRUE(fault) << pair.broken;
  EXPECT_EQ(fault->kind(), pair.kind) << fault->what();
  const std::string text = fault->what();
  EXPECT_EQ(text.find(std::string(name_of(pair.kind)) + ": k, line "), 0U) << text;
  EXPECT_NE(text.find("block (0, 0, 0), thread ("), std::string::npos) << text;
  EXPECT_NE(text.find(pair.said), std::string::npos) << text;
}

RunSettings four() {
  RunSettings settings;
  settings.in = {1, 2, 3, 4};
  settings.out = 4;
  settings.threads = 4;
  return settings;
}

const char* const kCopy = R"(
  mul.wide.u32 %d1, %t, 8;
  add.u64 %d2, %d1, %in;
  ld.global.u64 %d3, [%d2];
  st.global.u64 [%at], %d3;
  ret;)";

TEST(PtxFaults, AccessesOutsideAnAllocation) {
  check({kCopy, "[%d2]", "[%d2+8]", FaultKind::kOutOfBounds, "thread (3, 0, 0)", "",
         four()});
  check({kCopy, "[%d2]", "[%d2+-8]", FaultKind::kOutOfBounds, "thread (0, 0, 0)", "",
         four()});
  check({kCopy, "[%at]", "[%at+8]", FaultKind::kOutOfBounds, "allocation 2, 32 bytes",
         "", four()});
  check({kCopy, "[%at]", "[0]", FaultKind::kOutOfBounds, "8 bytes at address 0x0", "",
         four()});
}

TEST(PtxFaults, MisalignedAccesses) {
  check({kCopy, "[%d2]", "[%d2+4]", FaultKind::kMisaligned, "not a multiple of 8", "",
         four()});
  check({R"(
  setp.ne.u32 %p1, %t, 0;
  @%p1 ret;
  ld.global.v2.u64 {%d1, %d2}, [%in];
  st.global.v2.u64 [%out], {%d1, %d2};
  st.global.v2.u64 [%out+16], {%d1, %d2};
  ret;)",
         "[%in]", "[%in+8]", FaultKind::kMisaligned, "16 bytes at address", "",
         four()});
}

TEST(PtxFaults, MemoryThatNothingHasWritten) {
  check({kCopy, "%d1, %in;", "%d1, %out;", FaultKind::kUnwrittenMemory,
         "byte 0 was never written", "", four()});
  const std::string shared = R"(
  mov.u32 %r1, words;
  mad.lo.u32 %r2, %t, 4, %r1;
  st.shared.u16 [%r2], 7;
  st.shared.u16 [%r2+2], 9;
  ld.shared.u32 %r3, [%r2];
  cvt.u64.u32 %d1, %r3;
  st.global.u64 [%at], %d1;
  ret;)";
  check({shared, "[%r2+2]", "[%r2]", FaultKind::kUnwrittenMemory, "byte 2",
         ".shared .align 4 .b8 words[16];", four()});
  const std::string local = R"(
  .local .align 8 .b8 place[16];
  mov.u64 %d1, place;
  cvta.local.u64 %d2, %d1;
  st.u64 [%d2+8], %at;
  ld.local.u64 %d3, [%d1+8];
  st.global.u64 [%at], %d3;
  ret;)";
  check({local, "ld.local.u64 %d3, [%d1+8]", "ld.local.u64 %d3, [%d1]",
         FaultKind::kUnwrittenMemory, "(ld.local.u64)", "", four()});
  check({local, "st.u64 [%d2+8]", "st.u64 [%d2+16]", FaultKind::kOutOfBounds,
         "variables in local memory", "", four()});
}

TEST(PtxFaults, BytesThatTheCompilerSaysAreNotUsedMayBeUnwritten) {
  const std::string body = R"(
  .local .align 8 .b8 place[8];
  mov.u64 %d1, place;
  st.local.u32 [%d1], %t;
  .pragma "used_bytes_mask 15";
  ld.local.v2.u32 {%r1, %r2}, [%d1];
  cvt.u64.u32 %d2, %r1;
  st.global.u64 [%at], %d2;
  ret;)";
  check(
      {body, "mask 15", "mask 31", FaultKind::kUnwrittenMemory, "byte 4", "", four()});
}

TEST(PtxFaults, RegistersThatNothingHasWritten) {
  check({kCopy, "%d1, %t, 8", "%d5, %t, 8", FaultKind::kUnwrittenRegister, ": %d1", "",
         four()});
  check({kCopy, "st.global.u64 [%at], %d3", "st.global.u64 [%at], %d9",
         FaultKind::kUnwrittenRegister, ": %d9", "", four()});
  // In one branch alone.
  check({R"(
  mov.u64 %d1, 1;
  setp.eq.u32 %p1, %t, 2;
  @%p1 mov.u64 %d1, 2;
  st.global.u64 [%at], %d1;
  ret;)",
         "mov.u64 %d1, 1", "mov.u64 %d2, 1", FaultKind::kUnwrittenRegister,
         "thread (0, 0, 0): %d1", "", four()});
  check({"  mov.pred %p1, 1;\n  @%p1 st.global.u64 [%at], 1;\n  ret;", "mov.pred %p1",
         "mov.pred %p2", FaultKind::kUnwrittenRegister, ": %p1", "", four()});
}

TEST(PtxFaults, MemoryThatCannotBeWritten) {
  const std::string body = R"(
  cvta.param.u64 %d1, in;
  ld.u64 %d2, [%d1];
  ld.const.u64 %d3, [fixed];
  mov.u64 %d4, fixed;
  st.u64 [%at], %d3;
  ret;)";
  const std::string constant = ".const .align 8 .u64 fixed[2] = {7, -1};";
  check({body, "st.u64 [%at]", "st.u64 [%d1]", FaultKind::kReadOnly, "(st.u64)",
         constant, four()});
  check({body, "st.u64 [%at]", "st.u64 [%d4]", FaultKind::kReadOnly, "(st.u64)",
         constant, four()});
  RunSettings settings = four();
  EXPECT_EQ(run(kernel(body, constant), settings),
            (std::vector<std::uint64_t>{7, 7, 7, 7}));
}

TEST(PtxFaults, MemoryThatWasFreed) {
  Machine machine(1);
  const LoadedModule& module =
      machine.load(kernel("  st.global.u64 [%out], %in;\n  ret;"));
  const std::uint64_t address = machine.memory().allocate(8);
  const auto* const bytes = reinterpret_cast<const unsigned char*>(&address);
  const std::span<const unsigned char> argument(bytes, 8);
  machine.launch(module, "k", {}, {argument, argument});
  machine.memory().free(address);
  try {
    machine.launch(module, "k", {}, {argument, argument});
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.kind(), FaultKind::kFreed) << fault.what();
  }
  EXPECT_THROW(machine.memory().free(address), HostError);
  unsigned char byte = 0;
  EXPECT_THROW(machine.memory().read(address, {&byte, 1}), HostError);
}

}  // namespace
}  // namespace echobuf::ptx::test
