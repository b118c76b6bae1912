#include "ptx/program.hpp"

#include <algorithm>

namespace echobuf::ptx {

namespace {

constexpr std::uint64_t kGap = 64;  // bytes that belong to no variable

}  // namespace

void VariableLayout::add(Variable& variable) {
  const std::uint64_t align = std::max<std::uint64_t>(variable.align, 1);
  const auto aligned = [&](std::uint64_t at) {
    return (at + align - 1) / align * align;
  };
  variable.address = aligned(end_);
  dense_end_ = aligned(dense_end_) + variable.bytes;
  ranges_.push_back({variable.address, variable.address + variable.bytes});
  end_ = variable.address + variable.bytes + kGap;
}

bool VariableLayout::holds(std::uint64_t address, std::uint64_t bytes) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [&](const Range& range) {
    return address >= range.begin && address <= range.end &&
           range.end - address >= bytes;
  });
}

const Kernel* Module::find(const std::string& name) const {
  const auto found = std::find_if(kernels.begin(), kernels.end(),
                                  [&](const Kernel& k) { return k.name == name; });
  return found == kernels.end() ? nullptr : &*found;
}

}  // namespace echobuf::ptx
