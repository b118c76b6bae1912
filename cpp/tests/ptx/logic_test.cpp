// Bits: logic, fields, permutations, moves.
#include <algorithm>
#include <bit>

#include "support.hpp"

namespace echobuf::ptx::test {
namespace {

const std::vector<std::uint64_t> kWords = integer_edges(32);

TEST(PtxLogic, BitwiseInAllWidths) {
  for (const unsigned bits : {1U, 16U, 32U, 64U}) {
    const std::string type = bits == 1 ? ".pred" : ".b" + std::to_string(bits);
    const std::vector<std::uint64_t> values =
        bits == 1 ? std::vector<std::uint64_t>{0, 1} : integer_edges(bits);
    const auto rows = rows_of(values, 2);
    const std::vector<unsigned> in{bits, bits};
    const auto both = results("and" + type + " %z, %a, %b", bits, in, rows);
    const auto any = results("or" + type + " %z, %a, %b", bits, in, rows);
    const auto one = results("xor" + type + " %z, %a, %b", bits, in, rows);
    const auto none = results("not" + type + " %z, %a", bits, in, rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      ASSERT_EQ(both[i], rows[i][0] & rows[i][1]);
      ASSERT_EQ(any[i], rows[i][0] | rows[i][1]);
      ASSERT_EQ(one[i], rows[i][0] ^ rows[i][1]);
      ASSERT_EQ(none[i], low_bits(~rows[i][0], bits));
    }
  }
}

TEST(PtxLogic, Lop3HasEveryTable) {
  const std::vector<Row> rows{{0xF0F0F0F0, 0xCCCCCCCC, 0xAAAAAAAA}};
  // With these operands the table itself comes out, four times.
  for (unsigned table = 0; table < 256; table += 5) {
    const auto found = results("lop3.b32 %z, %a, %b, %c, " + std::to_string(table), 32,
                               {32, 32, 32}, rows);
    EXPECT_EQ(found[0], table * 0x01010101U);
  }
}

TEST(PtxLogic, PrmtChoosesBytesAndSigns) {
  const std::vector<Row> rows{{0x83028180, 0x07868504, 0x3210},
                              {0x83028180, 0x07868504, 0x7654},
                              {0x83028180, 0x07868504, 0x0426},
                              {0x83028180, 0x07868504, 0xFEDC},
                              {0x83028180, 0x07868504, 0x98BA}};
  const std::vector<std::uint64_t> expected{0x83028180, 0x07868504, 0x80040286,
                                            0x00FFFF00, 0xFFFFFF00};
  EXPECT_EQ(results("prmt.b32 %z, %a, %b, %c", 32, {32, 32, 32}, rows), expected);
}

TEST(PtxLogic, FunnelShiftsWrapOrClamp) {
  std::vector<Row> rows;
  for (const std::uint64_t by : {0, 1, 8, 31, 32, 33, 64, 1000})
    rows.push_back({0x89ABCDEF, 0x01234567, by});
  const std::vector<unsigned> bits{32, 32, 32};
  const auto check = [&](const std::string& opcode, bool left, bool wraps) {
    const auto found = results(opcode + ".b32 %z, %a, %b, %c", 32, bits, rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::uint64_t by =
          wraps ? rows[i][2] % 32 : std::min<std::uint64_t>(rows[i][2], 32);
      const std::uint64_t both = 0x0123456789ABCDEF;
      // In 128 bits no shift is lost.
      const std::uint64_t expected =
          left ? (both >> (32 - by)) : (by == 0 ? both : both >> by);
      ASSERT_EQ(found[i], low_bits(expected, 32)) << opcode << " " << rows[i][2];
    }
  };
  check("shf.l.wrap", true, true);
  check("shf.l.clamp", true, false);
  check("shf.r.wrap", false, true);
  check("shf.r.clamp", false, false);
}

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

TEST(PtxLogic, BitsAreCounted) {
  const auto rows = rows_of(kWords, 1);
  const auto count = results("popc.b32 %z, %a", 32, {32}, rows);
  const auto zeros = results("clz.b32 %z, %a", 32, {32}, rows);
  const auto turned = results("brev.b32 %z, %a", 32, {32}, rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto word = static_cast<std::uint32_t>(rows[i][0]);
    ASSERT_EQ(count[i], static_cast<std::uint64_t>(std::popcount(word)));
    ASSERT_EQ(zeros[i], static_cast<std::uint64_t>(std::countl_zero(word)));
    for (unsigned k = 0; k < 32; ++k)
      ASSERT_EQ(turned[i] >> k & 1, word >> (31 - k) & 1);
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

}  // namespace
}  // namespace echobuf::ptx::test
