// Reading the modifiers and operands of one statement in their order.
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "ptx/errors.hpp"
#include "ptx/operand.hpp"

namespace echobuf::ptx {

class Decoder {
 public:
  explicit Decoder(const Statement& statement);

  const std::string& opcode() const { return statement_.opcode; }
  const std::vector<Operand>& operands() const { return statement_.operands; }
  Instruction& instruction() { return instruction_; }

  /// The next modifier; empty behind the last one.
  const std::string& peek() const;
  std::string modifier();
  bool accept(const std::string& name);
  std::string require_one_of(std::initializer_list<const char*> names);
  Type type();
  /// The type of twice the width.
  Type doubled(Type type) const;

  /// No more modifiers, and so many operands.
  void end(std::size_t operands) const;

  /// The operand as one that is read, or written. `wide`: a register may be wider.
  Slot source(std::size_t index, Type type, bool wide = false) const {
    return source_of(statement_.operands[index], type, wide);
  }
  Slot result(std::size_t index, Type type, bool wide = false) const {
    return result_of(statement_.operands[index], type, wide);
  }

  /// Each makes the whole instruction; all modifiers must have been read.
  void compute(Compute function, Type result, const std::vector<Type>& sources);
  void convert(Compute function, Type to, Type from);
  void vector_move(Type type, bool unpacks);
  void memory(bool load, Type type, unsigned lanes);

  /// Throws an error that ends with the instruction.
  [[noreturn]] void fail(const std::string& message) const;

  Instruction finished() const;

 private:
  Slot source_of(const Operand& operand, Type type, bool wide) const;
  Slot result_of(const Operand& operand, Type type, bool wide) const;
  Slot number_slot(const Operand& operand, Type type) const;
  void check_register(const Operand& operand, Type type, bool wide) const;

  const Statement& statement_;
  Instruction instruction_;
  std::size_t next_ = 0;  // modifier
};

}  // namespace echobuf::ptx
