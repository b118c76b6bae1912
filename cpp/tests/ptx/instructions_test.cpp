// Instructions that tests/on_cuda/test_ptx_*.py does not compare with Python's numbers:
// fields, predicates, vectors, saturation, and what is refused.
#include <algorithm>
#include <bit>

#include "support.hpp"

namespace echobuf::ptx::test {
namespace {

/// A field bit by bit, as the instruction set describes it.
std::uint64_t field_of(std::uint64_t value, unsigned begin, unsigned length,
                       bool with_sign, unsigned bits) {
  std::uint64_t result = 0;
  const unsigned last = std::min(begin + length - 1, bits - 1);
  const bool sign = with_sign && length > 0 && (value >> last & 1) != 0;
  for (unsigned i = 0; i < bits; ++i) {
    const bool inside = i < length && begin + i < bits;
    const bool bit = inside ? (value >> (begin + i) & 1) != 0 : sign;
    result |= static_cast<std::uint64_t>(bit) << i;
  }
  return result;
}

TEST(PtxLogic, FieldsAreExtractedAndInserted) {
  for (const unsigned bits : {32U, 64U}) {
    std::vector<Row> rows;
    std::vector<Row> inserted;
    for (const std::uint64_t value : integer_edges(bits)) {
      for (const std::uint64_t begin : {0, 1, 7, 31, 32, 63, 64, 255}) {
        for (const std::uint64_t length : {0, 1, 5, 31, 32, 33, 64, 255}) {
          rows.push_back({value, begin, length});
          inserted.push_back(
              {0x123456789ABCDEF0U >> (64 - bits), value, begin, length});
        }
      }
    }
    const std::string width = std::to_string(bits);
    const auto plain =
        results("bfe.u" + width + " %z, %a, %b, %c", bits, {bits, 32, 32}, rows);
    const auto sign =
        results("bfe.s" + width + " %z, %a, %b, %c", bits, {bits, 32, 32}, rows);
    const auto put = results("bfi.b" + width + " %z, %a, %b, %c, %e", bits,
                             {bits, bits, 32, 32}, inserted);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto begin = static_cast<unsigned>(rows[i][1]);
      const auto length = static_cast<unsigned>(rows[i][2]);
      ASSERT_EQ(plain[i], field_of(rows[i][0], begin, length, false, bits));
      ASSERT_EQ(sign[i], field_of(rows[i][0], begin, length, true, bits));
      std::uint64_t expected = rows[i][0];
      for (unsigned k = 0; k < length && begin + k < bits; ++k) {
        const std::uint64_t one = std::uint64_t{1} << (begin + k);
        expected = (inserted[i][0] >> k & 1) != 0 ? expected | one : expected & ~one;
      }
      ASSERT_EQ(put[i], expected);
    }
  }
}

TEST(PtxLogic, SelectionAndPredicates) {
  const std::vector<Row> rows{{5, 9, 0}, {5, 9, 1}};
  const std::vector<std::uint64_t> expected{9, 5};
  for (const char* const type : {".b32", ".u32", ".f32"})
    EXPECT_EQ(
        results(std::string("selp") + type + " %z, %a, %b, %c", 32, {32, 32, 1}, rows),
        expected);
  // setp with a third operand; %c is the predicate of each row.
  const std::vector<Row> both{{1, 2, 0}, {1, 2, 1}, {2, 2, 0}, {2, 2, 1}};
  const std::vector<unsigned> bits{32, 32, 1};
  using Words = std::vector<std::uint64_t>;
  EXPECT_EQ(results("setp.lt.and.u32 %z, %a, %b, %c", 1, bits, both),
            (Words{0, 1, 0, 0}));
  EXPECT_EQ(results("setp.lt.or.u32 %z, %a, %b, %c", 1, bits, both),
            (Words{1, 1, 0, 1}));
  EXPECT_EQ(results("setp.lt.xor.u32 %z, %a, %b, !%c", 1, bits, both),
            (Words{0, 1, 1, 0}));
}

TEST(PtxLogic, VectorsArePackedAndUnpacked) {
  const std::string text = kernel(R"(
  ld.global.v2.b64 {%d1, %d2}, [%in];
  mov.b64 {%r1, %r2}, %d1;
  mov.b64 {_, %r3}, %d2;
  mov.b32 {%h1, %h2}, %r1;
  mov.b32 %r4, {%h2, %h1};
  mov.b64 %d3, {%r4, %r2};
  st.global.v2.u64 [%out], {%d3, %d2};
  st.global.u32 [%out+16], %r3;
  st.global.v4.u8 [%out+20], {1, %h1, 3, 4};
  ret;)");
  RunSettings settings;
  settings.in = {0x1122334455667788, 0x99AABBCCDDEEFF00};
  settings.out = 3;
  const std::vector<std::uint64_t> expected{0x1122334477885566, 0x99AABBCCDDEEFF00,
                                            0x0403880199AABBCC};
  EXPECT_EQ(run(text, settings), expected);
}

TEST(PtxLogic, LoadsExtendIntoWiderRegisters) {
  const std::string text = kernel(R"(
  ld.global.s8 %d1, [%in];
  ld.global.u8 %d2, [%in];
  ld.global.s16 %r1, [%in];
  ld.global.s8 %h1, [%in];
  cvt.u64.u32 %d3, %r1;
  cvt.u64.u16 %d4, %h1;
  st.global.v2.u64 [%out], {%d1, %d2};
  st.global.v2.u64 [%out+16], {%d3, %d4};
  ret;)");
  RunSettings settings;
  settings.in = {0x80F1};
  settings.out = 4;
  const std::vector<std::uint64_t> expected{0xFFFFFFFFFFFFFFF1, 0xF1, 0xFFFF80F1,
                                            0xFFF1};
  EXPECT_EQ(run(text, settings), expected);
}

TEST(PtxConvert, FloatsSaturateToOne) {
  const std::vector<Row> rows{{std::bit_cast<std::uint32_t>(1.5F)},
                              {std::bit_cast<std::uint32_t>(-1.5F)},
                              {0x7FC00000}};
  const std::vector<std::uint64_t> expected{std::bit_cast<std::uint32_t>(1.0F), 0, 0};
  EXPECT_EQ(results("cvt.sat.f32.f32 %z, %a", 32, {32}, rows), expected);
}

TEST(PtxConvert, RoundingIsSaidWhereItIsNeeded) {
  EXPECT_NE(refusal("cvt.f32.s32 %f1, %r1;").find("rounding is missing"),
            std::string::npos);
  EXPECT_NE(refusal("cvt.f32.f64 %f1, %g1;").find("rounding is missing"),
            std::string::npos);
  EXPECT_NE(refusal("cvt.s32.f32 %r1, %f1;").find("rounding is missing"),
            std::string::npos);
  EXPECT_NE(refusal("cvt.rn.f64.f32 %g1, %f1;").find("nothing is to be rounded"),
            std::string::npos);
  EXPECT_NE(refusal("cvt.rzi.s32.s32 %r1, %r2;"), "");
}

TEST(PtxFloatsRefused, ArithmeticWhoseRoundingPtxasChooses) {
  EXPECT_NE(refusal("add.f32 %f1, %f2, %f3;").find("without .rn"), std::string::npos);
  EXPECT_NE(refusal("div.approx.f32 %f1, %f2, %f3;"), "");
  EXPECT_NE(refusal("add.rn.ftz.f32 %f1, %f2, %f3;"), "");
  EXPECT_NE(refusal("add.rz.f32 %f1, %f2, %f3;"), "");
  EXPECT_EQ(refusal("add.rn.f32 %f1, %f2, 0f3F800000;"), "");
}

TEST(PtxIntegers, NegativeResultsBecomeZero) {
  const std::vector<std::uint64_t> minus_one{0xFFFFFFFF, 2};
  for (const Row& row : rows_of(minus_one, 2)) {
    const auto a = static_cast<std::int32_t>(row[0]);
    const auto b = static_cast<std::int32_t>(row[1]);
    const std::string operands = ".s32 %z, %a, %b";
    EXPECT_EQ(results("min.relu" + operands, 32, {32, 32}, {row})[0],
              static_cast<std::uint64_t>(std::max(std::min(a, b), 0)));
    EXPECT_EQ(results("max.relu" + operands, 32, {32, 32}, {row})[0],
              static_cast<std::uint64_t>(std::max(std::max(a, b), 0)));
  }
  EXPECT_NE(refusal("min.relu.u32 %r1, %r2, %r3;"), "");
  EXPECT_NE(refusal("min.relu.f32 %f1, %f2, %f3;"), "");
}

TEST(PtxIntegers, DivisionByZero) {
  const std::string text = kernel("  div.u32 %r1, 5, %t;\n  ret;");
  const auto fault = fault_of(text, {});
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), FaultKind::kArithmetic);
  EXPECT_EQ(fault->line(), line_of(text, "div.u32"));
}

}  // namespace
}  // namespace echobuf::ptx::test
