// Floating-point instructions against the processor, and halves against exact sums.
#include <bit>
#include <cmath>
#include <limits>

#include "ptx/rounding.hpp"
#include "support.hpp"

namespace echobuf::ptx::test {
namespace {

template <class T>
std::uint64_t bits_of_float(T value) {
  if constexpr (sizeof(T) == 4)
    return std::bit_cast<std::uint32_t>(value);
  else
    return std::bit_cast<std::uint64_t>(value);
}

template <class T>
T float_of(std::uint64_t bits) {
  if constexpr (sizeof(T) == 4)
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits));
  else
    return std::bit_cast<double>(bits);
}

template <class T>
std::vector<std::uint64_t> float_edges() {
  using L = std::numeric_limits<T>;
  std::vector<std::uint64_t> values;
  for (const T value : {T{0}, T{1}, T{3}, T{0.1}, T{1} + L::epsilon(), L::min(),
                        L::max(), L::denorm_min(), L::min() - L::denorm_min(),
                        L::infinity(), T{1e-20}, T{12345.678}}) {
    values.push_back(bits_of_float(value));
    values.push_back(bits_of_float(-value));
  }
  values.push_back(bits_of_float(L::quiet_NaN()));
  return values;
}

template <class T>
class PtxFloats : public testing::Test {};
using FloatTypes = testing::Types<float, double>;
TYPED_TEST_SUITE(PtxFloats, FloatTypes);

template <class T, class F>
void check_float(const std::string& opcode, unsigned operands, F expected) {
  constexpr unsigned kBits = 8 * sizeof(T);
  const std::string in[] = {"%a", "%a, %b", "%a, %b, %c"};
  const auto rows = rows_of(float_edges<T>(), operands);
  const auto found =
      results(opcode + ".f" + std::to_string(kBits) + " %z, " + in[operands - 1], kBits,
              std::vector<unsigned>(operands, kBits), rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const T exact =
        expected(float_of<T>(rows[i][0]), float_of<T>(rows[i][operands > 1 ? 1 : 0]),
                 float_of<T>(rows[i][operands > 2 ? 2 : 0]));
    if (std::isnan(exact)) {
      ASSERT_TRUE(std::isnan(float_of<T>(found[i]))) << opcode << " " << i;
      if (kBits == 32) {
        ASSERT_EQ(found[i], 0x7FFFFFFFU) << opcode;
      }
    } else {
      ASSERT_EQ(found[i], bits_of_float(exact)) << opcode << " " << i;
    }
  }
}

TYPED_TEST(PtxFloats, Arithmetic) {
  using T = TypeParam;
  check_float<T>("add.rn", 2, [](T a, T b, T) { return a + b; });
  check_float<T>("sub.rn", 2, [](T a, T b, T) { return a - b; });
  check_float<T>("mul.rn", 2, [](T a, T b, T) { return a * b; });
  check_float<T>("fma.rn", 3, [](T a, T b, T c) { return std::fma(a, b, c); });
  check_float<T>("sqrt.rn", 1, [](T a, T, T) { return std::sqrt(a); });
  const auto quotient = [](T a, T b) {
    if (b != 0) return a / b;
    if (std::isnan(a) || a == 0) return std::numeric_limits<T>::quiet_NaN();
    return std::copysign(std::numeric_limits<T>::infinity(),
                         std::signbit(a) != std::signbit(b) ? T{-1} : T{1});
  };
  check_float<T>("div.rn", 2, [&](T a, T b, T) { return quotient(a, b); });
  check_float<T>("rcp.rn", 1, [&](T a, T, T) { return quotient(1, a); });
  check_float<T>("min", 2, [](T a, T b, T) {
    if (a == b) return std::signbit(a) ? a : b;
    return std::fmin(a, b);
  });
  check_float<T>("max", 2, [](T a, T b, T) {
    if (a == b) return std::signbit(a) ? b : a;
    return std::fmax(a, b);
  });
}

TYPED_TEST(PtxFloats, SignsChangeAlone) {
  using T = TypeParam;
  constexpr unsigned kBits = 8 * sizeof(T);
  const auto rows = rows_of(float_edges<T>(), 1);
  const std::string type = ".f" + std::to_string(kBits);
  const auto negated = results("neg" + type + " %z, %a", kBits, {kBits}, rows);
  const auto positive = results("abs" + type + " %z, %a", kBits, {kBits}, rows);
  const std::uint64_t sign = std::uint64_t{1} << (kBits - 1);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(negated[i], rows[i][0] ^ sign);
    ASSERT_EQ(positive[i], rows[i][0] & ~sign);
  }
}

TYPED_TEST(PtxFloats, Comparisons) {
  using T = TypeParam;
  constexpr unsigned kBits = 8 * sizeof(T);
  const auto rows = rows_of(float_edges<T>(), 2);
  const auto check = [&](const std::string& order, auto expected) {
    const auto found =
        results("setp." + order + ".f" + std::to_string(kBits) + " %z, %a, %b", 1,
                {kBits, kBits}, rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const T a = float_of<T>(rows[i][0]);
      const T b = float_of<T>(rows[i][1]);
      ASSERT_EQ(found[i] != 0, expected(a, b)) << order << " " << a << " " << b;
    }
  };
  const auto apart = [](T a, T b) { return std::isnan(a) || std::isnan(b); };
  check("eq", [](T a, T b) { return a == b; });
  check("ne", [&](T a, T b) { return !apart(a, b) && a != b; });
  check("lt", [](T a, T b) { return a < b; });
  check("le", [](T a, T b) { return a <= b; });
  check("gt", [](T a, T b) { return a > b; });
  check("ge", [](T a, T b) { return a >= b; });
  check("equ", [&](T a, T b) { return apart(a, b) || a == b; });
  check("neu", [](T a, T b) { return !(a == b); });
  check("ltu", [](T a, T b) { return !(a >= b); });
  check("leu", [](T a, T b) { return !(a > b); });
  check("gtu", [](T a, T b) { return !(a <= b); });
  check("geu", [](T a, T b) { return !(a < b); });
  check("num", [&](T a, T b) { return !apart(a, b); });
  check("nan", apart);
}

/// A half as the nearest one to an exact number, found among all of them.
std::uint64_t nearest_half(Wide exact, Type type) {
  std::uint64_t best = 0;
  Wide least = std::numeric_limits<Wide>::infinity();
  const std::uint64_t infinity = type == Type::kF16 ? 0x7C00 : 0x7F80;
  // Beyond the largest number lies infinity, as if the exponents went on.
  const Wide beyond = type == Type::kF16 ? 65536.0L : std::ldexp(1.0L, 128);
  for (std::uint64_t bits = 0; bits <= infinity; ++bits) {
    const Wide value = bits == infinity ? beyond : value_of(bits, type);
    const Wide distance = std::fabs(std::fabs(exact) - value);
    if (distance < least || (distance == least && (bits & 1) == 0)) {
      least = distance;
      best = bits;
    }
  }
  return best | (std::signbit(exact) ? 0x8000U : 0U);
}

TEST(PtxHalves, ArithmeticIsThatOfExactNumbers) {
  for (const Type type : {Type::kF16, Type::kBF16}) {
    const std::vector<std::uint64_t> values{0x0000, 0x8001, 0x3C01, 0x3F81,
                                            0x0400, 0x7BFF, 0x4248, 0xC5AB,
                                            0x1234, 0x0080, 0x5555, 0xBFFF};
    const std::string name = "." + std::string(name_of(type));
    const auto pairs = rows_of(values, 2);
    const auto sum = results("add.rn" + name + " %z, %a, %b", 16, {16, 16}, pairs);
    const auto difference =
        results("sub.rn" + name + " %z, %a, %b", 16, {16, 16}, pairs);
    const auto product = results("mul.rn" + name + " %z, %a, %b", 16, {16, 16}, pairs);
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      const Wide a = value_of(pairs[i][0], type);
      const Wide b = value_of(pairs[i][1], type);
      // 64 bits do not hold each sum of bfloat16, but they decide on it.
      ASSERT_EQ(sum[i], nearest_half(a + b, type)) << name << " " << i;
      ASSERT_EQ(difference[i], nearest_half(a - b, type)) << name << " " << i;
      ASSERT_EQ(product[i], nearest_half(a * b, type)) << name << " " << i;
    }
  }
}

TEST(PtxHalves, FmaRoundsOnce) {
  // 1.0009765625^2 is just above the middle of two halves only with its last bit: a
  // product rounded to 11 bits, and then a sum, would be another number.
  const std::vector<Row> rows{{0x3C01, 0x3C01, 0x9400}, {0x3C01, 0x3C01, 0x8001}};
  const auto found = results("fma.rn.f16 %z, %a, %b, %c", 16, {16, 16, 16}, rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Wide exact =
        value_of(rows[i][0], Type::kF16) * value_of(rows[i][1], Type::kF16) +
        value_of(rows[i][2], Type::kF16);
    EXPECT_EQ(found[i], nearest_half(exact, Type::kF16));
  }
  // Of bfloat16 a double would not hold the sum: 1 + 2^-8 is a tie, 2^-100 decides.
  const std::vector<Row> tie{{0x3F80, 0x3B80, 0x3F80}, {0x0D80, 0x3F80, 0x3F80}};
  const auto tied = results("fma.rn.bf16 %z, %a, %b, %c", 16, {16, 16, 16}, tie);
  EXPECT_EQ(tied[0], 0x3F80U);
  EXPECT_EQ(tied[1], 0x3F80U);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(sum_to_odd(1.0, std::ldexp(1.0, -100))),
            std::bit_cast<std::uint64_t>(1.0) + 1);
  EXPECT_EQ(std::bit_cast<std::uint64_t>(sum_to_odd(1.0, -std::ldexp(1.0, -100))),
            std::bit_cast<std::uint64_t>(1.0) - 1);
}

TEST(PtxFloatsRefused, ArithmeticWhoseRoundingPtxasChooses) {
  EXPECT_NE(refusal("add.f32 %f1, %f2, %f3;").find("without .rn"), std::string::npos);
  EXPECT_NE(refusal("div.approx.f32 %f1, %f2, %f3;"), "");
  EXPECT_NE(refusal("add.rn.ftz.f32 %f1, %f2, %f3;"), "");
  EXPECT_NE(refusal("add.rz.f32 %f1, %f2, %f3;"), "");
  EXPECT_EQ(refusal("add.rn.f32 %f1, %f2, 0f3F800000;"), "");
}

}  // namespace
}  // namespace echobuf::ptx::test
