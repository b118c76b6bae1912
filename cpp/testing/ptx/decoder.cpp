#include "ptx/decoder.hpp"

#include <bit>

#include "ptx/rounding.hpp"

namespace echobuf::ptx {

Decoder::Decoder(const Statement& statement) : statement_(statement) {
  instruction_.line = statement.line;
  instruction_.used = statement.used;
  instruction_.text = statement.opcode;
  for (const std::string& modifier : statement.modifiers)
    instruction_.text += "." + modifier;
}

void Decoder::fail(const std::string& message) const {
  throw ParseError(statement_.line, message + instruction_.text);
}

const std::string& Decoder::peek() const {
  static const std::string none;
  return next_ < statement_.modifiers.size() ? statement_.modifiers[next_] : none;
}

std::string Decoder::modifier() {
  if (next_ == statement_.modifiers.size()) fail("a modifier is missing: ");
  return statement_.modifiers[next_++];
}

bool Decoder::accept(const std::string& name) {
  if (peek() != name) return false;
  ++next_;
  return true;
}

std::string Decoder::require_one_of(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (accept(name)) return name;
  fail("unknown modifier '" + peek() + "' in ");
}

Type Decoder::type() {
  const auto found = type_named(peek());
  if (!found) fail("unknown modifier '" + peek() + "' in ");
  ++next_;
  return *found;
}

Type Decoder::doubled(Type type) const {
  switch (type) {
    case Type::kU16:
      return Type::kU32;
    case Type::kU32:
      return Type::kU64;
    case Type::kS16:
      return Type::kS32;
    case Type::kS32:
      return Type::kS64;
    default:
      fail("no such instruction: ");
  }
}

void Decoder::end(std::size_t operands) const {
  if (next_ != statement_.modifiers.size())
    fail("unknown modifier '" + peek() + "' in ");
  if (statement_.operands.size() != operands)
    fail(std::to_string(operands) + " operands expected, not " +
         std::to_string(statement_.operands.size()) + ": ");
}

void Decoder::check_register(const Operand& operand, Type type, bool wide) const {
  const unsigned bits = operand.slot.bits;
  const bool predicate = operand.type == Type::kPred;
  const bool fits = wide ? bits >= bits_of(type) : bits == bits_of(type);
  const bool untyped = is_untyped(operand.type) || is_untyped(type);
  const bool kinds = untyped || is_float(operand.type) == is_float(type);
  if (predicate != (type == Type::kPred) || !fits || !kinds)
    fail("a register ." + std::string(name_of(operand.type)) + " where a ." +
         std::string(name_of(type)) + " is needed: ");
}

Slot Decoder::number_slot(const Operand& operand, Type type) const {
  Slot slot;
  slot.kind = Slot::Kind::kImmediate;
  slot.bits = static_cast<std::uint8_t>(bits_of(type));
  const Number& number = operand.number;
  const bool bits_of_float =
      (number.kind == Number::Kind::kFloat32 && bits_of(type) == 32) ||
      (number.kind == Number::Kind::kFloat64 && bits_of(type) == 64);
  if (bits_of_float && !operand.negative && !is_integer(type)) {
    slot.value = number.bits;
  } else if (number.kind == Number::Kind::kDecimal && is_float(type)) {
    const double value = std::bit_cast<double>(number.bits);
    slot.value = rounded(operand.negative ? -value : value, type, Rounding::kNearest);
  } else if (number.kind == Number::Kind::kInteger && !is_float(type)) {
    const unsigned bits = bits_of(type);
    const bool fits = operand.negative ? number.bits <= std::uint64_t{1} << (bits - 1)
                                       : low_bits(number.bits, bits) == number.bits;
    if (!fits) fail("a number that is too large in ");
    slot.value = low_bits(operand.negative ? 0 - number.bits : number.bits, bits);
  } else {
    fail("a number of another type in ");
  }
  return slot;
}

Slot Decoder::source_of(const Operand& operand, Type type, bool wide) const {
  if (operand.kind == Operand::Kind::kNumber) return number_slot(operand, type);
  if (operand.kind != Operand::Kind::kSlot || operand.slot.kind == Slot::Kind::kSink)
    fail("a register or a number is expected in ");
  if (operand.space) {
    // The addresses of other spaces fit into 32 bits.
    const bool device = operand.slot.kind == Slot::Kind::kVariable;
    if (is_float(type) || bits_of(type) < (device ? 64U : 32U))
      fail("an address does not fit: ");
    return operand.slot;
  }
  check_register(operand, type, wide || operand.slot.kind == Slot::Kind::kSpecial);
  return operand.slot;
}

Slot Decoder::result_of(const Operand& operand, Type type, bool wide) const {
  if (operand.kind != Operand::Kind::kSlot || operand.slot.negated)
    fail("a register is expected in ");
  if (operand.slot.kind == Slot::Kind::kSink) return operand.slot;
  if (operand.slot.kind != Slot::Kind::kRegister) fail("a register is expected in ");
  check_register(operand, type, wide);
  return operand.slot;
}

void Decoder::compute(Compute function, Type type, const std::vector<Type>& sources) {
  if (function == nullptr) fail("no such instruction: ");
  end(1 + sources.size());
  instruction_.compute = function;
  instruction_.type = type;
  instruction_.outs = 1;
  instruction_.ins = static_cast<std::uint8_t>(sources.size());
  instruction_.out[0] = result(0, type);
  for (std::size_t i = 0; i < sources.size(); ++i)
    instruction_.in[i] = source(i + 1, sources[i]);
}

void Decoder::convert(Compute function, Type to, Type from) {
  end(2);
  instruction_.compute = function;
  instruction_.type = to;
  instruction_.outs = 1;
  instruction_.ins = 1;
  instruction_.out[0] = result(0, to, true);
  instruction_.in[0] = source(1, from, true);
}

void Decoder::vector_move(Type type, bool unpacks) {
  end(2);
  const auto& vector = statement_.operands[unpacks ? 0 : 1].items;
  if (!is_untyped(type) || (vector.size() != 2 && vector.size() != 4) ||
      bits_of(type) / vector.size() < 8)
    fail("no such instruction: ");
  const unsigned bits = bits_of(type) / static_cast<unsigned>(vector.size());
  const Type part = bits == 8 ? Type::kB8 : bits == 16 ? Type::kB16 : Type::kB32;
  instruction_.action = unpacks ? Action::kUnpack : Action::kPack;
  instruction_.type = unpacks ? part : type;
  instruction_.ins = 1;
  instruction_.outs = 1;
  for (std::size_t i = 0; i < vector.size(); ++i) {
    if (unpacks)
      instruction_.out[i] = result_of(vector[i], part, false);
    else
      instruction_.in[i] = source_of(vector[i], part, false);
  }
  const auto count = static_cast<std::uint8_t>(vector.size());
  (unpacks ? instruction_.outs : instruction_.ins) = count;
  if (unpacks)
    instruction_.in[0] = source(1, type);
  else
    instruction_.out[0] = result(0, type);
}

void Decoder::memory(bool load, Type type, unsigned lanes) {
  end(2);
  const Operand& address = statement_.operands[load ? 1 : 0];
  const Operand& data = statement_.operands[load ? 0 : 1];
  if (address.kind != Operand::Kind::kAddress) fail("an address is expected in ");
  const Space space = instruction_.space;
  const bool narrow = space == Space::kShared || space == Space::kLocal ||
                      space == Space::kParam || space == Space::kConst;
  if (address.space && *address.space != space)
    fail("the variable is in another space: ");
  const bool wide_enough =
      address.slot.bits == 64 || (narrow && address.slot.bits == 32);
  if (!wide_enough || (!address.space && is_float(address.type)))
    fail("an address has 64 bits: ");
  instruction_.action = load ? Action::kLoad : Action::kStore;
  instruction_.type = type;
  instruction_.base = address.slot;
  instruction_.offset = address.offset;
  const bool vector = data.kind == Operand::Kind::kVector;
  if (vector != (lanes > 1) || (vector && data.items.size() != lanes))
    fail("as many registers as the vector has are expected in ");
  (load ? instruction_.outs : instruction_.ins) = static_cast<std::uint8_t>(lanes);
  for (unsigned i = 0; i < lanes; ++i) {
    const Operand& item = vector ? data.items[i] : data;
    if (load)
      instruction_.out[i] = result_of(item, type, true);
    else
      instruction_.in[i] = source_of(item, type, true);
  }
}

Instruction Decoder::finished() const { return instruction_; }

}  // namespace echobuf::ptx
