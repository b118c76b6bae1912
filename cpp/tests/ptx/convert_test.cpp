// cvt: widths, signs, rounding, saturation.
#include <bit>
#include <cfenv>
#include <cmath>
#include <limits>

#include "ptx/rounding.hpp"
#include "support.hpp"

namespace echobuf::ptx::test {
namespace {

std::uint64_t bits(float value) { return std::bit_cast<std::uint32_t>(value); }
std::uint64_t bits(double value) { return std::bit_cast<std::uint64_t>(value); }

std::uint64_t convert(const std::string& modifiers, unsigned to, unsigned from,
                      std::uint64_t value) {
  return results("cvt." + modifiers + " %z, %a", to, {from}, {{value}})[0];
}

TEST(PtxConvert, IntegersAreCutAndExtended) {
  const auto rows = rows_of(integer_edges(32), 1);
  const auto wide = results("cvt.s64.s32 %z, %a", 64, {32}, rows);
  const auto zeros = results("cvt.u64.u32 %z, %a", 64, {32}, rows);
  const auto cut = results("cvt.u16.u32 %z, %a", 16, {32}, rows);
  const auto bytes = results("cvt.s32.s8 %z, %a", 32, {32}, rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto value = static_cast<std::uint32_t>(rows[i][0]);
    const auto sign = static_cast<std::int64_t>(static_cast<std::int32_t>(value));
    ASSERT_EQ(wide[i], static_cast<std::uint64_t>(sign));
    ASSERT_EQ(zeros[i], value);
    ASSERT_EQ(cut[i], value & 0xFFFF);
    ASSERT_EQ(bytes[i],
              static_cast<std::uint32_t>(static_cast<std::int8_t>(value & 0xFF)));
  }
}

TEST(PtxConvert, IntegersSaturate) {
  EXPECT_EQ(convert("sat.u8.s32", 32, 32, 0xFFFFFFFF), 0U);
  EXPECT_EQ(convert("sat.u8.s32", 32, 32, 256), 255U);
  EXPECT_EQ(convert("sat.s8.s32", 32, 32, 1000), 127U);
  EXPECT_EQ(convert("sat.s16.s64", 16, 64, 0x8000000000000000), 0x8000U);
  EXPECT_EQ(convert("sat.s32.u64", 32, 64, ~0ULL), 0x7FFFFFFFU);
}

TEST(PtxConvert, IntegersBecomeTheNearestFloats) {
  const auto rows = rows_of(integer_edges(64), 1);
  const auto f32 = results("cvt.rn.f32.s64 %z, %a", 32, {64}, rows);
  const auto u32 = results("cvt.rn.f32.u64 %z, %a", 32, {64}, rows);
  const auto f64 = results("cvt.rn.f64.s64 %z, %a", 64, {64}, rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto sign = static_cast<std::int64_t>(rows[i][0]);
    ASSERT_EQ(f32[i], bits(static_cast<float>(sign)));
    ASSERT_EQ(u32[i], bits(static_cast<float>(rows[i][0])));
    ASSERT_EQ(f64[i], bits(static_cast<double>(sign)));
  }
}

TEST(PtxConvert, RoundingModesOfFloats) {
  std::vector<std::uint64_t> values;
  for (const double value :
       {1.0, 1.0 + 1e-9, 1.0 + std::ldexp(1.0, -24), 1.0 + 3 * std::ldexp(1.0, -24),
        1e-42, 1.5e-45, 1e-50, 3.4028235e38, 3.4028236e38, 1e300, 0.1, 0.0,
        std::numeric_limits<double>::infinity()}) {
    values.push_back(bits(value));
    values.push_back(bits(-value));
  }
  const auto rows = rows_of(values, 1);
  const std::pair<const char*, int> modes[] = {{"rn", FE_TONEAREST},
                                               {"rz", FE_TOWARDZERO},
                                               {"rm", FE_DOWNWARD},
                                               {"rp", FE_UPWARD}};
  for (const auto& [name, mode] : modes) {
    const auto found =
        results("cvt." + std::string(name) + ".f32.f64 %z, %a", 32, {64}, rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const volatile double value = std::bit_cast<double>(rows[i][0]);
      std::fesetround(mode);
      const volatile float expected = static_cast<float>(value);
      std::fesetround(FE_TONEAREST);
      ASSERT_EQ(found[i], bits(float{expected})) << name << " " << value;
    }
  }
}

TEST(PtxConvert, FloatsBecomeIntegers) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(convert("rzi.s32.f32", 32, 32, bits(-1.9F)), 0xFFFFFFFFU);
  EXPECT_EQ(convert("rmi.s32.f32", 32, 32, bits(-1.1F)), 0xFFFFFFFEU);
  EXPECT_EQ(convert("rpi.s32.f32", 32, 32, bits(1.1F)), 2U);
  EXPECT_EQ(convert("rni.s32.f32", 32, 32, bits(2.5F)), 2U);
  EXPECT_EQ(convert("rni.s32.f32", 32, 32, bits(3.5F)), 4U);
  EXPECT_EQ(convert("rni.s32.f32", 32, 32, bits(-0.5F)), 0U);
  EXPECT_EQ(convert("rzi.u32.f32", 32, 32, bits(-5.0F)), 0U);
  EXPECT_EQ(convert("rzi.u32.f32", 32, 32, bits(infinity)), 0xFFFFFFFFU);
  EXPECT_EQ(convert("rzi.s32.f32", 32, 32, bits(-infinity)), 0x80000000U);
  EXPECT_EQ(convert("rzi.u8.f32", 32, 32, bits(300.0F)), 255U);
  EXPECT_EQ(convert("rzi.s64.f64", 64, 64, bits(1e300)), 0x7FFFFFFFFFFFFFFFU);
  EXPECT_EQ(convert("rzi.s32.f32", 32, 32, bits(nan)), 0U);
  EXPECT_EQ(convert("rzi.s64.f32", 64, 32, bits(nan)), 0x8000000000000000U);
  EXPECT_EQ(convert("rzi.s32.f64", 32, 64, bits(double{nan})), 0x80000000U);
  EXPECT_EQ(convert("rni.f32.f32", 32, 32, bits(-2.5F)), bits(-2.0F));
  EXPECT_EQ(convert("rmi.f64.f64", 64, 64, bits(-0.5)), bits(-1.0));
}

TEST(PtxConvert, FloatsSaturateToOne) {
  EXPECT_EQ(convert("sat.f32.f32", 32, 32, bits(1.5F)), bits(1.0F));
  EXPECT_EQ(convert("sat.f32.f32", 32, 32, bits(-1.5F)), bits(0.0F));
  EXPECT_EQ(convert("sat.f32.f32", 32, 32, 0x7FC00000), 0U);
}

TEST(PtxConvert, HalvesGoThereAndBack) {
  for (const std::string type : {"f16", "bf16"}) {
    std::vector<Row> rows;
    for (std::uint64_t half = 0; half < 65536; half += 7) rows.push_back({half});
    const auto wide = results("cvt.f32." + type + " %z, %a", 32, {16}, rows);
    std::vector<Row> back;
    for (const std::uint64_t value : wide) back.push_back({value});
    const auto narrow = results("cvt.rn." + type + ".f32 %z, %a", 16, {32}, back);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const bool nan = is_nan(rows[i][0], type == "f16" ? Type::kF16 : Type::kBF16);
      ASSERT_EQ(narrow[i], nan ? 0x7FFFU : rows[i][0]) << type;
    }
  }
  EXPECT_EQ(convert("f32.f16", 32, 16, 0x3555), bits(0.333251953125F));
  EXPECT_EQ(convert("f32.f16", 32, 16, 0x0001), bits(std::ldexp(1.0F, -24)));
  EXPECT_EQ(convert("f32.bf16", 32, 16, 0x4049), bits(3.140625F));
  EXPECT_EQ(convert("rn.f16.f32", 16, 32, bits(65519.99F)), 0x7BFFU);
  EXPECT_EQ(convert("rn.f16.f32", 16, 32, bits(65520.0F)), 0x7C00U);
  EXPECT_EQ(convert("rz.f16.f32", 16, 32, bits(1e9F)), 0x7BFFU);
  EXPECT_EQ(convert("rn.f16.f32", 16, 32, bits(std::ldexp(1.0F, -25))), 0U);
  EXPECT_EQ(convert("rn.f16.f32", 16, 32, bits(std::ldexp(1.01F, -25))), 1U);
  // From f64 in one step: over f32 it would be a tie, and round down.
  EXPECT_EQ(convert("rn.f16.f64", 16, 64, bits(1 + std::ldexp(1.0, -11) + 1e-15)),
            0x3C01U);
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

}  // namespace
}  // namespace echobuf::ptx::test
