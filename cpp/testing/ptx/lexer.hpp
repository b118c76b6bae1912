// Tokens of a PTX text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace echobuf::ptx {

enum class TokenKind : std::uint8_t {
  kName,    // %r1, ld, $L__BB0_1
  kDotted,  // .param; the text is without the dot
  kNumber,
  kString,  // the text is without the quotes
  kSign,    // one character
  kEnd,
};

struct Token {
  TokenKind kind;
  std::string_view text;  // of the text that was given
  std::uint32_t line;

  bool is(char sign) const { return kind == TokenKind::kSign && text[0] == sign; }
};

/// Cuts a text into tokens, the last of which is kEnd. Tokens refer to `text`.
/// Throws ParseError.
std::vector<Token> tokens_of(std::string_view text);

/// A number as it is written.
struct Number {
  enum class Kind : std::uint8_t { kInteger, kFloat32, kFloat64, kDecimal };
  Kind kind;
  std::uint64_t bits;  // of kDecimal: those of a double
};

/// Throws ParseError.
Number number_of(const Token& token);

}  // namespace echobuf::ptx
