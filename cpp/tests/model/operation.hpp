// One step of a thread: what it is about to do, and what that makes of memory.
#pragma once

#include <cstdint>
#include <cstring>

namespace echobuf::model {

enum class Kind : std::uint8_t {
  kNone,
  kLoad,
  kStore,
  kRmw,
  kCas,
  kWait,
  kWake,
  kLock,
  kTryLock,
  kUnlock,
  kNow,
  kYield,
  kResume,
};
enum class Function : std::uint8_t { kExchange, kAdd, kSub, kAnd, kOr, kXor };
enum Order : std::uint8_t { kRelaxed, kConsume, kAcquire, kRelease, kAcqRel, kSeqCst };

/// The next operation of a thread. No padding: states are compared byte by byte.
struct Op {
  std::uint64_t address, operand, expected;
  std::uint64_t site;  // where in the program: a return address
  Kind kind;
  Function function;
  std::uint8_t size, order, failure_order, weak;
  std::uint8_t unused[2];
};

inline std::uint64_t peek(const Op& op) {
  std::uint64_t value = 0;
  std::memcpy(&value, reinterpret_cast<const void*>(op.address), op.size);
  return value;
}
inline void poke(const Op& op, std::uint64_t value) {
  std::memcpy(reinterpret_cast<void*>(op.address), &value, op.size);
}

inline std::uint64_t cut(std::uint64_t value, std::uint8_t size) {
  return size == 8 ? value : value & ((std::uint64_t{1} << (8 * size)) - 1);
}

inline std::uint64_t result_of(const Op& op, std::uint64_t old) {
  switch (op.function) {
    case Function::kExchange:
      return op.operand;
    case Function::kAdd:
      return cut(old + op.operand, op.size);
    case Function::kSub:
      return cut(old - op.operand, op.size);
    case Function::kAnd:
      return old & op.operand;
    case Function::kOr:
      return old | op.operand;
    case Function::kXor:
      return old ^ op.operand;
  }
  return 0;
}

inline bool acquires(std::uint8_t order) {
  return order == kAcquire || order == kAcqRel;
}
inline bool releases(std::uint8_t order) {
  return order == kRelease || order == kAcqRel;
}

inline bool is_atomic(Kind kind) { return kind >= Kind::kLoad && kind <= Kind::kCas; }
inline bool is_lock(Kind kind) { return kind >= Kind::kLock && kind <= Kind::kUnlock; }

}  // namespace echobuf::model
