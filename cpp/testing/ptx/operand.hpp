// Operands of an instruction, as they are written.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ptx/lexer.hpp"
#include "ptx/program.hpp"

namespace echobuf::ptx {

struct Operand {
  enum class Kind : std::uint8_t {
    kSlot,  // a register, a special one, the address of a variable, `_`
    kNumber,
    kAddress,  // [slot + offset], or [number]
    kVector,
  };
  Kind kind = Kind::kSlot;
  Slot slot;
  Type type = Type::kB64;      // of a register
  std::optional<Space> space;  // of a variable
  Number number{Number::Kind::kInteger, 0};
  bool negative = false;  // a number behind a minus
  std::int64_t offset = 0;
  std::vector<Operand> items;
};

/// An instruction before its meaning is known.
struct Statement {
  std::uint32_t line = 0;
  std::string opcode;                  // ld
  std::vector<std::string> modifiers;  // global, v2, u32
  std::vector<Operand> operands;
  std::uint32_t used = ~0U;  // from the pragma before it
};

/// Throws ParseError for an opcode that this machine does not know.
void check_opcode(const Statement& statement);

/// Gives `statement` its meaning. Throws ParseError.
Instruction decode(const Statement& statement);

}  // namespace echobuf::ptx
