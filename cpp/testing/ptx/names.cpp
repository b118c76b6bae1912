#include "ptx/names.hpp"

#include <utility>

#include "ptx/errors.hpp"

namespace echobuf::ptx {

namespace {

const std::map<std::string, Special>& specials() {
  static const std::map<std::string, Special> table{
      {"%tid.x", Special::kTidX},       {"%tid.y", Special::kTidY},
      {"%tid.z", Special::kTidZ},       {"%ntid.x", Special::kNtidX},
      {"%ntid.y", Special::kNtidY},     {"%ntid.z", Special::kNtidZ},
      {"%ctaid.x", Special::kCtaidX},   {"%ctaid.y", Special::kCtaidY},
      {"%ctaid.z", Special::kCtaidZ},   {"%nctaid.x", Special::kNctaidX},
      {"%nctaid.y", Special::kNctaidY}, {"%nctaid.z", Special::kNctaidZ},
      {"%laneid", Special::kLaneid},
  };
  return table;
}

Operand address_of(const Variable& variable) {
  Operand operand;
  operand.slot.kind = Slot::Kind::kImmediate;
  operand.slot.bits = 64;
  operand.slot.value = variable.address;
  operand.space = variable.space;
  return operand;
}

}  // namespace

Names::Names(Kernel& kernel, const std::vector<Variable>& variables) : kernel_(kernel) {
  open();
  for (std::uint32_t i = 0; i < variables.size(); ++i) {
    Operand operand = address_of(variables[i]);
    if (variables[i].space != Space::kShared) {
      operand.slot.kind = Slot::Kind::kVariable;
      operand.slot.index = i;
      operand.slot.value = 0;
    }
    add(variables[i].name, operand, kernel.line);
  }
  open();
  for (const Variable& parameter : kernel.parameters)
    add_variable(parameter, kernel.line);
}

void Names::add(const std::string& name, Operand operand, std::uint32_t line) {
  if (!scopes_.back().emplace(name, std::move(operand)).second)
    throw ParseError(line, "a second declaration of " + name);
}

void Names::add_register(const std::string& name, Type type, std::uint32_t line) {
  Operand operand;
  operand.type = type;
  operand.slot.kind = Slot::Kind::kRegister;
  operand.slot.bits = static_cast<std::uint8_t>(bits_of(type));
  operand.slot.index = static_cast<std::uint32_t>(kernel_.registers.size());
  add(name, operand, line);
  kernel_.registers.push_back(type);
  kernel_.register_names.push_back(name);
}

void Names::add_variable(const Variable& variable, std::uint32_t line) {
  add(variable.name, address_of(variable), line);
}

Operand Names::find(const std::string& name, std::uint32_t line) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope)
    if (const auto found = scope->find(name); found != scope->end())
      return found->second;
  const auto special = specials().find(name);
  if (special == specials().end()) throw ParseError(line, "unknown name " + name);
  Operand operand;
  operand.type = Type::kU32;
  operand.slot.kind = Slot::Kind::kSpecial;
  operand.slot.bits = 32;
  operand.slot.index = static_cast<std::uint32_t>(special->second);
  return operand;
}

}  // namespace echobuf::ptx
