// The one place of the version: CMake and pip read the three numbers from here.
#pragma once

#include <cstdint>

#define ECHOBUF_VERSION_MAJOR 0
#define ECHOBUF_VERSION_MINOR 1
#define ECHOBUF_VERSION_PATCH 0

#define ECHOBUF_DETAIL_TEXT(x) #x
#define ECHOBUF_DETAIL_DOTTED(a, b, c) \
  ECHOBUF_DETAIL_TEXT(a) "." ECHOBUF_DETAIL_TEXT(b) "." ECHOBUF_DETAIL_TEXT(c)
/// "MAJOR.MINOR.PATCH".
#define ECHOBUF_VERSION                                               \
  ECHOBUF_DETAIL_DOTTED(ECHOBUF_VERSION_MAJOR, ECHOBUF_VERSION_MINOR, \
                        ECHOBUF_VERSION_PATCH)

namespace echobuf {

/// The version as one number, 1'002'003 for 1.2.3. Memory that processes share holds
/// it: its layout is that of one version.
inline constexpr std::uint64_t kVersion =
    (ECHOBUF_VERSION_MAJOR * 1000 + ECHOBUF_VERSION_MINOR) * 1000 +
    ECHOBUF_VERSION_PATCH;

}  // namespace echobuf
