#pragma once

#include <cstring>
#include <type_traits>

#include "echobuf/transform/rows.hpp"
#include "echobuf/transform/stage.hpp"

// Operations of the caller's: one struct in a header, compiled into a library for
// the host by ECHOBUF_OPERATION, and into the kernel for a device. See
// docs/transforms.md.

namespace echobuf::transform {

/// The library's table. `version` changes whenever one of the structs here does.
struct CustomTable {
  static constexpr uint32_t kVersion = 1;

  uint32_t version;
  uint32_t settings_bytes;
  void (*draw)(const void* settings, const Words& words, const Extent& extent,
               DrawBlock& draw);
  void (*pixel)(const void* settings, const DrawBlock& draw, float* v, const Place& at);
  void (*row)(const void* settings, const DrawBlock& draw, float* const* rows,
              const Place& at);
};

/// Any of them, where its type is not known.
struct Custom {
  struct Draw {
    DrawBlock block;
  };

  const CustomTable* table;
  const void* settings;

  void pixel(const DrawBlock& draw, float* v, const Place& at) const {
    table->pixel(settings, draw, v, at);
  }
};

template <class Op>
CustomTable make_table() {
  static_assert(std::is_trivially_copyable_v<Op>, "settings are copied as bytes");
  static_assert(std::is_trivially_copyable_v<typename Op::Draw>);
  static_assert(sizeof(Op) <= OpBlock::kBytes && alignof(Op) <= 8,
                "an operation has at most 232 bytes of settings");
  static_assert(sizeof(typename Op::Draw) <= DrawBlock::kBytes,
                "a Draw has at most 96 bytes");
  static_assert(ElementOp<Op> || PixelOp<Op>,
                "an operation has element(draw, value, channel, place) or "
                "pixel(draw, values, place)");
  return {CustomTable::kVersion, sizeof(Op),
          [](const void* settings, const Words& words, const Extent& extent,
             DrawBlock& draw) {
            draw.as<typename Op::Draw>() =
                static_cast<const Op*>(settings)->draw(words, extent);
          },
          [](const void* settings, const DrawBlock& draw, float* v, const Place& at) {
            const Op& op = *static_cast<const Op*>(settings);
            const auto& d = draw.as<typename Op::Draw>();
            if constexpr (ElementOp<Op>)
              for (int c = 0; c < at.extent.channels; ++c)
                v[c] = op.element(d, v[c], c, at);
            else
              op.pixel(d, v, at);
          },
          [](const void* settings, const DrawBlock& draw, float* const* rows,
             const Place& at) {
            change_row(*static_cast<const Op*>(settings), draw.as<typename Op::Draw>(),
                       rows, at);
          }};
}

}  // namespace echobuf::transform

/// In one source file of a library: makes it the library of operation `Op`.
#define ECHOBUF_OPERATION(Op)                                               \
  extern "C" const ::echobuf::transform::CustomTable* echobuf_operation() { \
    static const auto table = ::echobuf::transform::make_table<Op>();       \
    return &table;                                                          \
  }
