// Counts of the rows of an epoch: of fresh records, and of the batches that were drawn.
#pragma once

#include <atomic>
#include <cstdint>

#include "echobuf/sync/clocks.hpp"

namespace echobuf {

/// A draw writes, one at a time, and any thread reads. A reader may see a batch or a
/// record of which one count is there, and the other not yet.
class RowsCounts {
 public:
  void clear() {
    for (auto* count : {&fresh_, &fresh_rows_, &drawn_, &filled_})
      count->store(0, std::memory_order_relaxed);
  }
  /// A record of so many examples, that have `rows` of all fields together.
  void add_fresh(std::uint64_t examples, std::uint64_t rows) {
    add(fresh_, examples);
    add(fresh_rows_, rows);
  }
  /// `drawn` rows of a batch, of which `filled` are those of examples.
  void add_drawn(std::uint64_t drawn, std::uint64_t filled) {
    add(drawn_, drawn);
    add(filled_, filled);
  }

  /// Rows of a fresh example, of all fields together; kUnknown before the first.
  double mean_rows() const { return quotient(fresh_rows_, fresh_); }
  /// The share of the rows drawn that are padding; kUnknown before the first.
  double padding_share() const { return 1 - quotient(filled_, drawn_); }

 private:
  using Count = std::atomic<std::uint64_t>;

  // Relaxed, and no exchange: a draw is the only writer, and nothing goes by counts.
  static void add(Count& count, std::uint64_t more) {
    count.store(count.load(std::memory_order_relaxed) + more,
                std::memory_order_relaxed);
  }
  static double quotient(const Count& part, const Count& all) {
    const std::uint64_t below = all.load(std::memory_order_relaxed);
    const std::uint64_t above = part.load(std::memory_order_relaxed);
    return below > 0 ? static_cast<double>(above) / static_cast<double>(below)
                     : kUnknown;
  }

  Count fresh_{0};
  Count fresh_rows_{0};
  Count drawn_{0};
  Count filled_{0};
};

}  // namespace echobuf
