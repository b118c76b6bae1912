// A module as it was parsed: kernels, variables, instructions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ptx/compute.hpp"
#include "ptx/types.hpp"

namespace echobuf::ptx {

inline constexpr unsigned kLanes = 32;  // threads of a warp

// Generic addresses of the spaces that are not memory of the device. In its own space a
// variable begins at kSpaceBegin at least, so that 0 is no address of one.
inline constexpr std::uint64_t kParamWindow = 0xA000'0000'0000'0000;
inline constexpr std::uint64_t kSharedWindow = 0xB000'0000'0000'0000;
inline constexpr std::uint64_t kLocalWindow = 0xC000'0000'0000'0000;
inline constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 32;
inline constexpr std::uint64_t kSpaceBegin = 0x400;

// Bytes that ptxas takes at most: of the variables in a space, a thread's in local
// memory.
inline constexpr std::uint64_t kMostShared = 48 << 10;
inline constexpr std::uint64_t kMostLocal = 512 << 10;
inline constexpr std::uint64_t kMostConstant = 64 << 10;
inline constexpr std::uint64_t kMostParameters = 32764;  // PTX 8.1; 4,096 before

enum class Special : std::uint8_t {
  kTidX,
  kTidY,
  kTidZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kLaneid,
};

/// A place that an instruction reads or writes.
struct Slot {
  enum class Kind : std::uint8_t {
    kNone,
    kRegister,
    kImmediate,
    kSpecial,
    kVariable,  // the address of a module's variable
    kSink,      // `_`
  };
  Kind kind = Kind::kNone;
  bool negated = false;     // a predicate
  std::uint8_t bits = 0;    // of a register
  std::uint32_t index = 0;  // register, special register or variable
  std::uint64_t value = 0;  // of an immediate; offset from a variable's address
};

enum class Action : std::uint8_t {
  kCompute,
  kLoad,
  kStore,
  kPack,    // several registers into one
  kUnpack,  // one into several
  kBranch,
  kBarrier,
  kReturn,
};

inline constexpr unsigned kMostSlots = 4;

struct Instruction {
  Action action = Action::kCompute;
  Compute compute = nullptr;
  std::uint64_t setting = 0;  // of `compute`
  Type type = Type::kB32;     // of the result, or of an element in memory
  std::uint8_t ins = 0;
  std::uint8_t outs = 0;
  bool uniform = false;      // a branch that all threads of a warp take, or none
  bool read_only = false;    // ld.nc
  std::uint32_t used = ~0U;  // bytes of a load that are looked at
  Space space = Space::kGeneric;
  Slot guard;
  Slot base;  // of an address
  std::int64_t offset = 0;
  Slot in[kMostSlots];
  Slot out[kMostSlots];
  std::uint32_t target = 0;  // of a branch
  std::uint32_t join = 0;    // where the threads meet again that it parts
  std::uint32_t line = 0;
  std::string text;  // opcode with its modifiers
};

/// A variable, or a parameter.
struct Variable {
  std::string name;
  Space space = Space::kGlobal;
  std::uint64_t align = 1;
  std::uint64_t bytes = 0;
  std::uint64_t address = 0;  // in its space; of a module's variable: of no meaning
  std::vector<unsigned char> initial;
};

/// Variables of one space, with gaps between them.
class VariableLayout {
 public:
  /// Gives `variable` its address.
  void add(Variable& variable);
  /// True if the bytes from `address` on are all of one variable.
  bool holds(std::uint64_t address, std::uint64_t bytes) const;
  std::uint64_t bytes() const { return end_; }
  /// Bytes as ptxas lays the variables out, without gaps.
  std::uint64_t dense_bytes() const { return dense_end_; }

 private:
  struct Range {
    std::uint64_t begin;
    std::uint64_t end;
  };
  std::vector<Range> ranges_;
  std::uint64_t end_ = kSpaceBegin;
  std::uint64_t dense_end_ = 0;
};

struct Kernel {
  std::string name;
  std::uint32_t line = 0;
  std::vector<Variable> parameters;
  VariableLayout parameter_layout;
  VariableLayout shared;
  VariableLayout local;
  std::vector<Type> registers;
  std::vector<std::string> register_names;
  std::vector<Instruction> code;
  std::uint64_t most_threads = 1024;
  std::optional<std::uint64_t> exact_threads;
};

struct Module {
  std::uint32_t target = 0;  // 75, 80, 90, 100
  std::vector<Variable> variables;
  std::vector<Kernel> kernels;

  /// Null if there is none.
  const Kernel* find(const std::string& name) const;
};

}  // namespace echobuf::ptx
