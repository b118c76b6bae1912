#include "ptx/declarations.hpp"

#include <algorithm>
#include <bit>

#include "ptx/rounding.hpp"

namespace echobuf::ptx {

namespace {

/// The most bytes of a variable in a space; of global memory, as many as the machine
/// has.
std::uint64_t most_bytes(Space space) {
  switch (space) {
    case Space::kShared:
      return kMostShared;
    case Space::kLocal:
      return kMostLocal;
    case Space::kParam:
      return kMostParameters;
    case Space::kConst:
      return kMostConstant;
    case Space::kGlobal:
    case Space::kGeneric:
      break;
  }
  return std::uint64_t{1} << 32;
}

Type element_type(TokenStream& stream) {
  const Token& token = stream.expect(TokenKind::kDotted, "a type");
  const auto type = type_named(token.text);
  if (!type || *type == Type::kPred)
    throw ParseError(token.line, "unknown type ." + std::string(token.text));
  return *type;
}

std::uint64_t initial_value(TokenStream& stream, Type type) {
  const bool negative = stream.accept('-');
  const Token& token = stream.expect(TokenKind::kNumber, "a number");
  const Number number = number_of(token);
  switch (number.kind) {
    case Number::Kind::kInteger:
      if (is_float(type)) break;
      return low_bits(negative ? 0 - number.bits : number.bits, bits_of(type));
    case Number::Kind::kFloat32:
      if (type != Type::kF32 || negative) break;
      return number.bits;
    case Number::Kind::kFloat64:
      if (type != Type::kF64 || negative) break;
      return number.bits;
    case Number::Kind::kDecimal: {
      if (!is_float(type)) break;
      const double value = std::bit_cast<double>(number.bits);
      return rounded(negative ? -value : value, type, Rounding::kNearest);
    }
  }
  throw ParseError(token.line, "a number of another type than the variable");
}

void append(std::vector<unsigned char>& bytes, std::uint64_t value, Type type) {
  for (unsigned i = 0; i < bytes_of(type); ++i)
    bytes.push_back(static_cast<unsigned char>(value >> (8 * i)));
}

void read_initial(TokenStream& stream, Type type, Variable& variable) {
  if (!stream.accept('{')) {
    append(variable.initial, initial_value(stream, type), type);
  } else {
    do append(variable.initial, initial_value(stream, type), type);
    while (stream.accept(','));
    stream.expect('}');
  }
  if (variable.initial.size() > variable.bytes)
    throw ParseError(stream.line(), "more values than " + variable.name + " holds");
}

}  // namespace

Variable read_variable(TokenStream& stream, Space space) {
  Variable variable;
  variable.space = space;
  std::uint64_t align = 0;
  if (stream.accept_dotted("align")) {
    align = stream.integer();
    if (!std::has_single_bit(align)) stream.fail("an alignment is a power of two");
  }
  std::uint64_t lanes = 1;
  if (stream.accept_dotted("v2")) lanes = 2;
  if (stream.accept_dotted("v4")) lanes = 4;
  const Type type = element_type(stream);
  variable.align = align != 0 ? align : lanes * bytes_of(type);
  variable.bytes = lanes * bytes_of(type);
  variable.name = stream.name();
  while (stream.accept('[')) {
    if (stream.peek().is(']'))
      stream.fail("memory whose size the launch says is not supported");
    const std::uint64_t count = stream.integer();
    if (count > most_bytes(space) / std::max<std::uint64_t>(variable.bytes, 1))
      throw ParseError(stream.line(), variable.name + " has too many bytes");
    variable.bytes *= count;
    stream.expect(']');
  }
  if (stream.accept('=')) read_initial(stream, type, variable);
  return variable;
}

}  // namespace echobuf::ptx
