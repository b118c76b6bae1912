// The meaning of opcodes and modifiers.
#include <algorithm>
#include <map>
#include <optional>

#include "ptx/convert.hpp"
#include "ptx/decoder.hpp"

namespace echobuf::ptx {

namespace {

void decode_arithmetic(Decoder& d) {
  const std::string& name = d.opcode();
  const bool rounds = d.accept("rn");
  std::string operation = name;
  if (!rounds && (name == "mul" || name == "mad"))
    operation += "." + d.require_one_of({"lo", "hi", "wide"});
  if ((name == "min" || name == "max") && d.accept("relu")) operation += ".relu";
  const Type type = d.type();
  const bool sign_only =
      name == "neg" || name == "abs" || name == "min" || name == "max";
  if (is_float(type) && !rounds && !sign_only)
    d.fail("without .rn ptxas may fuse it, or round it in another way: ");
  const Compute compute = is_float(type) ? float_function(operation, type)
                          : rounds       ? nullptr
                                         : integer_function(operation, type);
  const bool wide = operation == "mul.wide" || operation == "mad.wide";
  const Type result = wide ? d.doubled(type) : type;
  std::vector<Type> sources(
      name == "mad" || name == "fma"                                      ? 3
      : name == "neg" || name == "abs" || name == "rcp" || name == "sqrt" ? 1
                                                                          : 2,
      type);
  if (operation == "mad.wide") sources[2] = result;
  d.compute(compute, result, sources);
}

void decode_logic(Decoder& d) {
  const std::string& name = d.opcode();
  const Type type = d.type();
  const Type u32 = Type::kU32;
  std::vector<Type> sources{type, type};
  if (name == "not" || name == "popc" || name == "clz" || name == "brev")
    sources = {type};
  if (name == "shl" || name == "shr") sources = {type, u32};
  if (name == "prmt") sources = {type, type, u32};
  if (name == "lop3") sources = {type, type, type, u32};
  if (name == "bfe") sources = {type, u32, u32};
  if (name == "bfi") sources = {type, type, u32, u32};
  const bool counts = name == "popc" || name == "clz";
  d.compute(logic_function(name, type), counts ? u32 : type, sources);
  if (name == "lop3" && d.instruction().in[3].kind != Slot::Kind::kImmediate)
    d.fail("the table must be a number: ");
}

void decode_funnel_shift(Decoder& d) {
  const std::string name = "shf." + d.require_one_of({"l", "r"});
  const bool wraps = d.require_one_of({"wrap", "clamp"}) == "wrap";
  const Type type = d.type();
  d.compute(logic_function(name, type), type, {type, type, Type::kU32});
  d.instruction().setting = wraps ? 1 : 0;
}

void decode_move(Decoder& d) {
  const Type type = d.type();
  const auto& operands = d.operands();
  const auto is_vector = [&](std::size_t i) {
    return i < operands.size() && operands[i].kind == Operand::Kind::kVector;
  };
  if (is_vector(0) || is_vector(1)) return d.vector_move(type, is_vector(0));
  if (bits_of(type) == 8) d.fail("no such instruction: ");
  d.compute(same, type, {type});
}

void decode_select(Decoder& d) {
  const Type type = d.type();
  if (type == Type::kPred || bits_of(type) == 8) d.fail("no such instruction: ");
  d.compute(selected, type, {type, type, Type::kPred});
}

/// A comparison, and its third operand.
std::uint64_t compared_and(const std::uint64_t* in, std::uint64_t setting) {
  const auto compare = reinterpret_cast<Compute>(setting);
  return compare(in, 0) & in[2];
}
std::uint64_t compared_or(const std::uint64_t* in, std::uint64_t setting) {
  const auto compare = reinterpret_cast<Compute>(setting);
  return compare(in, 0) | in[2];
}
std::uint64_t compared_xor(const std::uint64_t* in, std::uint64_t setting) {
  const auto compare = reinterpret_cast<Compute>(setting);
  return compare(in, 0) ^ in[2];
}

void decode_comparison(Decoder& d) {
  const std::string order = d.modifier();
  Compute combined = nullptr;
  if (d.accept("and")) combined = compared_and;
  if (combined == nullptr && d.accept("or")) combined = compared_or;
  if (combined == nullptr && d.accept("xor")) combined = compared_xor;
  const Type type = d.type();
  const Compute compare = comparison_function(order, type);
  if (combined == nullptr) return d.compute(compare, Type::kPred, {type, type});
  if (compare == nullptr) d.fail("no such instruction: ");
  d.compute(combined, Type::kPred, {type, type, Type::kPred});
  d.instruction().setting = reinterpret_cast<std::uintptr_t>(compare);
}

void decode_conversion(Decoder& d) {
  Conversion c{Type::kB32, Type::kB32, Rounding::kNone, false, false};
  if (const auto whole = rounding_named(d.peek(), true)) {
    c.rounding = *whole;
    c.to_integer = true;
    d.modifier();
  } else if (const auto rounding = rounding_named(d.peek(), false)) {
    c.rounding = *rounding;
    d.modifier();
  }
  c.saturates = d.accept("sat");
  c.to = d.type();
  c.from = d.type();
  if (const char* wrong = wrong_with(c)) d.fail(std::string(wrong) + ": ");
  d.convert(converted, c.to, c.from);
  d.instruction().setting = setting_of(c);
}

void decode_address_conversion(Decoder& d) {
  const bool to = d.accept("to");
  const auto space = space_named(d.modifier());
  if (!space || (to && *space == Space::kParam)) d.fail("unknown modifier in ");
  const Type type = d.type();
  if (type != Type::kU64) d.fail("no such instruction: ");
  std::uint64_t window = 0;
  if (space == Space::kShared) window = kSharedWindow;
  if (space == Space::kLocal) window = kLocalWindow;
  if (space == Space::kParam) window = kParamWindow;
  const Compute inside = window == 0 ? same : (to ? out_of_window : into_window);
  d.compute(inside, type, {type});
  d.instruction().setting = window;
}

bool is_cache_hint(const std::string& name, bool load) {
  static const std::vector<std::string> loads{"ca", "cg", "cs", "lu", "cv"};
  static const std::vector<std::string> stores{"wb", "cg", "cs", "wt"};
  const auto& known = load ? loads : stores;
  return std::find(known.begin(), known.end(), name) != known.end() ||
         name == "L1::no_allocate" || name == "L1::evict_first" ||
         name == "L1::evict_last" || name == "L1::evict_normal" ||
         name == "L1::evict_unchanged";
}

void decode_memory(Decoder& d) {
  Instruction& instruction = d.instruction();
  const bool load = d.opcode() == "ld";
  if (const auto space = space_named(d.peek())) {
    instruction.space = *space;
    d.modifier();
  }
  const Space space = instruction.space;
  if (!load && (space == Space::kParam || space == Space::kConst))
    d.fail("memory that cannot be written: ");
  const bool device = space == Space::kGlobal || space == Space::kGeneric;
  if (device && is_cache_hint(d.peek(), load)) d.modifier();
  if (load && space == Space::kGlobal && d.accept("nc")) instruction.read_only = true;
  if (device && is_cache_hint(d.peek(), load)) d.modifier();
  unsigned lanes = 1;
  if (d.accept("v2")) lanes = 2;
  if (d.accept("v4")) lanes = 4;
  const Type type = d.type();
  if (type == Type::kPred || lanes * bytes_of(type) > 16)
    d.fail("no such instruction: ");
  d.memory(load, type, lanes);
}

void decode_branch(Decoder& d) {
  d.instruction().uniform = d.accept("uni");
  d.instruction().action = Action::kBranch;
  d.end(0);
}

void decode_barrier(Decoder& d) {
  d.accept("cta");
  if (!d.accept("sync")) d.fail("unknown modifier in ");
  if (d.opcode() == "barrier" && !d.accept("aligned"))
    d.fail("only aligned barriers are known, not ");
  d.instruction().action = Action::kBarrier;
  d.end(1);
  d.instruction().in[0] = d.source(0, Type::kU32);
  if (d.instruction().in[0].kind != Slot::Kind::kImmediate)
    d.fail("the barrier must be a number: ");
  if (d.instruction().in[0].value > 15) d.fail("there are barriers 0 to 15: ");
}

void decode_return(Decoder& d) {
  d.instruction().action = Action::kReturn;
  d.end(0);
}

using Meaning = void (*)(Decoder&);

const std::map<std::string, Meaning>& meanings() {
  static const std::map<std::string, Meaning> table = [] {
    std::map<std::string, Meaning> found{
        {"shf", decode_funnel_shift}, {"mov", decode_move},
        {"selp", decode_select},      {"setp", decode_comparison},
        {"cvt", decode_conversion},   {"cvta", decode_address_conversion},
        {"ld", decode_memory},        {"st", decode_memory},
        {"bra", decode_branch},       {"bar", decode_barrier},
        {"barrier", decode_barrier},  {"ret", decode_return},
        {"exit", decode_return},
    };
    for (const char* name : {"add", "sub", "mul", "mad", "div", "rem", "min", "max",
                             "neg", "abs", "fma", "sqrt", "rcp"})
      found[name] = decode_arithmetic;
    for (const char* name : {"and", "or", "xor", "not", "shl", "shr", "prmt", "lop3",
                             "bfe", "bfi", "popc", "clz", "brev"})
      found[name] = decode_logic;
    return found;
  }();
  return table;
}

}  // namespace

void check_opcode(const Statement& statement) {
  if (!meanings().contains(statement.opcode))
    throw ParseError(statement.line, "unknown opcode " + statement.opcode);
}

Instruction decode(const Statement& statement) {
  check_opcode(statement);
  Decoder decoder(statement);
  meanings().at(statement.opcode)(decoder);
  return decoder.finished();
}

}  // namespace echobuf::ptx
