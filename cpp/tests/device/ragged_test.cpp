// Records that differ in length, on the simulated device beside a buffer on the host.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "control.hpp"
#include "draw.hpp"
#include "echobuf/buffer/buffer.hpp"
#include "echobuf/cuda/backend.hpp"
#include "simulated/graphs.hpp"
#include "tests/ragged_support.hpp"

namespace {

using namespace echobuf;        // NOLINT(google-build-using-namespace)
using namespace echobuf::test;  // NOLINT(google-build-using-namespace)

using Core = BasicBuffer<cuda::DeviceBackend>;

constexpr std::uint64_t kAll = ~std::uint64_t{0};

/// A simulated driver with one device.
class Simulation {
 public:
  explicit Simulation(std::uint64_t seed) {
    simulated::echobuf_simulated_start(seed, 1, std::size_t{1} << 26,
                                       std::size_t{1} << 26, 20);
    context_ = std::make_shared<const cuda::DeviceContext>(
        cuda::Driver::load(ECHOBUF_SIMULATED_CUDA), 0);
  }
  ~Simulation() {
    context_.reset();
    simulated::echobuf_simulated_stop();
    for (std::size_t i = 0; i < simulated::echobuf_simulated_reports(); ++i) {
      char text[1024];
      simulated::echobuf_simulated_report(i, text, sizeof text);
      ADD_FAILURE() << text;
    }
  }
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  const cuda::SharedContext& context() const { return context_; }

 private:
  cuda::SharedContext context_;
};

/// Nothing is transformed.
std::vector<cuda::StageKernels> no_stages() { return {}; }

/// Draws batch after batch into device memory of its size, or into that of a graph.
class Drawn {
 public:
  Drawn(Core& buffer, const cuda::SharedContext& context)
      : buffer_(buffer), context_(context), stream_(cuda::make_stream(context)) {}
  ~Drawn() {
    if (graph_) simulated::cuGraphExecDestroy(graph_);
  }
  Drawn(const Drawn&) = delete;
  Drawn& operator=(const Drawn&) = delete;

  /// The next batch in host memory, as a buffer on the CPU hands it out.
  Status next(Batch& batch, const WaitLimit& wait_limit = Deadline::max()) {
    RowsTarget target;
    target.stream = stream_->get();
    std::vector<std::unique_ptr<cuda::DeviceMemory>> memory;
    Status status = buffer_.next_rows(target, wait_limit);
    // With "auto" what is put in between may make it another batch.
    while (status == Status::kResize) {
      const std::vector<std::uint64_t> rows = target.needed;
      memory = take(target, rows);
      status = buffer_.next_rows(target, wait_limit);
      EXPECT_TRUE(buffer_.options().automatic || status != Status::kResize);
    }
    if (status != Status::kOk) return status;
    const cuda::DeviceContext::Scope scope(*context_);
    context_->driver().stream_synchronize(stream_->get());
    copy(target, target, batch);
    return status;
  }

  /// The next batch, by a launch of a graph with room for so many rows a leaf.
  Status replay(Batch& batch, const std::vector<std::uint64_t>& rows) {
    if (!graph_) capture(rows);
    RowsTarget planned;
    for (const std::uint64_t each : rows)
      planned.leaves.push_back({nullptr, nullptr, each});
    planned.room = kAll;
    planned.stream = stream_->get();
    const Status status = buffer_.before_replay(planned, Deadline::max());
    if (status != Status::kOk) return status;
    const cuda::DeviceContext::Scope scope(*context_);
    for (int launch = 0; launch < 2; ++launch)  // the same again
      EXPECT_EQ(simulated::cuGraphLaunch(graph_, stream_->get()), cuda::kSuccess);
    context_->driver().stream_synchronize(stream_->get());
    for (std::size_t leaf = 0; leaf < 3; ++leaf)
      planned.leaves[leaf].rows = planned.needed[leaf];
    copy(captured_, planned, batch);
    return status;
  }

 private:
  static constexpr std::size_t kRow[] = {8, kTokenBytes, kPointBytes};

  std::size_t values(const RowsTarget& target, std::size_t leaf) const {
    const std::uint64_t rows = target.leaves[leaf].rows;
    if (leaf == 0) return target.count * kRow[0];
    return rows * kRow[leaf] * (packed() ? 1 : target.count);
  }
  std::size_t index(const RowsTarget& target) const {
    return (target.count + (packed() ? 1 : 0)) * 8;
  }
  bool packed() const {
    return buffer_.options().lengths.form == LengthOptions::Form::kPacked;
  }

  /// Memory with leaves anywhere in it, as long as their items are aligned.
  std::vector<std::unique_ptr<cuda::DeviceMemory>> take(
      RowsTarget& target, const std::vector<std::uint64_t>& rows) {
    std::vector<std::unique_ptr<cuda::DeviceMemory>> memory;
    const auto add = [&](std::size_t bytes, std::size_t item) {
      memory.push_back(cuda::make_device_memory(context_, bytes + 64));
      const std::size_t skip = ++taken_ % 4 * item;
      return reinterpret_cast<std::byte*>(memory.back()->get() + skip);
    };
    target.leaves.clear();
    for (std::size_t leaf = 0; leaf < 3; ++leaf)
      target.leaves.push_back({nullptr, nullptr, rows[leaf]});
    for (std::size_t leaf = 0; leaf < 3; ++leaf) {
      target.leaves[leaf].values =
          add(values(target, leaf), leaf == 2 ? 2 : kRow[leaf]);
      if (leaf > 0) target.leaves[leaf].index = add(index(target), 8);
    }
    return memory;
  }

  void capture(const std::vector<std::uint64_t>& rows) {
    captured_.stream = stream_->get();
    captured_.count = captured_.room = buffer_.options().batch_size;
    memory_ = take(captured_, rows);
    const cuda::DeviceContext::Scope scope(*context_);
    simulated::GraphHandle graph = nullptr;
    EXPECT_EQ(simulated::cuStreamBeginCapture_v2(stream_->get(), 0), cuda::kSuccess);
    EXPECT_EQ(buffer_.next_rows(captured_, kAtOnce), Status::kOk);
    EXPECT_EQ(simulated::cuStreamEndCapture(stream_->get(), &graph), cuda::kSuccess);
    EXPECT_TRUE(captured_.captured);
    simulated::cuGraphInstantiateWithFlags(&graph_, graph, 0);
    simulated::cuGraphDestroy(graph);
  }

  /// Copies a batch of the size of `target` from memory that has room for it.
  void copy(const RowsTarget& memory, const RowsTarget& target, Batch& batch) const {
    batch.count = target.count;
    batch.places.clear();
    std::size_t bytes = 0;
    for (std::size_t leaf = 0; leaf < 3; ++leaf) {
      LeafPlace place{bytes, target.leaves[leaf].rows, 0};
      bytes += round_up(values(target, leaf), 64);
      place.index = bytes;
      if (leaf > 0) bytes += round_up(index(target), 64);
      batch.places.push_back(place);
    }
    batch.block = std::make_shared<BatchPool>(bytes, 1)->take(bytes);
    for (std::size_t leaf = 0; leaf < 3; ++leaf) {
      const RowsTarget::Leaf& from = memory.leaves[leaf];
      const LeafPlace& place = batch.places[leaf];
      const std::uint64_t pieces = leaf == 0 || packed() ? 1 : target.count;
      const std::size_t bytes = values(target, leaf) / std::max<std::size_t>(pieces, 1);
      for (std::uint64_t i = 0; i < pieces && bytes > 0; ++i)
        std::memcpy(batch.block.data() + place.values + i * bytes,
                    from.values + i * from.rows * kRow[leaf], bytes);
      if (leaf > 0)
        std::memcpy(batch.block.data() + place.index, from.index, index(target));
    }
  }

  Core& buffer_;
  const cuda::SharedContext context_;
  const std::unique_ptr<cuda::Stream> stream_;
  std::size_t taken_ = 0;
  RowsTarget captured_;
  std::vector<std::unique_ptr<cuda::DeviceMemory>> memory_;  // that a graph writes
  simulated::GraphExecHandle graph_ = nullptr;
};

/// Puts 0 ... n-1, a few together.
void produce(Core& buffer, std::uint64_t n, const LengthsOf& lengths) {
  const std::uint64_t term = buffer.term();
  for (std::uint64_t first = 0; first < n;) {
    const Records records(range(first, std::min(n, first + 1 + first % 9)), lengths);
    std::uint64_t done = 0;
    if (buffer.put(term, records.leaves(), records.size(), 0, done, Deadline::max(),
                   nullptr) != Status::kOk)
      return;
    first += records.size();
  }
  buffer.close();
}

/// The rows that no batch of so many examples has more of, leaf by leaf.
std::vector<std::uint64_t> most_rows(const BufferOptions& options, std::uint64_t n,
                                     const LengthsOf& lengths) {
  std::vector<std::uint64_t> rows(3);
  for (std::uint64_t id = 0; id < n; ++id) {
    const Lengths of = lengths(id);
    rows[1] = std::max(rows[1], of.tokens);
    rows[2] = std::max(rows[2], of.points);
  }
  const bool packed = options.lengths.form == LengthOptions::Form::kPacked;
  for (std::uint64_t& leaf : rows)
    leaf = leaf * (packed ? options.batch_size : 1) + options.lengths.pad_to;
  rows[0] = 0;
  return rows;
}

/// The batches of an epoch; `most`: fewer. Two of three come by a graph if `replays`.
std::vector<Ids> serve_on_device(Core& buffer, const cuda::SharedContext& context,
                                 std::uint64_t n, const LengthsOf& lengths,
                                 std::uint64_t most = kAll, bool replays = false) {
  std::thread producer([&] { produce(buffer, n, lengths); });
  Drawn drawn(buffer, context);
  const std::vector<std::uint64_t> rows = most_rows(buffer.options(), n, lengths);
  std::vector<Ids> batches;
  Batch batch;
  for (std::uint64_t turn = 0; batches.size() < most; ++turn) {
    Status status = Status::kFinished;  // or a batch that is shorter
    if (replays && turn % 3 != 0) status = drawn.replay(batch, rows);
    if (status == Status::kFinished) status = drawn.next(batch);
    if (status != Status::kOk) break;
    batches.push_back(read_batch(batch, buffer.options(), lengths));
  }
  if (most != kAll) buffer.reset(1);
  producer.join();
  return batches;
}

struct Case {
  std::uint64_t seed;
  BufferOptions options;
  std::size_t staging;
};

/// Windows that are gone around many times, staging still more often.
Case some_case(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::uint64_t factor = 1 + random() % 3;
  const std::uint64_t window = factor + random() % 30;
  BufferOptions options =
      of_lengths(window, 1 + random() % window, {factor, 1}, 400 + random() % 3000);
  options.seed = random();
  options.drop_last = random() % 2 == 0;
  options.lengths.pad_to = 1 + random() % 2 * 6;
  if (random() % 3 == 0) options.lengths.form = LengthOptions::Form::kPadded;
  for (RaggedField& field : options.lengths.fields)
    if (random() % 2 == 0) field.pad.assign(2, std::byte{0xA7});
  if (random() % 4 == 0) {
    options.lengths.max_rows = 1 + random() % 60;
    options.batch_size = 1;
    options.drop_last = false;
  }
  return {seed, options, random() % 2 == 0 ? 1 : random() % 2000};
}

class RaggedOnDevice : public testing::TestWithParam<std::uint64_t> {};

TEST_P(RaggedOnDevice, BatchesAreThoseOfTheHost) {
  const auto [seed, options, staging] = some_case(GetParam());
  const std::uint64_t share = options.lengths.share(options.factor.ceil());
  const LengthsOf lengths = some_lengths((share - 2 * kPointBytes) / kTokenBytes, seed);
  constexpr std::uint64_t kExamples = 150;
  const Simulation simulation(seed);
  const bool replays = options.lengths.max_rows == 0;
  {
    Core buffer(options, simulation.context(), simulated::kernels(), no_stages(),
                staging);
    Buffer host(options);
    EXPECT_EQ(serve_on_device(buffer, simulation.context(), kExamples, lengths),
              serve(host, kExamples, lengths).batches);
    // In the middle of an epoch another one begins.
    buffer.reset(7);
    serve_on_device(buffer, simulation.context(), kExamples, lengths, 2, replays);
    host.reset(1);
    EXPECT_EQ(serve_on_device(buffer, simulation.context(), kExamples, lengths, kAll,
                              replays),
              serve(host, kExamples, lengths).batches);
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RaggedOnDevice,
                         testing::Range(std::uint64_t{0}, rounds(12)));

/// With "auto", batches wait in the middle, and are drawn from memory of our own.
TEST(RaggedOnDeviceAuto, EachRecordIsUsed) {
  for (const std::uint64_t seed : {1, 2, 3}) {
    const BufferOptions options = of_lengths_auto(16, 7, 2000);
    const LengthsOf lengths = some_lengths(20, seed);
    const Simulation simulation(seed);
    Core buffer(options, simulation.context(), simulated::kernels(), no_stages(), 300);
    Ids uses(200);
    for (const Ids& batch : serve_on_device(buffer, simulation.context(), uses.size(),
                                            lengths, kAll, seed != 1))
      for (const std::uint64_t id : batch) ++uses[id];
    for (const std::uint64_t count : uses) ASSERT_GE(count, 1u);
  }
}

/// What waits in memory of our own is whole where there is no more of that for a while.
TEST(RaggedOnDeviceAuto, MemoryThatIsRefusedLosesNothing) {
  BufferOptions options = of_lengths_auto(16, 7, 2000);
  options.max_factor = 1;
  const LengthsOf lengths = some_lengths(20, 1);
  for (int nth = 1; nth < 20; ++nth) {
    const Simulation simulation(1);
    Core buffer(options, simulation.context(), simulated::kernels(), no_stages(), 300);
    Drawn drawn(buffer, simulation.context());
    simulated::echobuf_simulated_fail("cuMemAlloc_v2", nth, cuda::kErrorOutOfMemory);
    Ids uses(24);
    int refused = 0;
    for (std::uint64_t id = 0; id < uses.size(); ++id) {
      const Records record({id}, lengths);
      std::uint64_t done = 0;
      buffer.put(buffer.term(), record.leaves(), 1, 0, done, Deadline::max(), nullptr);
      if (id + 1 == uses.size()) buffer.close();
      const Deadline soon = Clock::now() + std::chrono::milliseconds(2);
      for (Status status = Status::kOk; status == Status::kOk;) try {
          Batch batch;
          status = drawn.next(batch, id + 1 < uses.size() ? soon : Deadline::max());
          if (status != Status::kOk) continue;
          for (const std::uint64_t of : read_batch(batch, options, lengths)) ++uses[of];
        } catch (const cuda::Error& error) {
          ASSERT_EQ(error.code(), cuda::kErrorOutOfMemory);
          ++refused;
        }
    }
    EXPECT_EQ(refused, 1) << nth;
    EXPECT_EQ(uses, Ids(uses.size(), 1)) << nth;
  }
}

TEST(RaggedOnDevice, MemoryOfAnotherSizeDrawsNothing) {
  const BufferOptions options = of_lengths(4, 2, {1, 1}, 1000);
  const LengthsOf lengths = [](std::uint64_t id) { return Lengths{id, 1}; };
  const Simulation simulation(0);
  Core buffer(options, simulation.context(), simulated::kernels());
  produce(buffer, 4, lengths);
  RowsTarget target;
  ASSERT_EQ(buffer.next_rows(target, Deadline::max()), Status::kResize);
  const std::vector<std::uint64_t> needed = target.needed;
  std::byte other[8];
  target.leaves = {
      {other, nullptr, 0}, {other, other, needed[1] + 1}, {other, other, 2}};
  ASSERT_EQ(buffer.next_rows(target, Deadline::max()), Status::kResize);
  EXPECT_EQ(target.needed, needed);
  target.leaves.pop_back();
  EXPECT_THROW(buffer.next_rows(target, Deadline::max()), std::invalid_argument);
  target.leaves.clear();
  Drawn drawn(buffer, simulation.context());
  Batch batch;
  ASSERT_EQ(drawn.next(batch), Status::kOk);
  EXPECT_EQ(batch.count, 2u);
}

}  // namespace
