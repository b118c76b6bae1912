#include "ptx/lexer.hpp"

#include <bit>
#include <charconv>
#include <cstdlib>

#include "ptx/errors.hpp"

namespace echobuf::ptx {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool begins_name(char c) { return is_letter(c) || c == '_' || c == '$' || c == '%'; }
bool in_name(char c) { return is_letter(c) || is_digit(c) || c == '_' || c == '$'; }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    while (skip_blank()) tokens.push_back(next());
    tokens.push_back({TokenKind::kEnd, "", line_});
    return tokens;
  }

 private:
  char at(std::size_t ahead = 0) const {
    return place_ + ahead < text_.size() ? text_[place_ + ahead] : '\0';
  }

  /// Goes to the next token; false at the end.
  bool skip_blank() {
    while (place_ < text_.size()) {
      const char c = at();
      if (c == '\n') ++line_;
      if (c == ' ' || c == '\t' || c == '\r' || c == '\n') {
        ++place_;
      } else if (c == '/' && at(1) == '/') {
        while (place_ < text_.size() && at() != '\n') ++place_;
      } else if (c == '/' && at(1) == '*') {
        skip_comment();
      } else {
        return true;
      }
    }
    return false;
  }

  void skip_comment() {
    const std::uint32_t begin = line_;
    for (place_ += 2; place_ < text_.size(); ++place_) {
      if (at() == '\n') ++line_;
      if (at() == '*' && at(1) == '/') {
        place_ += 2;
        return;
      }
    }
    throw ParseError(begin, "a comment has no end");
  }

  Token next() {
    const char c = at();
    const std::size_t begin = place_;
    if (begins_name(c)) {
      ++place_;
      while (in_name(at())) ++place_;
      return token(TokenKind::kName, begin);
    }
    if (is_digit(c)) {
      while (in_name(at()) || at() == '.') ++place_;
      return token(TokenKind::kNumber, begin);
    }
    if (c == '.' && (is_letter(at(1)) || at(1) == '_')) {
      ++place_;
      while (in_name(at()) || (at() == ':' && at(1) == ':')) {
        if (at() == ':') ++place_;
        ++place_;
      }
      return token(TokenKind::kDotted, begin + 1);
    }
    if (c == '"') return string();
    if (std::string_view(",;:{}[]()<>@!=+-|").find(c) == std::string_view::npos)
      throw ParseError(line_, std::string("unexpected character '") + c + "'");
    ++place_;
    return token(TokenKind::kSign, begin);
  }

  Token string() {
    const std::size_t begin = ++place_;
    while (at() != '"') {
      if (place_ >= text_.size() || at() == '\n')
        throw ParseError(line_, "a string has no end");
      ++place_;
    }
    const Token found = token(TokenKind::kString, begin);
    ++place_;
    return found;
  }

  Token token(TokenKind kind, std::size_t begin) const {
    return {kind, text_.substr(begin, place_ - begin), line_};
  }

  std::string_view text_;
  std::size_t place_ = 0;
  std::uint32_t line_ = 1;
};

[[noreturn]] void bad_number(const Token& token) {
  throw ParseError(token.line, "not a number: '" + std::string(token.text) + "'");
}

std::uint64_t parse_integer(const Token& token, std::string_view digits, int base) {
  std::uint64_t value = 0;
  const char* const end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value, base);
  if (error != std::errc() || stop != end) bad_number(token);
  return value;
}

}  // namespace

std::vector<Token> tokens_of(std::string_view text) { return Lexer(text).run(); }

Number number_of(const Token& token) {
  std::string_view text = token.text;
  const char second = text.size() > 1 && text[0] == '0' ? text[1] : '\0';
  if (second == 'f' || second == 'F') {
    if (text.size() != 10) bad_number(token);
    return {Number::Kind::kFloat32, parse_integer(token, text.substr(2), 16)};
  }
  if (second == 'd' || second == 'D') {
    if (text.size() != 18) bad_number(token);
    return {Number::Kind::kFloat64, parse_integer(token, text.substr(2), 16)};
  }
  const bool hexadecimal = second == 'x' || second == 'X';
  if (!hexadecimal && text.find_first_of(".eE") != std::string_view::npos) {
    const std::string copy(text);
    char* end = nullptr;
    const double value = std::strtod(copy.c_str(), &end);
    if (end != copy.c_str() + copy.size()) bad_number(token);
    return {Number::Kind::kDecimal, std::bit_cast<std::uint64_t>(value)};
  }
  if (text.back() == 'U') text.remove_suffix(1);
  int base = 10;
  if (hexadecimal) {
    base = 16;
  } else if (second == 'b' || second == 'B') {
    base = 2;
  } else if (second != '\0' && text.size() > 1) {
    base = 8;
  }
  if (base == 16 || base == 2) text.remove_prefix(2);
  if (base == 8) text.remove_prefix(1);
  return {Number::Kind::kInteger, parse_integer(token, text, base)};
}

}  // namespace echobuf::ptx
