#include "echobuf/cpu.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <initializer_list>
#include <iterator>
#include <set>
#include <sstream>
#include <string>

namespace {

using echobuf::CpuFeatures;
using echobuf::CpuLevel;
using echobuf::CpuWords;
using echobuf::features_of;

// Of an AMD EPYC 9005 under Linux.
constexpr CpuWords kAll = {0xFEFA3203, 0xF1BF07AB, 0xE7};

CpuWords without(CpuWords words, std::uint32_t CpuWords::*word, int bit) {
  words.*word &= ~(std::uint32_t{1} << bit);
  return words;
}

TEST(Cpu, AllBitsTogetherAreAvx512) {
  const CpuFeatures found = features_of(kAll);
  EXPECT_EQ(found.level, CpuLevel::kAvx512);
  EXPECT_TRUE(found.f16c);
}

TEST(Cpu, NoBitsAreTheBaseline) {
  EXPECT_EQ(features_of({}).level, CpuLevel::kBaseline);
  EXPECT_FALSE(features_of({}).f16c);
}

TEST(Cpu, EachBitThatAvx512NeedsIsLookedAt) {
  for (const int bit : {16, 17, 30, 31})  // F, DQ, BW, VL
    EXPECT_EQ(features_of(without(kAll, &CpuWords::leaf7_ebx, bit)).level,
              CpuLevel::kAvx2)
        << bit;
  for (const int bit : {5, 6, 7})  // masks, upper halves, upper registers
    EXPECT_EQ(features_of(without(kAll, &CpuWords::xcr0, bit)).level, CpuLevel::kAvx2)
        << bit;
  EXPECT_EQ(features_of(without(kAll, &CpuWords::leaf1_ecx, 12)).level,  // FMA
            CpuLevel::kAvx2);
}

TEST(Cpu, EachBitThatAvx2NeedsIsLookedAt) {
  const CpuWords words[] = {
      without(kAll, &CpuWords::leaf7_ebx, 5), without(kAll, &CpuWords::leaf1_ecx, 27),
      without(kAll, &CpuWords::leaf1_ecx, 28), without(kAll, &CpuWords::xcr0, 1),
      without(kAll, &CpuWords::xcr0, 2)};
  for (const CpuWords& each : words) {
    EXPECT_EQ(features_of(each).level, CpuLevel::kBaseline);
    EXPECT_FALSE(features_of(each).f16c);
  }
}

TEST(Cpu, WithoutF16cHalvesAreNotConverted) {
  const CpuFeatures found = features_of(without(kAll, &CpuWords::leaf1_ecx, 29));
  EXPECT_EQ(found.level, CpuLevel::kAvx2);
  EXPECT_FALSE(found.f16c);
}

TEST(Cpu, AVariableLowersTheLevelOnly) {
  using echobuf::lowered;
  EXPECT_EQ(lowered(CpuLevel::kAvx512, nullptr), CpuLevel::kAvx512);
  EXPECT_EQ(lowered(CpuLevel::kAvx512, "avx512"), CpuLevel::kAvx512);
  EXPECT_EQ(lowered(CpuLevel::kAvx512, "avx2"), CpuLevel::kAvx2);
  EXPECT_EQ(lowered(CpuLevel::kAvx512, "portable"), CpuLevel::kBaseline);
  EXPECT_EQ(lowered(CpuLevel::kAvx2, "avx512"), CpuLevel::kAvx2);
  EXPECT_EQ(lowered(CpuLevel::kBaseline, "avx512"), CpuLevel::kBaseline);
  for (const char* unknown : {"", "AVX2", "avx", "sse"})
    EXPECT_EQ(lowered(CpuLevel::kAvx512, unknown), CpuLevel::kAvx512) << unknown;
}

#if defined(__x86_64__) && defined(__linux__)
/// The flags of the kernel: what CPUID says, less what the kernel has switched off.
TEST(Cpu, AgreesWithTheKernel) {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  std::set<std::string> flags;
  while (flags.empty() && std::getline(file, line)) {
    if (line.rfind("flags", 0) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    flags.insert(std::istream_iterator<std::string>(words), {});
  }
  ASSERT_TRUE(flags.count("sse2")) << "/proc/cpuinfo has no flags";
  const auto all = [&](std::initializer_list<const char*> names) {
    for (const char* name : names)
      if (!flags.count(name)) return false;
    return true;
  };
  const bool avx2 = all({"avx", "avx2"});
  const bool avx512 =
      avx2 && all({"f16c", "fma", "avx512f", "avx512bw", "avx512dq", "avx512vl"});
  EXPECT_EQ(echobuf::detect_cpu_level(), avx512 ? CpuLevel::kAvx512
                                         : avx2 ? CpuLevel::kAvx2
                                                : CpuLevel::kBaseline);
  EXPECT_EQ(echobuf::detect_cpu().f16c, avx2 && flags.count("f16c") != 0);
}
#endif

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
TEST(Cpu, AgreesWithTheCompilersRuntime) {
  __builtin_cpu_init();
  EXPECT_EQ(echobuf::detect_cpu_level() >= CpuLevel::kAvx2,
            __builtin_cpu_supports("avx2") != 0);
  EXPECT_EQ(echobuf::detect_cpu_level() >= CpuLevel::kAvx512,
            __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512vl"));
}
#endif

#if !defined(__x86_64__)
TEST(Cpu, ElsewhereThePortableCodeRuns) {
  EXPECT_EQ(echobuf::detect_cpu_level(), CpuLevel::kBaseline);
  EXPECT_EQ(echobuf::cpu_level(), CpuLevel::kBaseline);
  EXPECT_FALSE(echobuf::detect_cpu().f16c);
}
#endif

}  // namespace
