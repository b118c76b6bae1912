// Registers and memory of a warp's threads.
#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "ptx/block.hpp"
#include "ptx/warp.hpp"

namespace echobuf::ptx {

namespace {

/// Calls `body` with each lane of `mask`.
template <class Body>
void each_lane(std::uint32_t mask, Body body) {
  for (; mask != 0; mask &= mask - 1)
    body(static_cast<unsigned>(std::countr_zero(mask)));
}

/// Adds a request of threads that access `bytes` each, in separate sectors or not.
void add_traffic(Traffic& traffic, std::vector<std::uint64_t>& sectors,
                 std::uint64_t bytes) {
  if (sectors.empty()) return;
  ++traffic.requests;
  traffic.bytes += sectors.size() * bytes;
  std::sort(sectors.begin(), sectors.end());
  traffic.sectors += static_cast<std::uint64_t>(
      std::unique(sectors.begin(), sectors.end()) - sectors.begin());
}

}  // namespace

std::uint32_t Warp::guarded(const Instruction& at, std::uint32_t mask) const {
  if (at.guard.kind == Slot::Kind::kNone) return mask;
  check_written(at, at.guard, mask);
  std::uint32_t found = 0;
  each_lane(mask, [&](unsigned lane) {
    if (value(at.guard, lane) != 0) found |= std::uint32_t{1} << lane;
  });
  return found;
}

void Warp::check_written(const Instruction& at, const Slot& slot,
                         std::uint32_t mask) const {
  if (slot.kind != Slot::Kind::kRegister) return;
  const std::uint32_t unwritten = mask & ~written_[slot.index];
  if (unwritten == 0) return;
  fail(at, static_cast<unsigned>(std::countr_zero(unwritten)),
       {FaultKind::kUnwrittenRegister, kernel_.register_names[slot.index]});
}

std::uint64_t Warp::value(const Slot& slot, unsigned lane) const {
  switch (slot.kind) {
    case Slot::Kind::kRegister: {
      const std::uint64_t found = values_[slot.index * kLanes + lane];
      return slot.negated ? found ^ 1 : found;
    }
    case Slot::Kind::kImmediate:
      return slot.value;
    case Slot::Kind::kVariable:
      return block_.launch().variables[slot.index] + slot.value;
    case Slot::Kind::kSpecial:
      return special(static_cast<Special>(slot.index), lane);
    case Slot::Kind::kNone:
    case Slot::Kind::kSink:
      break;
  }
  return 0;
}

std::uint64_t Warp::special(Special which, unsigned lane) const {
  const LaunchSettings& settings = block_.launch().settings;
  const Extent thread = settings.block.place(first_ + lane);
  const Extent block = block_.place();
  switch (which) {
    case Special::kTidX:
      return thread.x;
    case Special::kTidY:
      return thread.y;
    case Special::kTidZ:
      return thread.z;
    case Special::kNtidX:
      return settings.block.x;
    case Special::kNtidY:
      return settings.block.y;
    case Special::kNtidZ:
      return settings.block.z;
    case Special::kCtaidX:
      return block.x;
    case Special::kCtaidY:
      return block.y;
    case Special::kCtaidZ:
      return block.z;
    case Special::kNctaidX:
      return settings.grid.x;
    case Special::kNctaidY:
      return settings.grid.y;
    case Special::kNctaidZ:
      return settings.grid.z;
    case Special::kLaneid:
      return lane;
  }
  return 0;
}

/// `value` has the bits of the instruction's type; a wider register is filled with
/// zeros or signs.
void Warp::set(const Instruction& at, const Slot& slot, unsigned lane,
               std::uint64_t value) {
  if (slot.kind == Slot::Kind::kSink) return;
  if (is_signed(at.type))
    value = low_bits(sign_extended(value, bits_of(at.type)), slot.bits);
  values_[slot.index * kLanes + lane] = value;
  written_[slot.index] |= std::uint32_t{1} << lane;
}

void Warp::compute(const Instruction& at, std::uint32_t mask) {
  for (unsigned i = 0; i < at.ins; ++i) check_written(at, at.in[i], mask);
  each_lane(mask, [&](unsigned lane) {
    std::uint64_t in[kMostSlots];
    for (unsigned i = 0; i < at.ins; ++i) in[i] = value(at.in[i], lane);
    try {
      set(at, at.out[0], lane, at.compute(in, at.setting));
    } catch (const Complaint& complaint) {
      fail(at, lane, complaint);
    }
  });
}

void Warp::pack(const Instruction& at, std::uint32_t mask) {
  for (unsigned i = 0; i < at.ins; ++i) check_written(at, at.in[i], mask);
  const unsigned bits = bits_of(at.type) / at.ins;
  each_lane(mask, [&](unsigned lane) {
    std::uint64_t whole = 0;
    for (unsigned i = 0; i < at.ins; ++i)
      whole |= low_bits(value(at.in[i], lane), bits) << (i * bits);
    set(at, at.out[0], lane, whole);
  });
}

void Warp::unpack(const Instruction& at, std::uint32_t mask) {
  check_written(at, at.in[0], mask);
  const unsigned bits = bits_of(at.type);
  each_lane(mask, [&](unsigned lane) {
    const std::uint64_t whole = value(at.in[0], lane);
    for (unsigned i = 0; i < at.outs; ++i)
      set(at, at.out[i], lane, low_bits(whole >> (i * bits), bits));
  });
}

/// Calls `body(lane, place)` with the memory of each lane, after all checks but that of
/// bytes which were never written.
template <class Body>
void Warp::access(const Instruction& at, std::uint32_t mask, Body body) {
  check_written(at, at.base, mask);
  const bool write = at.action == Action::kStore;
  const unsigned count = write ? at.ins : at.outs;
  const std::uint64_t bytes = std::uint64_t{count} * bytes_of(at.type);
  std::vector<std::uint64_t> sectors;  // of each access to global memory
  sectors.reserve(kLanes);
  each_lane(mask, [&](unsigned lane) {
    const std::uint64_t address =
        value(at.base, lane) + static_cast<std::uint64_t>(at.offset);
    if (Block::is_global(at.space, address)) sectors.push_back(address / kSectorBytes);
    const auto fault = [&](FaultKind kind, const std::string& text) {
      fail(at, lane,
           {kind, std::to_string(bytes) + " bytes at address " + hexadecimal(address) +
                      ": " + text});
    };
    const std::uint32_t thread = first_ + lane;
    const auto find = [&] {
      try {
        return block_.find(at.space, address, bytes, write, at.used, thread);
      } catch (const Complaint& complaint) {
        fault(complaint.kind, complaint.text);
        throw;  // not reached
      }
    };
    if (address % bytes != 0)
      fault(FaultKind::kMisaligned, "not a multiple of " + std::to_string(bytes));
    const Place place = find();
    if (write && place.read_only)
      fault(FaultKind::kReadOnly, "a parameter or constant");
    const Accessor now{block_.launch().settings.number, block_.number(), thread,
                       block_.epoch(), at.line};
    for (std::uint64_t i = 0; place.shadow != nullptr && i < bytes; ++i) {
      Cell& cell = place.shadow->at(place.begin + i);
      if (!write && (at.used >> i & 1) == 0) continue;
      if (at.read_only && cell.written_in(now.launch))
        fault(FaultKind::kRace, "ld.nc of what the same launch writes");
      if (write && cell.read_only_in(now.launch))
        fault(FaultKind::kRace, "the same launch reads it by ld.nc");
      if (at.read_only) cell.note_read_only(now.launch);
      if (const Accessor* other = cell.touch(now, write)) {
        const LaunchSettings& settings = block_.launch().settings;
        fault(FaultKind::kRace, "nothing orders it and the access of line " +
                                    std::to_string(other->line) + ", block " +
                                    text_of(settings.grid.place(other->block)) +
                                    ", thread " +
                                    text_of(settings.block.place(other->thread)));
      }
    }
    body(lane, place, fault);
  });
  Counts& counts = block_.launch().counts;
  add_traffic(write ? counts.stores : counts.loads, sectors, bytes);
}

void Warp::load(const Instruction& at, std::uint32_t mask) {
  const unsigned bytes = bytes_of(at.type);
  access(at, mask, [&](unsigned lane, const Place& place, const auto& fault) {
    for (unsigned i = 0; place.written != nullptr && i < at.outs * bytes; ++i)
      if (place.written[i] == 0 && (at.used >> i & 1) != 0)
        fault(FaultKind::kUnwrittenMemory,
              "byte " + std::to_string(i) + " was never written");
    for (unsigned i = 0; i < at.outs; ++i) {
      std::uint64_t found = 0;
      std::memcpy(&found, place.data + std::size_t{i} * bytes, bytes);
      set(at, at.out[i], lane, found);
    }
  });
}

void Warp::store(const Instruction& at, std::uint32_t mask) {
  const unsigned bytes = bytes_of(at.type);
  for (unsigned i = 0; i < at.ins; ++i) check_written(at, at.in[i], mask);
  access(at, mask, [&](unsigned lane, const Place& place, const auto&) {
    for (unsigned i = 0; i < at.ins; ++i) {
      const std::uint64_t stored = value(at.in[i], lane);
      std::memcpy(place.data + std::size_t{i} * bytes, &stored, bytes);
    }
    if (place.written != nullptr)
      std::memset(place.written, 1, std::size_t{at.ins} * bytes);
  });
}

void Warp::fail(const Instruction& at, unsigned lane,
                const Complaint& complaint) const {
  const Extent thread = block_.launch().settings.block.place(first_ + lane);
  throw Fault(complaint.kind, at.line,
              kernel_.name + ", line " + std::to_string(at.line) + " (" + at.text +
                  "), block " + text_of(block_.place()) + ", thread " +
                  text_of(thread) + ": " + complaint.text);
}

}  // namespace echobuf::ptx
