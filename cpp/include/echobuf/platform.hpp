#pragma once

// Macros of the compiler for headers that are compiled twice (host C++20, and CUDA
// through NVRTC). Nothing here depends on the standard library at run time: NVRTC ships
// none.

// ECHOBUF_UNROLL stands before a loop whose bounds a kernel knows when it is compiled,
// ECHOBUF_KEEP_LOOP before one that would take too many registers if it were unrolled.
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define ECHOBUF_HD __host__ __device__
#define ECHOBUF_UNROLL _Pragma("unroll")
#define ECHOBUF_KEEP_LOOP _Pragma("unroll 1")
#else
#define ECHOBUF_HD
#define ECHOBUF_UNROLL
#define ECHOBUF_KEEP_LOOP
#endif

// ECHOBUF_INLINE stands before what loops of rows call, a few calls deep: Clang's
// `flatten` inlines one level, and a loop with a call in it becomes no vectors.
#if defined(__clang__) && !defined(__CUDACC__) && !defined(__CUDACC_RTC__)
#define ECHOBUF_INLINE __attribute__((always_inline))
#else
#define ECHOBUF_INLINE
#endif

#if !defined(__CUDACC_RTC__)
#include <cstdint>
#endif

namespace echobuf {

#if defined(__CUDACC_RTC__)
// NVRTC finds <cstdint> only where an include path of the toolkit is given, and a
// machine without the toolkit has none. CUDA fixes the widths of these types.
using int32_t = int;
using int64_t = long long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long long;
#else
using std::int32_t;
using std::int64_t;
using std::uint16_t;
using std::uint32_t;
using std::uint64_t;
using std::uint8_t;
#endif

}  // namespace echobuf
