#include "library.hpp"

#include <pthread.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <string_view>

namespace echobuf::simulated {

namespace {

// Nothing of this is ever destroyed: streams may still run when the process ends.
struct State {
  std::mutex mutex;
  std::shared_ptr<World> world;
  std::mutex starting;  // one start or stop at a time; held while a world ends
  Reports reports;
  std::mutex counting;
  std::map<std::string, std::size_t> calls;
  std::map<std::string, std::map<std::size_t, int>> faults;  // by number of the call
};

State& state() {
  static auto* const state = new State;
  return *state;
}

std::atomic<bool> is_forked{false};
std::atomic<bool> is_initialised{false};

std::atomic<bool> is_used{false};

// As with CUDA: a child of a process that had not begun may begin.
const int fork_handler [[maybe_unused]] = pthread_atfork(nullptr, nullptr, [] {
  if (is_used) is_forked = true;
});

std::shared_ptr<World> exchange(std::shared_ptr<World> next) {
  const std::lock_guard lock(state().mutex);
  state().world.swap(next);
  return next;
}

void forget_calls() {
  const std::lock_guard lock(state().counting);
  state().calls.clear();
  state().faults.clear();
}

}  // namespace

bool forked() { return is_forked; }
bool initialised() { return is_initialised; }

std::shared_ptr<World> world() {
  const std::lock_guard lock(state().mutex);
  return state().world;
}

Reports& reports() { return state().reports; }

void initialise() {
  const std::lock_guard starting(state().starting);
  is_used = true;
  if (!world()) exchange(std::make_shared<World>(Settings{}, reports()));
  is_initialised = true;
}

void start(const Settings& settings) {
  const std::lock_guard starting(state().starting);
  is_used = true;
  if (const auto before = exchange(nullptr)) before->end();
  reports().clear();
  forget_calls();
  exchange(std::make_shared<World>(settings, reports()));
}

void stop() {
  const std::lock_guard starting(state().starting);
  if (const auto before = exchange(nullptr)) before->end();
}

cuda::Result count_call(const char* symbol) {
  const std::lock_guard lock(state().counting);
  const std::size_t number = ++state().calls[symbol];
  const auto faults = state().faults.find(symbol);
  if (faults == state().faults.end()) return cuda::kSuccess;
  const auto fault = faults->second.find(number);
  return fault == faults->second.end() ? cuda::kSuccess : fault->second;
}

bool needs_device(const char* symbol) {
  constexpr std::array<std::string_view, 4> kFree{
      "echobuf_simulated_", "cuDevice", "cuCtxP", "cuThreadExchangeStreamCaptureMode"};
  return std::none_of(kFree.begin(), kFree.end(), [&](std::string_view begin) {
    return std::string_view(symbol).substr(0, begin.size()) == begin;
  });
}

std::size_t calls(const char* symbol) {
  const std::lock_guard lock(state().counting);
  const auto found = state().calls.find(symbol);
  return found == state().calls.end() ? 0 : found->second;
}

void fail(const char* symbol, int nth, int code) {
  const std::lock_guard lock(state().counting);
  if (nth < 1) {
    state().faults.erase(symbol);
  } else {
    const std::size_t number = state().calls[symbol] + static_cast<std::size_t>(nth);
    state().faults[symbol][number] = code;
  }
}

}  // namespace echobuf::simulated
