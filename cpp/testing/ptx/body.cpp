#include "ptx/body.hpp"

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "ptx/declarations.hpp"
#include "ptx/names.hpp"
#include "ptx/operand.hpp"

namespace echobuf::ptx {

namespace {

constexpr std::uint64_t kMostRegisters = 1U << 20;
constexpr std::string_view kUsedBytes = "used_bytes_mask ";

class BodyParser {
 public:
  BodyParser(TokenStream& stream, const std::vector<Variable>& variables,
             Kernel& kernel)
      : stream_(stream), kernel_(kernel), names_(kernel, variables) {}

  void run() {
    stream_.expect('{');
    names_.open();
    for (int depth = 1; depth > 0;) {
      if (stream_.accept('{')) {
        names_.open();
        ++depth;
      } else if (stream_.accept('}')) {
        names_.close();
        --depth;
      } else {
        read_line();
      }
    }
    resolve_labels();
    check_end();
  }

 private:
  void read_line() {
    const Token& token = stream_.peek();
    if (token.kind == TokenKind::kDotted) return read_directive();
    const bool label = token.kind == TokenKind::kName && stream_.peek(1).is(':');
    if (!label) return read_instruction();
    const std::string name = stream_.name();
    stream_.expect(':');
    if (!labels_.emplace(name, kernel_.code.size()).second)
      throw ParseError(token.line, "a second label " + name);
  }

  void read_directive() {
    const Token& token = stream_.next();
    if (token.text == "reg") return read_registers();
    if (token.text == "pragma") return read_pragma();
    if (token.text == "loc") return skip_location();
    const auto space = space_named(token.text);
    if (space != Space::kShared && space != Space::kLocal)
      throw ParseError(token.line, "unknown directive ." + std::string(token.text));
    Variable variable = read_variable(stream_, *space);
    stream_.expect(';');
    if (!variable.initial.empty())
      throw ParseError(token.line, "such memory has no initial values");
    (space == Space::kShared ? kernel_.shared : kernel_.local).add(variable);
    names_.add_variable(variable, token.line);
  }

  void read_registers() {
    const Token& token = stream_.expect(TokenKind::kDotted, "a type");
    const auto type = type_named(token.text);
    if (!type) throw ParseError(token.line, "unknown type ." + std::string(token.text));
    do {
      const std::string name = stream_.name();
      if (!stream_.accept('<')) {
        names_.add_register(name, *type, token.line);
        continue;
      }
      const std::uint64_t count = stream_.integer();
      if (kernel_.registers.size() + count > kMostRegisters)
        throw ParseError(token.line, "too many registers");
      for (std::uint64_t i = 0; i < count; ++i)
        names_.add_register(name + std::to_string(i), *type, token.line);
      stream_.expect('>');
    } while (stream_.accept(','));
    stream_.expect(';');
  }

  void read_pragma() {
    const Token& token = stream_.expect(TokenKind::kString, "a string");
    stream_.expect(';');
    if (token.text == "nounroll") return;
    if (token.text.substr(0, kUsedBytes.size()) != kUsedBytes)
      throw ParseError(token.line, "unknown pragma " + std::string(token.text));
    const std::string_view mask = token.text.substr(kUsedBytes.size());
    used_ = static_cast<std::uint32_t>(
        number_of({TokenKind::kNumber, mask, token.line}).bits);
  }

  /// `.loc 1 20 3`, and `, function_name $L + 5, inlined_at 1 7 2`.
  void skip_location() {
    const auto place = [&] {
      for (int i = 0; i < 3; ++i) stream_.integer();
    };
    const auto word = [&](const char* wanted) {
      stream_.expect(',');
      if (stream_.name() != wanted) stream_.fail(std::string("expected ") + wanted);
    };
    place();
    if (!stream_.peek().is(',')) return;
    word("function_name");
    stream_.name();
    if (stream_.accept('+')) stream_.integer();
    word("inlined_at");
    place();
  }

  void read_instruction() {
    Statement statement;
    statement.line = stream_.line();
    Slot guard;
    if (stream_.accept('@')) {
      const bool negated = stream_.accept('!');
      const Operand operand = names_.find(stream_.name(), statement.line);
      if (operand.slot.kind != Slot::Kind::kRegister || operand.type != Type::kPred)
        throw ParseError(statement.line, "a guard is a predicate");
      guard = operand.slot;
      guard.negated = negated;
    }
    statement.opcode = stream_.name();
    check_opcode(statement);
    while (stream_.peek().kind == TokenKind::kDotted)
      statement.modifiers.emplace_back(stream_.next().text);
    const bool branches = statement.opcode == "bra";
    std::string label;
    if (branches) {
      label = stream_.name();
    } else if (!stream_.peek().is(';')) {
      do statement.operands.push_back(read_operand());
      while (stream_.accept(','));
    }
    stream_.expect(';');
    statement.used = std::exchange(used_, std::nullopt).value_or(~0U);
    if (branches) targets_[kernel_.code.size()] = label;
    kernel_.code.push_back(decode(statement));
    kernel_.code.back().guard = guard;
  }

  Operand read_operand() {
    if (stream_.accept('[')) return read_address();
    if (stream_.accept('{')) return read_vector();
    if (stream_.accept('!')) {
      Operand operand = read_name();
      if (operand.slot.kind != Slot::Kind::kRegister || operand.type != Type::kPred)
        stream_.fail("only a predicate can be negated");
      operand.slot.negated = true;
      return operand;
    }
    if (stream_.peek().is('-') || stream_.peek().kind == TokenKind::kNumber)
      return read_number();
    Operand operand = read_name();
    if (operand.space && stream_.accept('+')) operand.slot.value += stream_.integer();
    return operand;
  }

  Operand read_number() {
    Operand operand;
    operand.kind = Operand::Kind::kNumber;
    operand.negative = stream_.accept('-');
    operand.number = number_of(stream_.expect(TokenKind::kNumber, "a number"));
    return operand;
  }

  Operand read_name() {
    const std::uint32_t line = stream_.line();
    std::string name = stream_.name();
    if (name == "_") {
      Operand sink;
      sink.slot.kind = Slot::Kind::kSink;
      return sink;
    }
    if (name[0] == '%' && stream_.peek().kind == TokenKind::kDotted)
      name += "." + std::string(stream_.next().text);
    return names_.find(name, line);
  }

  Operand read_vector() {
    Operand vector;
    vector.kind = Operand::Kind::kVector;
    do vector.items.push_back(read_operand());
    while (stream_.accept(','));
    stream_.expect('}');
    return vector;
  }

  Operand read_address() {
    Operand address;
    if (stream_.peek().kind == TokenKind::kNumber) {
      address.slot.kind = Slot::Kind::kImmediate;
      address.slot.bits = 64;
      address.slot.value = stream_.integer();
    } else {
      address = read_name();
      if (address.slot.kind == Slot::Kind::kSink) stream_.fail("expected an address");
    }
    address.kind = Operand::Kind::kAddress;
    if (stream_.accept('+') || stream_.peek().is('-')) {
      const bool negative = stream_.accept('-');
      const auto offset = static_cast<std::int64_t>(stream_.integer());
      address.offset = negative ? -offset : offset;
    }
    stream_.expect(']');
    return address;
  }

  void resolve_labels() {
    for (const auto& [place, label] : targets_) {
      Instruction& branch = kernel_.code[place];
      const auto found = labels_.find(label);
      if (found == labels_.end())
        throw ParseError(branch.line, "unknown label " + label);
      branch.target = static_cast<std::uint32_t>(found->second);
      if (branch.target == kernel_.code.size())
        throw ParseError(branch.line, "nothing follows the label " + label);
    }
  }

  void check_end() const {
    if (kernel_.code.empty())
      throw ParseError(kernel_.line, kernel_.name + " has no instructions");
    const Instruction& last = kernel_.code.back();
    const bool leaves =
        last.action == Action::kReturn || last.action == Action::kBranch;
    if (!leaves || last.guard.kind != Slot::Kind::kNone)
      throw ParseError(last.line, kernel_.name + " goes on past its last instruction");
  }

  TokenStream& stream_;
  Kernel& kernel_;
  Names names_;
  std::map<std::string, std::size_t> labels_;
  std::map<std::size_t, std::string> targets_;  // of branches, by their place
  std::optional<std::uint32_t> used_;
};

}  // namespace

void read_body(TokenStream& stream, const std::vector<Variable>& variables,
               Kernel& kernel) {
  BodyParser(stream, variables, kernel).run();
}

}  // namespace echobuf::ptx
