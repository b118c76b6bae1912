#include "ptx_kernels.hpp"

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "library.hpp"
#include "ptx/machine.hpp"

namespace echobuf::simulated {

namespace {

/// The simulated driver's memory during one launch, which runs on the calling thread.
class LaunchMemory : public ptx::DeviceMemory {
 public:
  LaunchMemory(const Running& running, ptx::DeviceMemory& variables)
      : running_(running), variables_(variables) {}

  ptx::Place find_place(std::uint64_t address, std::uint64_t bytes, bool write,
                        std::uint32_t used) override {
    if (address >= ptx::kMemoryBegin)
      return variables_.find_place(address, bytes, write, used);
    if (!note(address, bytes, write, used)) outside();
    if (shadow_ == nullptr || address < range_.begin ||
        address - range_.begin >= range_.bytes)
      find_shadow(address);
    if (range_.begin + range_.bytes - address < bytes) outside();
    return {reinterpret_cast<unsigned char*>(address), nullptr, shadow_,
            address - range_.begin, false};
  }

 private:
  [[noreturn]] static void outside() {
    throw ptx::Complaint{ptx::FaultKind::kOutOfBounds, "no memory of the device"};
  }

  /// Reports what is wrong among streams; threads of this launch have their shadow.
  /// False if the bytes are not there.
  bool note(std::uint64_t address, std::uint64_t bytes, bool write,
            std::uint32_t used) const {
    const auto access = [&](std::uint64_t begin, std::uint64_t end) {
      return running_.memory->access(*running_.actor, address + begin, end - begin,
                                     write);
    };
    if (write || used == ~0U) return access(0, bytes);
    const auto is_used = [&](std::uint64_t i) { return (used >> i & 1) != 0; };
    bool there = true;
    for (std::uint64_t begin = 0; begin < bytes;) {
      std::uint64_t end = begin;
      while (end < bytes && is_used(end) == is_used(begin)) ++end;
      if (is_used(begin)) there = access(begin, end) && there;
      begin = end;
    }
    return there;
  }

  /// Makes the block of `address` the last one.
  void find_shadow(std::uintptr_t address) {
    const auto range = running_.memory->range_of(address);
    if (!range) outside();
    range_ = *range;
    auto [shadow, added] = shadows_.try_emplace(range_.begin);
    if (added) shadow->second.resize(range_.bytes);
    shadow_ = &shadow->second;
  }

  const Running& running_;
  ptx::DeviceMemory& variables_;
  std::map<std::uintptr_t, ptx::Shadow> shadows_;  // by begin of their blocks
  Memory::Range range_{};                          // of the last access
  ptx::Shadow* shadow_ = nullptr;                  // its shadow
};

/// The launches that no call has taken yet.
class Launches {
 public:
  void add(PtxLaunch launch) {
    const std::lock_guard lock(mutex_);
    launches_.push_back(std::move(launch));
    if (launches_.size() > kMostPtxLaunches) launches_.pop_front();
  }
  std::vector<PtxLaunch> take() {
    const std::lock_guard lock(mutex_);
    std::vector<PtxLaunch> taken(launches_.begin(), launches_.end());
    launches_.clear();
    return taken;
  }

 private:
  std::mutex mutex_;
  std::deque<PtxLaunch> launches_;
};

Launches& launches() {
  static auto& launches = *new Launches;
  return launches;
}

/// A PTX text, whose variables are its own.
struct PtxModule {
  explicit PtxModule(std::string_view text) : loaded(machine.load(text)) {}
  ptx::Machine machine{0};
  const ptx::LoadedModule& loaded;
  std::mutex mutex;
};

struct PtxKernel {
  std::shared_ptr<PtxModule> module;
  const ptx::Kernel* kernel;
  std::uint64_t most_instructions;  // of a launch

  void run(const Launch& launch, void* const* arguments) const {
    static std::atomic<std::uint32_t> number;
    const Running& on = running();
    ptx::LaunchSettings settings;
    settings.grid = {launch.grid.x, launch.grid.y, launch.grid.z};
    settings.block = {launch.block.x, launch.block.y, launch.block.z};
    settings.most_instructions = most_instructions;
    settings.number = ++number;
    settings.seed = launches_seed();
    std::vector<std::span<const unsigned char>> spans;
    for (std::size_t i = 0; i < kernel->parameters.size(); ++i)
      spans.emplace_back(static_cast<const unsigned char*>(arguments[i]),
                         kernel->parameters[i].bytes);
    const std::lock_guard lock(module->mutex);
    LaunchMemory memory(on, module->machine.memory());
    try {
      const ptx::Counts counts =
          ptx::run_kernel(*kernel, settings, spans, memory, module->loaded.variables);
      launches().add(
          {kernel->name, settings.grid.count(), settings.block.count(), counts});
    } catch (const std::exception& error) {
      reports().add(error.what());
    }
  }

 private:
  /// The seed of the driver that is on; launches have their number beside it.
  static std::uint64_t launches_seed() {
    const auto on = world();
    return on ? on->settings.seed : 0;
  }
};

}  // namespace

std::vector<PtxLaunch> take_ptx_launches() { return launches().take(); }

cuda::FunctionHandle ptx_kernel(std::string_view text, const std::string& name,
                                const KernelEntry* host,
                                std::uint64_t most_instructions) {
  using Limited = std::pair<const ptx::Kernel*, std::uint64_t>;
  static std::mutex mutex;
  static auto& modules = *new std::map<std::string, std::shared_ptr<PtxModule>>;
  static auto& handles = *new std::map<Limited, cuda::FunctionHandle>;
  const std::lock_guard lock(mutex);
  auto& module = modules[std::string(text)];
  if (!module) module = std::make_shared<PtxModule>(text);
  const ptx::Kernel* const kernel = module->loaded.module.find(name);
  if (kernel == nullptr) throw ptx::HostError("the module has no kernel " + name);
  std::vector<std::size_t> bytes;
  for (const ptx::Variable& parameter : kernel->parameters)
    bytes.push_back(parameter.bytes);
  if (host != nullptr && bytes != host->argument_bytes)
    throw ptx::HostError(name + ": its arguments have other sizes than those of " +
                         host->name);
  const Limited limited{kernel, most_instructions};
  const auto found = handles.find(limited);
  if (found != handles.end()) return found->second;
  const auto run = [of = PtxKernel{module, kernel, most_instructions}](
                       const Launch& launch, void* const* arguments) {
    of.run(launch, arguments);
  };
  return handles[limited] = register_kernel({name, run, std::move(bytes)});
}

}  // namespace echobuf::simulated
