// Texts that are refused, with the line; launches that are.
#include <span>

#include "support.hpp"

namespace echobuf::ptx::test {
namespace {

std::string message_of(const std::string& text) {
  try {
    parse(text);
  } catch (const ParseError& error) {
    return error.what();
  }
  return "";
}

bool says(const std::string& message, const std::string& part) {
  return message.find(part) != std::string::npos;
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = kernel("  st.global.u64 [%at], 1;\n  ret;");
  return text.replace(text.find(from), from.size(), to);
}

TEST(PtxParse, VersionsAndTargets) {
  EXPECT_EQ(message_of(kernel("  ret;")), "");
  EXPECT_TRUE(says(message_of(changed("8.5", "5.0")), "line 1: PTX from 6.3"));
  EXPECT_TRUE(says(message_of(changed("8.5", "10.0")), "line 1: PTX from 6.3"));
  EXPECT_EQ(message_of(changed("8.5", "9.0")), "");
  EXPECT_TRUE(
      says(message_of(changed("sm_90", "sm_35")), "line 2: unsupported target"));
  for (const char* const target : {"sm_75", "sm_80", "sm_100"})
    EXPECT_EQ(message_of(changed("sm_90", target)), "");
  EXPECT_TRUE(says(message_of(changed("_size 64", "_size 32")), "line 3: "));
  EXPECT_TRUE(says(message_of(""), "line 1: expected .version"));
}

TEST(PtxParse, EveryTruncationIsRefused) {
  const std::string text = kernel(R"(
  .local .align 8 .b8 place[16];
  setp.eq.u32 %p1, %t, 0;
  @%p1 bra END;
  mov.b64 {%r1, %r2}, %in; // a comment
END:
  ret;)",
                                  ".global .align 4 .f32 x = 0f3F800000;");
  EXPECT_EQ(message_of(text), "");
  for (std::size_t end = 0; end + 2 < text.size(); ++end)
    EXPECT_TRUE(says(message_of(text.substr(0, end)), "line ")) << text.substr(0, end);
}

TEST(PtxParse, UnknownThingsAreNamedWithTheirLine) {
  const std::string text =
      kernel("  ret;\n  shfl.sync.idx.b32 %r1, %r2, 0, 31, -1;\n  ret;");
  EXPECT_EQ(message_of(text),
            "line " + std::to_string(line_of(text, "shfl")) + ": unknown opcode shfl");
  EXPECT_TRUE(says(refusal("ld.global.volatile2.u32 %r1, [%in];"), "volatile2"));
  EXPECT_TRUE(says(refusal("add.s32.x %r1, %r2, %r3;"), "unknown modifier 'x'"));
  EXPECT_TRUE(says(refusal("add.cc.s32 %r1, %r2, %r3;"), "unknown modifier 'cc'"));
  EXPECT_TRUE(says(refusal("add.s32 %r1, %r2, %q;"), "unknown name %q"));
  EXPECT_TRUE(says(refusal("mov.u32 %r1, %warpid;"), "unknown name %warpid"));
  EXPECT_TRUE(says(refusal("bra NOWHERE;"), "unknown label NOWHERE"));
  EXPECT_TRUE(says(refusal(".pragma \"enable_smem_spilling\";"), "unknown pragma"));
  EXPECT_TRUE(says(refusal("mov.u32 %r1, 12z;"), "not a number"));
  EXPECT_TRUE(says(refusal("mov.f32 %f1, 0f3F8;"), "not a number"));
  EXPECT_TRUE(says(refusal("mov.u32 %r1, ?;"), "unexpected character"));
  EXPECT_TRUE(says(refusal(".surfref a;"), "unknown directive .surfref"));
  EXPECT_TRUE(says(message_of(changed(".visible .entry", ".visible .func")),
                   "unknown directive .func"));
}

TEST(PtxParse, NothingBehindALocationIsSkipped) {
  const auto text = [](const std::string& location) {
    return kernel("  " + location + " st.global.u64 [%out], 7;\n  ret;",
                  ".file 1 \"a.cu\", 1, 2\n.file 2 \"b.cuh\"");
  };
  for (const char* const location :
       {".loc 1 20 3", ".loc 1 20 3, function_name $L__info, inlined_at 2 4 1",
        ".loc 1 20 3, function_name $L__info + 9, inlined_at 2 4 1"})
    EXPECT_EQ(run(text(location), {}), std::vector<std::uint64_t>{7}) << location;
  for (const char* const location : {".loc 1 20", ".loc 1 20 3, function_name $L__info",
                                     ".loc 1 20 3, inlined_at 2 4 1"})
    EXPECT_TRUE(says(message_of(text(location)), "line ")) << location;
}

TEST(PtxParse, VariablesThatPtxasHasNoRoomFor) {
  const auto module = [](const std::string& declaration) {
    return message_of(kernel("  ret;", declaration));
  };
  EXPECT_EQ(module(".shared .align 4 .b8 a[49152];"), "");
  EXPECT_TRUE(says(module(".shared .align 4 .b8 a[49153];"), "too many bytes"));
  EXPECT_TRUE(says(refusal(".shared .b8 a[40000];\n  .shared .b8 b[9153];"),
                   "k has 49153 bytes of shared memory; ptxas takes 49152"));
  EXPECT_TRUE(says(module(".const .b32 a[16385];"), "too many bytes"));
  EXPECT_TRUE(says(module(".global .b32 a[4294967296][4294967296];"),
                   "line 4: a has too many bytes"));
  EXPECT_TRUE(says(refusal(".local .b8 a[524289];"), "too many bytes"));
  EXPECT_TRUE(says(message_of(changed(".param .u64 in,", ".param .b8 in[32760],")),
                   "k has 32768 bytes of parameters; ptxas takes 32764"));
  std::string old = changed(".param .u64 in,", ".param .b8 in[4096],");
  EXPECT_FALSE(says(message_of(old), "parameters"));
  EXPECT_TRUE(says(message_of(old.replace(old.find("8.5"), 3, "8.0")),
                   "k has 4104 bytes of parameters; ptxas takes 4096"));
}

TEST(PtxParse, OperandsMustFit) {
  for (const char* const wrong : {"add.s32 %r1, %r2, %d3;",
                                  "add.s32 %r1, %r2;",
                                  "add.s32 %r1, %r2, 0f3F800000;",
                                  "add.s32 %r1, %r2, 4294967296;",
                                  "add.rn.f32 %g1, %f2, %f3;",
                                  "and.pred %p1, %p2, %r1;",
                                  "mov.u64 %r1, %in;",
                                  "ld.global.u32 %h1, [%in];",
                                  "ld.global.u32 %r1, [%r2];",
                                  "ld.global.u32 %r1, %in;",
                                  "ld.global.v2.u32 %r1, [%in];",
                                  "ld.global.v4.u64 {%d1, %d2, %d3, %d4}, [%in];",
                                  "st.param.u32 [in], %r1;",
                                  "st.global.u32 5, %r1;",
                                  "ld.shared.u32 %r1, [in];",
                                  "selp.b32 %r1, %r2, %r3, %r4;",
                                  "mov.b64 {%r1, %h1}, %in;",
                                  "bar.sync 0, 64;",
                                  "bar.sync 16;",
                                  "bar.arrive 0, 64;",
                                  "lop3.b32 %r1, %r2, %r3, %r4, %r5;",
                                  "mov.u32 5, %r1;",
                                  "setp.lt.u32 %p1|%p2, %r1, %r2;",
                                  "ret.uni;"})
    EXPECT_NE(refusal(wrong), "") << wrong;
}

TEST(PtxParse, NumbersInEveryForm) {
  const std::string text = kernel(R"(
  mov.u64 %d1, 0x10;
  add.u64 %d1, %d1, 0b11;
  add.u64 %d1, %d1, 010;
  add.u64 %d1, %d1, 5U;
  add.s64 %d1, %d1, -1;
  mov.b32 %r1, 0f40490FDB;
  mov.f64 %g1, 0d400921FB54442D18;
  add.rn.f64 %g1, %g1, 1.5;
  st.global.u64 [%out], %d1;
  st.global.u32 [%out+8], %r1;
  st.global.b32 [%out+12], -2;
  st.global.f64 [%out+0x10], %g1;
  mov.u64 %d2, table;
  ld.global.u16 %d3, [table+4];
  ld.global.s16 %d4, [%d2+2];
  st.global.v2.u64 [%out+32], {%d3, %d4};
  st.global.u64 [%out+24], 0;
  ret;)",
                                  ".global .align 4 .b16 table[4] = {1, -2, 3};");
  RunSettings settings;
  settings.out = 6;
  const std::vector<std::uint64_t> expected{
      31, 0xFFFFFFFE40490FDB, 0x401290FDAA22168C, 0, 3, 0xFFFFFFFFFFFFFFFE};
  EXPECT_EQ(run(text, settings), expected);
}

TEST(PtxLaunch, RefusesWhatADriverRefuses) {
  Machine machine(1);
  const LoadedModule& module =
      machine.load(changed("(.param .u64 in, .param .u64 out)",
                           "(.param .u64 in, .param .u64 out)\n.maxntid 64, 1, 1"));
  const std::uint64_t address = machine.memory().allocate(64 * 8);
  const std::span<const unsigned char> argument(
      reinterpret_cast<const unsigned char*>(&address), 8);
  const auto launch =
      [&](std::uint32_t threads,
          const std::vector<std::span<const unsigned char>>& arguments) {
        LaunchSettings settings;
        settings.block.x = threads;
        machine.launch(module, "k", settings, arguments);
      };
  launch(64, {argument, argument});
  EXPECT_THROW(launch(65, {argument, argument}), HostError);
  EXPECT_THROW(launch(0, {argument, argument}), HostError);
  for (const Extent grid : {Extent{1, 65536, 1}, Extent{1, 1, 65536},
                            Extent{0x80000000, 1, 1}, Extent{1, 0, 1}}) {
    LaunchSettings settings;
    settings.grid = grid;
    EXPECT_THROW(machine.launch(module, "k", settings, {argument, argument}),
                 HostError);
  }
  const LoadedModule& wide = machine.load(kernel("  ret;"));
  LaunchSettings deep;
  deep.block = {1, 1, 64};
  machine.launch(wide, "k", deep, {argument, argument});
  deep.block.z = 65;
  EXPECT_THROW(machine.launch(wide, "k", deep, {argument, argument}), HostError);
  EXPECT_THROW(launch(64, {argument}), HostError);
  EXPECT_THROW(launch(64, {argument, argument, argument}), HostError);
  EXPECT_THROW(launch(64, {argument, argument.first(4)}), HostError);
  EXPECT_THROW(machine.launch(module, "other", {}, {argument, argument}), HostError);
}

}  // namespace
}  // namespace echobuf::ptx::test
