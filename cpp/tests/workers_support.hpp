// A trainer and its workers in one process: workers are threads here, with mappings of
// their own.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <vector>

#include "echobuf/buffer/buffer.hpp"
#include "echobuf/shared/worker.hpp"
#include "echobuf/shared/worker_pool.hpp"
#include "support.hpp"

namespace echobuf::workers::test {

using namespace echobuf::test;  // NOLINT(google-build-using-namespace)

constexpr std::uint64_t kWords = 40;  // of a record: not one store
constexpr std::uint64_t kKept = 1000;

using Indices = std::vector<std::int64_t>;

inline Indices counted(std::int64_t n) {
  Indices indices(static_cast<std::size_t>(n));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

/// A buffer and its pool, whose first term has begun. `Core`: of the buffer.
template <class Core>
struct BasicTrainer {
  /// `order`: how many items enter in order; without a number all do.
  BasicTrainer(const BufferOptions& options, std::uint64_t workers, std::uint64_t ahead,
               std::optional<std::uint64_t> order = std::nullopt)
      : buffer(std::make_shared<Core>(options)),
        pool(std::make_unique<RecordSinkOf<Core>>(buffer), workers, ahead, kKept),
        workers(workers),
        ordered(order) {
    pool.begin(buffer->term(), ordered);
  }

  std::unique_ptr<Worker> hire(std::uint64_t number) const {
    const int block = pool.control_block().fd();
    const int fd = pool.memory()->fd();
    if (const RowsAreas* const areas = pool.areas())
      return std::make_unique<Worker>(
          block, workers, number,
          std::make_unique<RowsAreas>(fd, workers, areas->record(), areas->sizes()));
    const RecordLayout layout(buffer->options().fields, false);
    const std::uint64_t slots = pool.memory()->bytes() / layout.stride();
    return std::make_unique<Worker>(block, workers, number,
                                    std::make_unique<RingSlots>(fd, layout, slots));
  }

  Status submit(const Indices& indices) {
    std::uint64_t submitted = 0;
    return pool.submit(buffer->term(), indices.data(), indices.size(), submitted,
                       Deadline::max());
  }
  Status wait_committed(Deadline deadline = Deadline::max()) {
    return pool.wait_committed(pool.submitted(), deadline);
  }
  void revoke() { pool.revoke(buffer->term(), pool.submitted()); }
  void begin_next() {
    ASSERT_EQ(buffer->reset(1), Status::kOk);
    pool.begin(buffer->term(), ordered);
  }

  std::shared_ptr<Core> buffer;
  WorkerPool pool;
  std::uint64_t workers;
  std::optional<std::uint64_t> ordered;
};

/// Of records of one size, whose words are all their index.
struct Trainer : BasicTrainer<Buffer> {
  explicit Trainer(std::uint64_t workers, std::uint64_t ahead = 4,
                   std::optional<std::uint64_t> order = std::nullopt)
      : BasicTrainer(options(), workers, ahead, order) {}

  static BufferOptions options() {
    BufferOptions options;
    options.fields = {{8 * kWords, 1}};
    options.batch_size = 4;
    options.window = 32;
    options.factor = {1, 1};
    options.shared = true;
    return options;
  }
};

inline void write(Worker& worker, std::int64_t index) {
  const Indices words(kWords, index);
  const SourceLeaf leaf = SourceLeaf::of(words.data(), kWords);
  worker.write(&leaf);
}

inline void make(Worker& worker, std::int64_t expected) {
  std::int64_t index = -1;
  ASSERT_EQ(worker.take(index, Deadline::max()), Status::kOk);
  ASSERT_EQ(index, expected);
  write(worker, index);
  worker.done();
}

/// Works until the pool is closed, and writes examples with `write_as`; dies now and
/// then, before or after it has written something, and is hired again.
template <class Trainer, class Write>
void work(const Trainer& trainer, std::uint64_t number, double chance_of_death,
          Write&& write_as) {
  std::mt19937 random(static_cast<unsigned>(number));
  std::bernoulli_distribution dies(chance_of_death);
  std::unique_ptr<Worker> worker = trainer.hire(number);
  for (;;) {
    std::int64_t index = 0;
    if (worker->take(index, Deadline::max()) == Status::kClosed) return;
    if (dies(random)) {
      worker = trainer.hire(number);
      continue;
    }
    const bool dies_late = dies(random);
    write_as(*worker, dies_late ? index + 13 : index);
    if (dies_late)
      worker = trainer.hire(number);
    else
      worker->done();
  }
}

/// All that is served, each record checked to be whole.
inline Indices serve_out(Buffer& buffer) {
  Indices served;
  for (Batch batch; buffer.next(batch) == Status::kOk;) {
    const auto* words = buffer.field<std::int64_t>(batch, 0);
    for (std::uint64_t i = 0; i < batch.count; ++i) {
      for (std::uint64_t w = 1; w < kWords; ++w)
        EXPECT_EQ(words[i * kWords + w], words[i * kWords]);
      served.push_back(words[i * kWords]);
    }
  }
  return served;
}

}  // namespace echobuf::workers::test
