// Names in the body of a kernel: registers, variables, special registers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ptx/operand.hpp"
#include "ptx/program.hpp"

namespace echobuf::ptx {

class Names {
 public:
  /// Knows the parameters of `kernel` and the module's variables.
  Names(Kernel& kernel, const std::vector<Variable>& variables);

  void open() { scopes_.emplace_back(); }
  void close() { scopes_.pop_back(); }

  void add_register(const std::string& name, Type type, std::uint32_t line);
  /// A variable of the kernel, which has its address.
  void add_variable(const Variable& variable, std::uint32_t line);

  /// Throws ParseError.
  Operand find(const std::string& name, std::uint32_t line) const;

 private:
  void add(const std::string& name, Operand operand, std::uint32_t line);

  Kernel& kernel_;
  std::vector<std::map<std::string, Operand>> scopes_;  // the innermost one last
};

}  // namespace echobuf::ptx
