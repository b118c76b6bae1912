#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "library.hpp"
#include "ptx.hpp"
#include "ptx/errors.hpp"
#include "ptx/machine.hpp"
#include "ptx_kernels.hpp"

namespace echobuf::simulated {

namespace {

thread_local std::string ptx_error;

/// Runs `body`, and makes a code of what it throws.
template <class Body>
int ptx_call(Body body) noexcept {
  try {
    body();
    return 0;
  } catch (const ptx::ParseError& error) {
    ptx_error = error.what();
    return kPtxParse;
  } catch (const ptx::Fault& fault) {
    ptx_error = fault.what();
    return kPtxFault;
  } catch (const std::exception& error) {
    ptx_error = error.what();
    return kPtxHost;
  }
}

ptx::Machine& machine_of(void* machine) { return *static_cast<ptx::Machine*>(machine); }

}  // namespace

extern "C" {

void* echobuf_ptx_machine(std::uint64_t seed) {
  return std::make_unique<ptx::Machine>(seed).release();
}

void echobuf_ptx_end(void* machine) {
  const std::unique_ptr<ptx::Machine> owner(static_cast<ptx::Machine*>(machine));
}

const char* echobuf_ptx_error() { return ptx_error.c_str(); }

std::uint64_t echobuf_ptx_allocate(void* machine, std::uint64_t bytes) {
  std::uint64_t address = 0;
  ptx_call([&] { address = machine_of(machine).memory().allocate(bytes); });
  return address;
}

int echobuf_ptx_free(void* machine, std::uint64_t address) {
  return ptx_call([&] { machine_of(machine).memory().free(address); });
}

int echobuf_ptx_write(void* machine, std::uint64_t address, const void* from,
                      std::uint64_t bytes) {
  return ptx_call([&] {
    machine_of(machine).memory().write(
        address, {static_cast<const unsigned char*>(from), bytes});
  });
}

int echobuf_ptx_read(void* machine, std::uint64_t address, void* to,
                     std::uint64_t bytes) {
  return ptx_call([&] {
    machine_of(machine).memory().read(address,
                                      {static_cast<unsigned char*>(to), bytes});
  });
}

const void* echobuf_ptx_load(void* machine, const char* text, std::uint64_t bytes) {
  const void* module = nullptr;
  ptx_call([&] { module = &machine_of(machine).load({text, bytes}); });
  return module;
}

int echobuf_ptx_launch(void* machine, const void* module, const char* kernel,
                       const std::uint32_t* extents, const void* const* arguments,
                       const std::uint64_t* argument_bytes, std::uint64_t count,
                       std::uint64_t* counts) {
  return ptx_call([&] {
    std::vector<std::span<const unsigned char>> spans;
    for (std::uint64_t i = 0; i < count; ++i)
      spans.emplace_back(static_cast<const unsigned char*>(arguments[i]),
                         argument_bytes[i]);
    ptx::LaunchSettings settings;
    settings.grid = {extents[0], extents[1], extents[2]};
    settings.block = {extents[3], extents[4], extents[5]};
    settings.most_instructions = *counts;
    const auto [instructions, loads, stores] = machine_of(machine).launch(
        *static_cast<const ptx::LoadedModule*>(module), kernel, settings, spans);
    for (const std::uint64_t count :
         {instructions, loads.requests, loads.sectors, loads.bytes, stores.requests,
          stores.sectors, stores.bytes})
      *counts++ = count;
  });
}

const char* echobuf_ptx_launches() {
  static thread_local std::string text;
  text.clear();
  ptx_call([&] {
    for (const PtxLaunch& launch : take_ptx_launches()) {
      text += launch.kernel;
      const auto& [instructions, loads, stores] = launch.counts;
      for (const std::uint64_t number :
           {launch.blocks, launch.threads, instructions, loads.requests, loads.sectors,
            loads.bytes, stores.requests, stores.sectors, stores.bytes})
        text += ' ' + std::to_string(number);
      text += '\n';
    }
  });
  return text.c_str();
}

void* echobuf_ptx_kernel(const char* text, std::uint64_t bytes, const char* name,
                         void* host, std::uint64_t most_instructions) {
  if (forked()) return nullptr;
  void* handle = nullptr;
  ptx_call([&] {
    handle =
        ptx_kernel({text, bytes}, name, find_kernel(host).get(), most_instructions);
  });
  return handle;
}

}  // extern "C"

}  // namespace echobuf::simulated
