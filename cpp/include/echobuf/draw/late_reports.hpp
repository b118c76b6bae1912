// Losses that are on their way from where they are computed.
#pragma once

#include <cstdint>

#include "echobuf/store/losses.hpp"

namespace echobuf {

/// A loss of a device counts a number of batches after it was reported, whenever it was
/// computed: so with the same reports the order is the same.
class LateReports {
 public:
  LateReports() = default;
  LateReports(const LateReports&) = delete;
  LateReports& operator=(const LateReports&) = delete;
  virtual ~LateReports() = default;

  /// Hands over to `losses` what counts from the next batch on, and waits for it if
  /// need be: of records below `end`; what is of others is no loss of this epoch. For
  /// the consumer.
  virtual void take(Losses& losses, std::uint64_t end) = 0;

  /// Another epoch begins: drops all. For the consumer.
  virtual void forget() = 0;
};

}  // namespace echobuf
