// Counts of how often each example of an epoch was served, and their check.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "examples.hpp"

namespace echobuf::soak {

class Tally {
 public:
  Tally(const Examples& examples, std::uint64_t epoch, std::uint64_t n)
      : epoch_(epoch), examples_(n), copies_(n, 0), uses_(n) {
    // Examples whose numbers look alike are counted together.
    for (std::uint64_t i = 0; i < n; ++i)
      ++copies_[Examples::index_of(examples.number(epoch, i))];
  }

  /// False if no such example was put. Relaxed: read when the consumers have ended.
  bool count(std::uint64_t index) {
    if (index >= examples_ || copies_[index] == 0) return false;
    uses_[index].fetch_add(1, std::memory_order_relaxed);
    draws_.fetch_add(1, std::memory_order_relaxed);
    return true;
  }
  std::uint64_t draws() const { return draws_.load(std::memory_order_relaxed); }

  /// Returns the faults of an epoch that was served to its end; "" if there are none.
  std::string faults(const BufferOptions& options) const {
    const Ratio& factor = options.factor;
    std::uint64_t least = options.automatic ? 1 : factor.num / factor.den;
    if (std::string fault = over(options); !fault.empty()) return fault;
    std::uint64_t missing = 0;
    for (std::uint64_t i = 0; i < examples_; ++i) {
      const std::uint64_t uses = uses_[i].load(std::memory_order_relaxed);
      missing += least * copies_[i] - std::min(uses, least * copies_[i]);
    }
    if (missing >= (options.drop_last ? options.batch_size : 1))
      return std::to_string(missing) + " draws are missing";
    if (options.automatic) return "";
    const std::uint64_t phase = epoch_phase(factor, options.seed, epoch_);
    std::uint64_t draws =
        FixedSchedule(options.window, factor, phase).total_draws(examples_);
    if (options.drop_last) draws -= draws % options.batch_size;
    if (draws == this->draws()) return "";
    return std::to_string(this->draws()) + " draws, not " + std::to_string(draws);
  }

  /// Returns the records that were served too often; "" if none was, as always.
  std::string over(const BufferOptions& options) const {
    const std::uint64_t most =
        options.automatic ? options.max_factor : options.factor.ceil();
    for (std::uint64_t i = 0; i < examples_; ++i) {
      const std::uint64_t uses = uses_[i].load(std::memory_order_relaxed);
      if (uses > most * copies_[i])
        return "example " + std::to_string(i) + " was served " + std::to_string(uses) +
               " times";
    }
    return "";
  }

 private:
  const std::uint64_t epoch_;
  const std::uint64_t examples_;
  std::vector<std::uint32_t> copies_;
  std::vector<std::atomic<std::uint32_t>> uses_;
  std::atomic<std::uint64_t> draws_{0};
};

}  // namespace echobuf::soak
