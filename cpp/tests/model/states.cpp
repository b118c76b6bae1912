#include "states.hpp"

#include <cstring>

namespace echobuf::model {

namespace {

std::uint64_t mix(std::uint64_t x, std::uint64_t y) {
  const unsigned __int128 product = static_cast<unsigned __int128>(x) * y;
  return static_cast<std::uint64_t>(product) ^
         static_cast<std::uint64_t>(product >> 64);
}

}  // namespace

Key hash(const std::vector<std::byte>& bytes) {
  // Four words side by side; each lane is a chain that loses nothing.
  std::uint64_t lanes[4] = {0x9E3779B97F4A7C15u, 0xD1B54A32D192ED03u,
                            0xA0761D6478BD642Fu, 0x8EBC6AF09C88C6E3u ^ bytes.size()};
  std::uint64_t words[4];
  const auto add = [&] {
    for (int k = 0; k < 4; ++k) {
      lanes[k] = (lanes[k] ^ words[k]) * 0xE7037ED1A0B428DBu;
      lanes[k] ^= lanes[k] >> 32;
    }
  };
  std::size_t i = 0;
  for (; i + sizeof words <= bytes.size(); i += sizeof words) {
    __builtin_memcpy(words, bytes.data() + i, sizeof words);
    add();
  }
  std::memset(words, 0, sizeof words);
  std::memcpy(words, bytes.data() + i, bytes.size() - i);
  add();
  std::uint64_t a = 0, b = 0;
  for (const std::uint64_t lane : lanes) {
    a = mix(a ^ lane, 0x589965CC75374CC3u) + 1;
    b = mix(b + lane, 0xE7037ED1A0B428DBu) ^ a;
  }
  return {a | 1, b};  // never the key of an empty place
}

}  // namespace echobuf::model
