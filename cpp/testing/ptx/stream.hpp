// Tokens, read one after another.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "ptx/errors.hpp"
#include "ptx/lexer.hpp"

namespace echobuf::ptx {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& peek(std::size_t ahead = 0) const {
    return tokens_[std::min(place_ + ahead, tokens_.size() - 1)];
  }
  bool at_end() const { return peek().kind == TokenKind::kEnd; }
  std::uint32_t line() const { return peek().line; }

  const Token& next() {
    const Token& token = peek();
    if (token.kind == TokenKind::kEnd) fail("the text ends in the middle");
    ++place_;
    return token;
  }

  bool accept(char sign) {
    if (!peek().is(sign)) return false;
    ++place_;
    return true;
  }

  void expect(char sign) {
    if (!accept(sign)) fail(std::string("expected '") + sign + "'");
  }

  bool accept_dotted(std::string_view text) {
    if (peek().kind != TokenKind::kDotted || peek().text != text) return false;
    ++place_;
    return true;
  }

  const Token& expect(TokenKind kind, const char* what) {
    if (peek().kind != kind) fail(std::string("expected ") + what);
    return next();
  }

  std::string name() { return std::string(expect(TokenKind::kName, "a name").text); }

  std::uint64_t integer() {
    const Token& token = expect(TokenKind::kNumber, "a number");
    const Number number = number_of(token);
    if (number.kind != Number::Kind::kInteger)
      throw ParseError(token.line, "expected an integer");
    return number.bits;
  }

  /// Throws an error at the next token.
  [[noreturn]] void fail(const std::string& message) const {
    const std::string found = peek().kind == TokenKind::kEnd
                                  ? "the end of the text"
                                  : "'" + std::string(peek().text) + "'";
    throw ParseError(line(), message + ", found " + found);
  }

 private:
  std::vector<Token> tokens_;
  std::size_t place_ = 0;
};

}  // namespace echobuf::ptx
