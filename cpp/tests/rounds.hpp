// How often a test tries what chance decides.
#pragma once

#include <cstdint>

namespace echobuf::test {

#ifdef ECHOBUF_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// Returns a quarter of `usual` under a sanitizer, where each round takes ten times as
/// long and what is found does not hang on their number.
constexpr std::uint64_t rounds(std::uint64_t usual) {
  return kSanitized ? (usual + 3) / 4 : usual;
}

}  // namespace echobuf::test
