#include "control.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "draw.hpp"
#include "kernels.hpp"
#include "library.hpp"
#include "stage.hpp"

namespace echobuf::simulated {

namespace {

constexpr std::size_t kWidestAccess = 16;  // of one instruction

void host_access(World& world, const void* address, std::size_t bytes, bool write) {
  const std::lock_guard lock(world.mutex);
  world.memory.access(world.host(), number(address), bytes, write);
}

/// Control calls come without a current context.
bool is_own(StreamHandle stream) {
  return stream != nullptr && stream != cuda::kLegacyStream &&
         stream != cuda::kPerThreadStream;
}

void wait_all(const std::vector<Position>& positions) {
  for (const Position& position : positions) position.wait();
}

}  // namespace

void echobuf_simulated_start(std::uint64_t seed, int devices,
                             std::size_t bytes_per_device, std::size_t pinned_bytes,
                             unsigned largest_delay_us) {
  if (!forked())
    start(
        {seed, std::max(devices, 0), bytes_per_device, pinned_bytes, largest_delay_us});
}

void echobuf_simulated_stop() {
  if (!forked()) stop();
}

std::size_t echobuf_simulated_reports() { return forked() ? 0 : reports().count(); }

std::size_t echobuf_simulated_report(std::size_t index, char* text, std::size_t size) {
  if (forked()) return 0;
  const std::string whole = reports().text(index);
  if (text && size > 0) {
    const std::size_t copied = std::min(whole.size(), size - 1);
    std::memcpy(text, whole.data(), copied);
    text[copied] = '\0';
  }
  return whole.size();
}

void echobuf_simulated_fail(const char* symbol, int nth, int code) {
  if (!forked()) fail(symbol, nth, code);
}

std::size_t echobuf_simulated_calls(const char* symbol) {
  return forked() ? 0 : calls(symbol);
}

void echobuf_simulated_lose(int code) {
  if (forked()) return;
  if (const auto on = world()) on->lose(code);
}

Result echobuf_simulated_hold(StreamHandle stream, int held) {
  return call("echobuf_simulated_hold", [&](World& world, Lock&) {
    world.find_stream("echobuf_simulated_hold", stream).queue->hold(held != 0);
  });
}

Result echobuf_simulated_wait(StreamHandle stream) {
  return call("echobuf_simulated_wait", [&](World& world, Lock& lock) {
    std::vector<Position> positions;
    if (is_own(stream)) {
      positions.push_back(
          world.position(world.find_stream("echobuf_simulated_wait", stream)));
    } else {
      positions = world.all_positions();
    }
    lock.unlock();
    wait_all(positions);
  });
}

Result echobuf_simulated_lend(int device, std::size_t bytes, Address* address) {
  return call("echobuf_simulated_lend", [&](World& world, Lock&) {
    world.check_device(device);
    const void* memory = world.memory.allocate(Kind::kDevice, device, bytes, true);
    if (!memory) throw Failure{cuda::kErrorOutOfMemory};
    *address = number(memory);
  });
}

Result echobuf_simulated_free(Address address) {
  if (!forked() && Memory::free_outlived(address)) return cuda::kSuccess;
  return call("echobuf_simulated_free", [&](World& world, Lock& lock) {
    const std::vector<Position> positions = world.all_positions();
    lock.unlock();
    wait_all(positions);
    lock.lock();
    if (!world.memory.free(Kind::kDevice, address, world.host(), false))
      throw Failure{cuda::kErrorInvalidValue};
  });
}

Result echobuf_simulated_free_on(Address address, StreamHandle stream) {
  if (!forked() && Memory::free_outlived(address)) return cuda::kSuccess;
  bool in_order = true;
  const Result result = call("echobuf_simulated_free_on", [&](World& world, Lock&) {
    StreamState* const found = world.live_stream(stream);
    in_order = found && !found->capture.active();
    if (!in_order) return;
    world.enqueue(*found, {"free", [address](const Actor& actor) {
                             running().memory->free(Kind::kDevice, address, actor,
                                                    true);
                           }});
  });
  return in_order ? result : echobuf_simulated_free(address);
}

Result echobuf_simulated_reuse_handles(int reuse) {
  return call("echobuf_simulated_reuse_handles",
              [&](World& world, Lock&) { world.reuse_handles(reuse != 0); });
}

void echobuf_simulated_host_access(const void* address, std::size_t bytes, int write) {
  if (forked()) return;
  if (const auto on = world()) host_access(*on, address, bytes, write != 0);
}

FunctionHandle echobuf_simulated_function(const char* name) {
  static const std::map<std::string, FunctionHandle> functions = {
      {"echobuf_draw", draw_function()},
      {"echobuf_draw_planned", draw_planned_function()},
      {"echobuf_draw_partners", draw_partners_function()},
      {"echobuf_plan", plan_function()},
      {"echobuf_draw_rows", draw_rows_function()},
      {"echobuf_place_rows", place_rows_function()},
      {"echobuf_scatter", scatter_function()},
      {"echobuf_stage_make", make_function()},
      {"echobuf_stage_sum", sum_function()}};
  const auto found = functions.find(name);
  return found == functions.end() ? nullptr : found->second;
}

FunctionHandle echobuf_simulated_kernel(const char* name, Kernel run,
                                        const std::size_t* argument_bytes,
                                        int arguments) {
  if (forked()) return nullptr;
  return register_kernel({name, run, {argument_bytes, argument_bytes + arguments}});
}

void echobuf_simulated_touch(const void* address, std::size_t bytes, int write) {
  const auto [actor, memory] = running();
  if (!actor) return echobuf_simulated_host_access(address, bytes, write);
  const bool whole = bytes <= kWidestAccess && std::has_single_bit(bytes);
  if (whole && number(address) % bytes != 0)
    reports().add("misaligned: " + actor->label->text() + " accesses " +
                  std::to_string(bytes) + " bytes at an address that is no multiple");
  memory->access(*actor, number(address), bytes, write != 0);
}

}  // namespace echobuf::simulated
