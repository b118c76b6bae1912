// The calls of the code under test: the compiler's calls for atomics and plain
// accesses, and the system's functions by the linker's --wrap.
#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>

#include <algorithm>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <new>

#include "inside.hpp"
#include "runtime.hpp"

namespace echobuf::model {

using namespace inside;  // NOLINT(google-build-using-namespace)

namespace {

/// Posts a step and waits until it was taken. False: it is left out.
bool perform(Op& op) {
  if (recorded) {
    const Busy guard;
    const bool known = std::any_of(recorded->begin(), recorded->end(),
                                   [&](const Site& s) { return s.address == op.site; });
    if (!known) recorded->push_back({op.site, op.kind, op.order, op.failure_order});
  }
  if (mutation && std::count(mutation->sites.begin(), mutation->sites.end(), op.site)) {
    if (mutation->drop) return false;
    op.order = mutation->order;
    op.failure_order = mutation->failure_order;
  }
  {
    const Busy guard;
    machine().post(current, op);
  }
  to_scheduler();
  return true;
}

bool modelled(const volatile void* address) {
  return current >= 0 && !busy && in_arena(reinterpret_cast<std::uint64_t>(address));
}

Op make(Kind kind, const volatile void* address, std::size_t size, void* site) {
  Op op{};
  op.kind = kind;
  op.address = reinterpret_cast<std::uint64_t>(address);
  op.size = static_cast<std::uint8_t>(size);
  op.site = reinterpret_cast<std::uint64_t>(site);
  return op;
}

template <class T>
T load(const volatile T* address, int order, void* site) {
  if (!modelled(address)) {
    if (direct && !busy) machine().note_end(reinterpret_cast<std::uint64_t>(address));
    return __atomic_load_n(address, __ATOMIC_SEQ_CST);
  }
  Op op = make(Kind::kLoad, address, sizeof(T), site);
  op.order = static_cast<std::uint8_t>(order);
  if (!perform(op)) return *address;
  return static_cast<T>(machine().thread(current).result);
}

template <class T>
void store(volatile T* address, T value, int order, void* site) {
  if (!modelled(address)) return __atomic_store_n(address, value, __ATOMIC_SEQ_CST);
  Op op = make(Kind::kStore, address, sizeof(T), site);
  op.order = static_cast<std::uint8_t>(order);
  op.operand = value;
  perform(op);
}

template <class T>
T modify(Function function, volatile T* address, T value, int order, void* site) {
  if (!modelled(address)) {
    switch (function) {
      case Function::kExchange:
        return __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST);
      case Function::kAdd:
        return __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST);
      case Function::kSub:
        return __atomic_fetch_sub(address, value, __ATOMIC_SEQ_CST);
      case Function::kAnd:
        return __atomic_fetch_and(address, value, __ATOMIC_SEQ_CST);
      case Function::kOr:
        return __atomic_fetch_or(address, value, __ATOMIC_SEQ_CST);
      case Function::kXor:
        return __atomic_fetch_xor(address, value, __ATOMIC_SEQ_CST);
    }
  }
  Op op = make(Kind::kRmw, address, sizeof(T), site);
  op.function = function;
  op.order = static_cast<std::uint8_t>(order);
  op.operand = value;
  if (!perform(op)) return *address;
  return static_cast<T>(machine().thread(current).result);
}

template <class T>
int compare_exchange(volatile T* address, T* expected, T value, int order, int failure,
                     bool weak, void* site) {
  if (!modelled(address))
    return __atomic_compare_exchange_n(address, expected, value, false,
                                       __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  Op op = make(Kind::kCas, address, sizeof(T), site);
  op.order = static_cast<std::uint8_t>(order);
  op.failure_order = static_cast<std::uint8_t>(failure);
  op.weak = weak;
  op.operand = value;
  op.expected = *expected;
  if (!perform(op)) return 0;
  const Thread& self = machine().thread(current);
  if (self.success) return 1;
  *expected = static_cast<T>(self.result);
  return 0;
}

void plain(const volatile void* address, std::size_t size, bool write) {
  if (!modelled(address) || size == 0) return;
  bool alone = false;
  {
    const Busy guard;
    alone = machine().access(current, reinterpret_cast<std::uint64_t>(address), size,
                             write);
  }
  if (!alone) refuse(write ? "data race: a plain write" : "data race: a plain read");
}

}  // namespace

}  // namespace echobuf::model

namespace model = echobuf::model;
#define SITE __builtin_return_address(0)

extern "C" {

void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_atomic_thread_fence(int) {
  if (model::inside::current >= 0) model::refuse("fences are not in the model");
}
void __tsan_atomic_signal_fence(int) {}
void __tsan_vptr_update(void** address, void*) { model::plain(address, 8, true); }
void __tsan_vptr_read(void** address) { model::plain(address, 8, false); }
void __tsan_read_range(void* a, unsigned long n) { model::plain(a, n, false); }
void __tsan_write_range(void* a, unsigned long n) { model::plain(a, n, true); }

#define PLAIN(N)                                                        \
  void __tsan_read##N(void* a) { model::plain(a, N, false); }           \
  void __tsan_write##N(void* a) { model::plain(a, N, true); }           \
  void __tsan_unaligned_read##N(void* a) { model::plain(a, N, false); } \
  void __tsan_unaligned_write##N(void* a) { model::plain(a, N, true); }
PLAIN(1)
PLAIN(2)
PLAIN(4)
PLAIN(8)
PLAIN(16)

#define MODIFY(BITS, T, NAME, FUNCTION)                                    \
  T __tsan_atomic##BITS##_##NAME(volatile T* a, T v, int order) {          \
    return model::modify<T>(model::Function::FUNCTION, a, v, order, SITE); \
  }
#define ATOMIC(BITS, T)                                                                \
  T __tsan_atomic##BITS##_load(const volatile T* a, int order) {                       \
    return model::load<T>(a, order, SITE);                                             \
  }                                                                                    \
  void __tsan_atomic##BITS##_store(volatile T* a, T v, int order) {                    \
    model::store<T>(a, v, order, SITE);                                                \
  }                                                                                    \
  MODIFY(BITS, T, exchange, kExchange)                                                 \
  MODIFY(BITS, T, fetch_add, kAdd)                                                     \
  MODIFY(BITS, T, fetch_sub, kSub)                                                     \
  MODIFY(BITS, T, fetch_and, kAnd)                                                     \
  MODIFY(BITS, T, fetch_or, kOr)                                                       \
  MODIFY(BITS, T, fetch_xor, kXor)                                                     \
  int __tsan_atomic##BITS##_compare_exchange_strong(volatile T* a, T* e, T v,          \
                                                    int order, int failure) {          \
    return model::compare_exchange<T>(a, e, v, order, failure, false, SITE);           \
  }                                                                                    \
  int __tsan_atomic##BITS##_compare_exchange_weak(volatile T* a, T* e, T v, int order, \
                                                  int failure) {                       \
    return model::compare_exchange<T>(a, e, v, order, failure, true, SITE);            \
  }
ATOMIC(8, std::uint8_t)
ATOMIC(16, std::uint16_t)
ATOMIC(32, std::uint32_t)
ATOMIC(64, std::uint64_t)

// ---- the system, by --wrap

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  auto* word = reinterpret_cast<std::uint32_t*>(a[0]);
  if (number != SYS_futex || !model::modelled(word))
    return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  // Processes that share a futex are threads here.
  const long call = a[1] & ~long{FUTEX_PRIVATE_FLAG};
  const bool wait = call == FUTEX_WAIT;
  if (!wait && (call != FUTEX_WAKE || (a[2] != 1 && a[2] != 0x7FFFFFFF))) {
    model::refuse("this use of futex is not in the model");
  }
  model::Op op =
      model::make(wait ? model::Kind::kWait : model::Kind::kWake, word, 4, SITE);
  op.operand = static_cast<std::uint64_t>(a[2]);
  if (wait) {
    op.expected = static_cast<std::uint32_t>(a[2]);
    op.operand = ~std::uint64_t{0};
    if (const auto* left = reinterpret_cast<const timespec*>(a[3]))
      if (left->tv_sec < 1'000'000)
        op.operand = model::now_of(model::machine().time()) +
                     static_cast<std::uint64_t>(left->tv_sec) * 1'000'000'000 +
                     static_cast<std::uint64_t>(left->tv_nsec);
  }
  model::perform(op);
  return 0;
}

std::int64_t __real__ZNSt6chrono3_V212steady_clock3nowEv();
std::int64_t __wrap__ZNSt6chrono3_V212steady_clock3nowEv() {
  if (model::inside::current < 0 && !model::inside::direct)
    return __real__ZNSt6chrono3_V212steady_clock3nowEv();
  if (model::inside::current >= 0 && model::machine().time_can_pass()) {
    model::Op op = model::make(model::Kind::kNow, nullptr, 0, SITE);
    model::perform(op);
  }
  return static_cast<std::int64_t>(model::now_of(model::machine().time()));
}

pthread_t __real_pthread_self();
pthread_t __wrap_pthread_self() {
  if (model::inside::current < 0) return __real_pthread_self();
  return static_cast<pthread_t>(model::inside::current) + 1;  // fibers have their own
}

int __real_nanosleep(const timespec* time, timespec* left);
int __wrap_nanosleep(const timespec* time, timespec* left) {
  if (model::inside::current < 0) return __real_nanosleep(time, left);
  model::Op op = model::make(model::Kind::kYield, nullptr, 0, SITE);
  model::perform(op);
  return 0;
}

#define MUTEX(NAME, KIND, RESULT)                                            \
  int __real_pthread_mutex_##NAME(void* mutex);                              \
  int __wrap_pthread_mutex_##NAME(void* mutex) {                             \
    if (!model::modelled(mutex))                                             \
      return model::inside::direct ? 0 : __real_pthread_mutex_##NAME(mutex); \
    model::Op op = model::make(model::Kind::KIND, mutex, 8, SITE);           \
    model::perform(op);                                                      \
    return RESULT;                                                           \
  }
MUTEX(lock, kLock, 0)
MUTEX(unlock, kUnlock, 0)
MUTEX(trylock, kTryLock,
      model::machine().thread(model::inside::current).result ? 0 : 16)

void* __real_aligned_alloc(std::size_t alignment, std::size_t bytes);
void* __wrap_aligned_alloc(std::size_t alignment, std::size_t bytes) {
  if (model::inside::busy || (model::inside::current < 0 && !model::inside::direct))
    return __real_aligned_alloc(alignment, bytes);
  return model::inside::allocate(bytes, alignment);
}
void __real_free(void* memory);
void __wrap_free(void* memory) {
  if (!model::in_arena(reinterpret_cast<std::uint64_t>(memory)))
    return __real_free(memory);
  model::inside::release(memory);
}

void* __real_memcpy(void* to, const void* from, std::size_t bytes);
void* __wrap_memcpy(void* to, const void* from, std::size_t bytes) {
  model::plain(from, bytes, false);
  model::plain(to, bytes, true);
  return __real_memcpy(to, from, bytes);
}

}  // extern "C"

namespace {

void* allocate(std::size_t bytes, std::size_t alignment) {
  if ((model::inside::current >= 0 || model::inside::direct) && !model::inside::busy)
    return model::inside::allocate(bytes, alignment);
  void* memory = alignment > 16
                     ? __real_aligned_alloc(
                           alignment, (bytes + alignment - 1) / alignment * alignment)
                     : std::malloc(bytes ? bytes : 1);
  if (!memory) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes, 16); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { __wrap_free(memory); }
void operator delete(void* memory, std::size_t) noexcept { __wrap_free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { __wrap_free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  __wrap_free(memory);
}
