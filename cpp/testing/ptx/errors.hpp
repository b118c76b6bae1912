// Errors of the PTX machine: of a text, of a launch, of a thread.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace echobuf::ptx {

/// A text that is not PTX, or not PTX that this machine executes.
class ParseError : public std::runtime_error {
 public:
  ParseError(std::uint32_t line, const std::string& message)
      : std::runtime_error("line " + std::to_string(line) + ": " + message),
        line_(line) {}
  std::uint32_t line() const { return line_; }

 private:
  std::uint32_t line_;
};

/// A call of the host's that cannot be carried out: a launch, a copy, a free.
class HostError : public std::invalid_argument {
 public:
  using std::invalid_argument::invalid_argument;
};

enum class FaultKind : std::uint8_t {
  kOutOfBounds,
  kFreed,
  kMisaligned,
  kReadOnly,
  kUnwrittenMemory,
  kUnwrittenRegister,
  kRace,
  kDivergentBarrier,
  kDivergentBranch,
  kArithmetic,
  kLimit,
};

inline const char* name_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::kOutOfBounds:
      return "out of bounds";
    case FaultKind::kFreed:
      return "use after free";
    case FaultKind::kMisaligned:
      return "misaligned";
    case FaultKind::kReadOnly:
      return "read-only memory";
    case FaultKind::kUnwrittenMemory:
      return "unwritten memory";
    case FaultKind::kUnwrittenRegister:
      return "unwritten register";
    case FaultKind::kRace:
      return "race";
    case FaultKind::kDivergentBarrier:
      return "divergent barrier";
    case FaultKind::kDivergentBranch:
      return "divergent branch";
    case FaultKind::kArithmetic:
      return "arithmetic";
    case FaultKind::kLimit:
      return "limit of instructions";
  }
  return "fault";
}

/// An instruction without a defined result. The launch ends with the first one.
class Fault : public std::runtime_error {
 public:
  Fault(FaultKind kind, std::uint32_t line, const std::string& message)
      : std::runtime_error(std::string(name_of(kind)) + ": " + message),
        kind_(kind),
        line_(line) {}
  FaultKind kind() const { return kind_; }
  std::uint32_t line() const { return line_; }

 private:
  FaultKind kind_;
  std::uint32_t line_;
};

/// A fault before the place where it happened is known.
struct Complaint {
  FaultKind kind;
  std::string text;
};

}  // namespace echobuf::ptx
