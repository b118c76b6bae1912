// Integer instructions against C++.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "support.hpp"

namespace echobuf::ptx::test {
namespace {

template <class T>
std::string type_text() {
  return (std::is_signed_v<T> ? ".s" : ".u") + std::to_string(8 * sizeof(T));
}

/// Bits of a number in the width of its type.
template <class T>
std::uint64_t bits_of_number(T value) {
  return static_cast<std::make_unsigned_t<T>>(value);
}

__extension__ using Wide128 = __int128;
__extension__ using Unsigned128 = unsigned __int128;

/// Compares `opcode` with `expected`, a function of three numbers as 128 bits.
template <class T, class F>
void check_integer(const std::string& opcode, unsigned operands, F expected,
                   unsigned result = 8 * sizeof(T)) {
  constexpr unsigned kBits = 8 * sizeof(T);
  const std::string text = opcode + type_text<T>();
  const std::string in[] = {"%a", "%a, %b", "%a, %b, %c"};
  std::vector<unsigned> bits(operands, kBits);
  if (operands == 3) bits[2] = result;
  const auto rows = rows_of(integer_edges(kBits), operands);
  const auto found = results(text + " %z, " + in[operands - 1], result, bits, rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Wide128 number[3] = {};
    for (unsigned k = 0; k < operands; ++k) {
      number[k] = static_cast<T>(rows[i][k]);
      // The third operand of mad.wide is a number of twice the width.
      if (k == 2 && result > kBits) number[k] = static_cast<Wide128>(rows[i][k]);
    }
    const auto exact =
        static_cast<std::uint64_t>(expected(number[0], number[1], number[2]));
    ASSERT_EQ(found[i], low_bits(exact, result))
        << text << " of " << rows[i][0] << " and " << (operands > 1 ? rows[i][1] : 0);
  }
}

template <class T>
class PtxIntegers : public testing::Test {};
using IntegerTypes = testing::Types<std::uint16_t, std::int16_t, std::uint32_t,
                                    std::int32_t, std::uint64_t, std::int64_t>;
TYPED_TEST_SUITE(PtxIntegers, IntegerTypes);

TYPED_TEST(PtxIntegers, Arithmetic) {
  using T = TypeParam;
  using N = Wide128;
  check_integer<T>("add", 2, [](N a, N b, N) { return a + b; });
  check_integer<T>("sub", 2, [](N a, N b, N) { return a - b; });
  check_integer<T>("min", 2, [](N a, N b, N) { return a < b ? a : b; });
  check_integer<T>("max", 2, [](N a, N b, N) { return a < b ? b : a; });
  // The low half is that of the low halves, whose product does not overflow.
  check_integer<T>("mul.lo", 2, [](N a, N b, N) {
    return static_cast<N>(static_cast<std::uint64_t>(a) *
                          static_cast<std::uint64_t>(b));
  });
  check_integer<T>("mad.lo", 3, [](N a, N b, N c) {
    return static_cast<N>(static_cast<std::uint64_t>(a) *
                              static_cast<std::uint64_t>(b) +
                          static_cast<std::uint64_t>(c));
  });
  if constexpr (std::is_signed_v<T>) {
    check_integer<T>("neg", 1, [](N a, N, N) { return -a; });
    check_integer<T>("abs", 1, [](N a, N, N) { return a < 0 ? -a : a; });
  }
}

TYPED_TEST(PtxIntegers, Products) {
  using T = TypeParam;
  using N = Wide128;
  using U = Unsigned128;
  constexpr unsigned kBits = 8 * sizeof(T);
  const auto high = [](N a, N b) {
    if (std::is_signed_v<T>) return (a * b) >> kBits;
    return static_cast<N>((static_cast<U>(a) * static_cast<U>(b)) >> kBits);
  };
  check_integer<T>("mul.hi", 2, [&](N a, N b, N) { return high(a, b); });
  check_integer<T>("mad.hi", 3, [&](N a, N b, N c) { return high(a, b) + c; });
  if constexpr (kBits < 64) {
    check_integer<T>("mul.wide", 2, [](N a, N b, N) { return a * b; }, 2 * kBits);
    check_integer<T>("mad.wide", 3, [](N a, N b, N c) { return a * b + c; }, 2 * kBits);
  }
}

TYPED_TEST(PtxIntegers, Quotients) {
  using T = TypeParam;
  constexpr unsigned kBits = 8 * sizeof(T);
  std::vector<Row> rows;
  for (const Row& row : rows_of(integer_edges(kBits), 2))
    if (row[1] != 0) rows.push_back(row);
  const std::string type = type_text<T>();
  const auto quotients =
      results("div" + type + " %z, %a, %b", kBits, {kBits, kBits}, rows);
  const auto rests = results("rem" + type + " %z, %a, %b", kBits, {kBits, kBits}, rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Wide128 a = static_cast<T>(rows[i][0]);
    const Wide128 b = static_cast<T>(rows[i][1]);
    ASSERT_EQ(quotients[i], low_bits(static_cast<std::uint64_t>(a / b), kBits));
    ASSERT_EQ(rests[i], low_bits(static_cast<std::uint64_t>(a % b), kBits));
  }
}

TYPED_TEST(PtxIntegers, Comparisons) {
  using T = TypeParam;
  constexpr unsigned kBits = 8 * sizeof(T);
  const auto rows = rows_of(integer_edges(kBits), 2);
  const auto check = [&](const std::string& order, auto expected) {
    const auto found = results("setp." + order + type_text<T>() + " %z, %a, %b", 1,
                               {kBits, kBits}, rows);
    for (std::size_t i = 0; i < rows.size(); ++i)
      ASSERT_EQ(found[i] != 0,
                expected(static_cast<T>(rows[i][0]), static_cast<T>(rows[i][1])))
          << order;
  };
  check("eq", [](T a, T b) { return a == b; });
  check("ne", [](T a, T b) { return a != b; });
  check("lt", [](T a, T b) { return a < b; });
  check("le", [](T a, T b) { return a <= b; });
  check("gt", [](T a, T b) { return a > b; });
  check("ge", [](T a, T b) { return a >= b; });
  if constexpr (std::is_unsigned_v<T>) {
    check("lo", [](T a, T b) { return a < b; });
    check("ls", [](T a, T b) { return a <= b; });
    check("hi", [](T a, T b) { return a > b; });
    check("hs", [](T a, T b) { return a >= b; });
  }
}

TYPED_TEST(PtxIntegers, Shifts) {
  using T = TypeParam;
  constexpr unsigned kBits = 8 * sizeof(T);
  std::vector<Row> rows;
  for (const std::uint64_t value : integer_edges(kBits))
    for (const std::uint64_t by : {0ULL, 1ULL, 5ULL, 15ULL, 16ULL, 31ULL, 32ULL, 63ULL,
                                   64ULL, 65ULL, 0x80000000ULL, 0xFFFFFFFFULL})
      rows.push_back({value, by});
  const auto right =
      results("shr" + type_text<T>() + " %z, %a, %b", kBits, {kBits, 32}, rows);
  const auto left = results("shl.b" + std::to_string(kBits) + " %z, %a, %b", kBits,
                            {kBits, 32}, rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Wide128 value = static_cast<T>(rows[i][0]);
    const auto by = static_cast<int>(std::min<std::uint64_t>(rows[i][1], 64));
    ASSERT_EQ(right[i], low_bits(static_cast<std::uint64_t>(value >> by), kBits));
    const auto moved = static_cast<Unsigned128>(rows[i][0]) << by;
    ASSERT_EQ(left[i], low_bits(static_cast<std::uint64_t>(moved), kBits));
  }
}

TEST(PtxIntegersClamped, NegativeResultsBecomeZero) {
  using N = Wide128;
  check_integer<std::int32_t>(
      "min.relu", 2, [](N a, N b, N) { return std::max<N>(std::min(a, b), 0); });
  check_integer<std::int32_t>(
      "max.relu", 2, [](N a, N b, N) { return std::max<N>(std::max(a, b), 0); });
  EXPECT_NE(refusal("min.relu.u32 %r1, %r2, %r3;"), "");
  EXPECT_NE(refusal("min.relu.f32 %f1, %f2, %f3;"), "");
}

TEST(PtxIntegersRefused, DivisionByZero) {
  const std::string text = kernel("  div.u32 %r1, 5, %t;\n  ret;");
  const auto fault = fault_of(text, {});
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind(), FaultKind::kArithmetic);
  EXPECT_EQ(fault->line(), line_of(text, "div.u32"));
}

}  // namespace
}  // namespace echobuf::ptx::test
