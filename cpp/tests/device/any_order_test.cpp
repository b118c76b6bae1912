// Calls of one buffer in a random order, on streams that come and go and from threads
// that end: nothing is read or written that no event orders.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "control.hpp"
#include "draw.hpp"
#include "echobuf/buffer/buffer.hpp"
#include "echobuf/cuda/backend.hpp"
#include "simulated/graphs.hpp"
#include "tests/packing_support.hpp"
#include "tests/ragged_support.hpp"

namespace echobuf::test::any_order {
namespace {

using cuda::Driver;
using cuda::StreamHandle;
using Random = std::mt19937_64;

constexpr std::uint64_t kSeeds = rounds(8);

/// Memory of batches: it is freed at the end, whatever orders that.
class Memory {
 public:
  explicit Memory(const Driver& driver) : driver_(driver) {}
  ~Memory() {
    for (const cuda::Address address : taken_)
      simulated::echobuf_simulated_free(address);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  std::byte* take(std::size_t bytes) {
    cuda::Address address = 0;
    driver_.memory_alloc(&address, bytes + 1);
    taken_.push_back(address);
    return reinterpret_cast<std::byte*>(address);
  }

 private:
  const Driver& driver_;
  std::vector<cuda::Address> taken_;
};

/// Records of one size.
struct Fixed {
  using Core = BasicBuffer<cuda::DeviceBackend>;

  static BufferOptions options(Random& random) {
    BufferOptions options = numbered(8 + random() % 9, 3, {2, 1});
    options.fields = {{8, 1}, {24, 1}};
    options.automatic = random() % 2 == 0;
    options.echoes = random() % 2 == 0;  // then tables are sent
    return options;
  }
  static std::unique_ptr<Core> make(const BufferOptions& options,
                                    const cuda::SharedContext& context) {
    return std::make_unique<Core>(options, context, simulated::kernels());
  }
  static Status put(Core& buffer, Random&) {
    const std::uint64_t values[4] = {};
    const SourceLeaf leaves[] = {SourceLeaf::of(values), SourceLeaf::of(values, 3)};
    return buffer.put(leaves, kAtOnce);
  }

  explicit Fixed(const BufferOptions&) {}
  Status draw(Core& buffer, Memory& memory, StreamHandle stream, Deadline deadline) {
    std::byte* leaves[] = {memory.take(64), memory.take(128)};
    Target target{leaves};
    target.stream = stream;
    return buffer.next_into(target, deadline);
  }
  Status before_replay(Core& buffer, StreamHandle stream) {
    return buffer.before_replay(stream, kAtOnce);
  }
};

/// Records that differ in length, or rows that they are packed into.
template <bool kPacks>
struct OfLengths {
  using Core = BasicBuffer<cuda::DeviceBackend>;
  static constexpr std::uint64_t kRow = 12;  // values

  static BufferOptions options(Random& random) {
    const std::uint64_t window = 8 + random() % 9;
    BufferOptions options =
        kPacks ? packing(window, 2, {2, 1}, kRow) : of_lengths(window, 3, {2, 1}, 1500);
    options.automatic = random() % 2 == 0;
    return options;
  }
  static std::unique_ptr<Core> make(const BufferOptions& options,
                                    const cuda::SharedContext& context) {
    return std::make_unique<Core>(options, context, simulated::kernels(),
                                  std::vector<cuda::StageKernels>(), std::size_t{300});
  }
  static Status put(Core& buffer, Random& random) {
    const std::uint64_t id = random() % 100;
    std::uint64_t done = 0;
    const auto all = [&](const auto& records) {
      return buffer.put(buffer.term(), records.leaves(), 1, 0, done, kAtOnce, nullptr);
    };
    if constexpr (kPacks)
      return all(PackingRecords(id, id + 1, row_lengths(kRow)));
    else
      return all(Records({id}, some_lengths(12)));
  }

  explicit OfLengths(const BufferOptions& options) : options_(options) {}
  Status draw(Core& buffer, Memory& memory, StreamHandle stream, Deadline deadline) {
    RowsTarget target = full(memory);
    target.stream = stream;
    return buffer.next_rows(target, deadline);
  }
  Status before_replay(Core& buffer, StreamHandle stream) {
    RowsTarget target;
    target.room = options_.batch_size;
    target.stream = stream;
    return buffer.before_replay(target, kAtOnce);
  }

 private:
  /// With room for any batch.
  RowsTarget full(Memory& memory) const {
    RowsTarget target;
    target.count = target.room = options_.batch_size;
    for (std::size_t i = 0; i < options_.fields.size(); ++i) {
      const std::uint64_t rows = kPacks ? kRow : 12 * options_.batch_size;
      target.leaves.push_back(
          {memory.take(8 * rows * options_.batch_size), memory.take(64), rows});
    }
    if (kPacks) {
      target.segments = memory.take(4 * kRow * options_.batch_size);
      target.positions = memory.take(4 * kRow * options_.batch_size);
      target.lengths = memory.take(8 * options_.batch_size);
    }
    return target;
  }

  const BufferOptions options_;
};

using Ragged = OfLengths<false>;
using Packed = OfLengths<true>;

/// A caller who does anything that is allowed.
template <class Kind>
class Caller {
 public:
  using Core = typename Kind::Core;

  Caller(const cuda::SharedContext& context, std::uint64_t seed)
      : context_(context),
        driver_(context->driver()),
        random_(seed),
        memory_(driver_),
        owned_(Kind::make(Kind::options(random_), context)),
        buffer_(*owned_),
        kind_(buffer_.options()) {
    for (int i = 0; i < 2; ++i) streams_.push_back(make());
    capture();
  }
  /// Streams are gone before the buffer is, but for that of a replay.
  ~Caller() {
    if (replays_) owned_.reset();
    for (StreamHandle stream : streams_) driver_.calls().stream_destroy(stream);
    owned_.reset();
    simulated::cuGraphExecDestroy(graph_);
  }
  Caller(const Caller&) = delete;
  Caller& operator=(const Caller&) = delete;

  void step() {
    const std::uint64_t what = random_() % 32;
    if (what < 8) return draw(1 + random_() % 5);
    if (what < 18) return put(1 + random_() % 6);
    if (what < 21) return choose();
    if (what < 24) return replace();
    if (what < 27) return replay();
    if (what < 28) return go_over();
    if (what < 30) return elsewhere();
    return end();
  }

 private:
  StreamHandle make() const {
    StreamHandle made = nullptr;
    driver_.stream_create(&made, random_() % 2 ? cuda::kStreamNonBlocking : 0u);
    return made;
  }
  void choose() {
    StreamHandle others[] = {nullptr, cuda::kLegacyStream, cuda::kPerThreadStream};
    const std::uint64_t i = random_() % (streams_.size() + std::size(others));
    stream_ = i < streams_.size() ? streams_[i] : others[i - streams_.size()];
  }
  /// A stream is gone; that of a replay has to stay.
  void replace() {
    StreamHandle& gone = streams_[random_() % streams_.size()];
    if (replays_ && gone == replayed_) return;
    const bool used = gone == stream_;
    driver_.stream_destroy(gone);
    gone = make();
    if (used) stream_ = gone;
  }
  void note(Status status) {
    if (status == Status::kFinished || status == Status::kShort) reset();
    EXPECT_NE(status, Status::kBroken) << buffer_.backend().error();
  }
  void draw(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) {
      note(kind_.draw(buffer_, memory_, stream_,
                      Clock::now() + std::chrono::milliseconds(1)));
      replays_ = false;
    }
  }
  void put(std::uint64_t count) {
    for (std::uint64_t i = 0; i < count; ++i) Kind::put(buffer_, random_);
  }
  void capture() {
    simulated::GraphHandle graph = nullptr;
    simulated::cuStreamBeginCapture_v2(streams_[0], cuda::kCaptureRelaxed);
    EXPECT_EQ(kind_.draw(buffer_, memory_, streams_[0], kAtOnce), Status::kOk);
    simulated::cuStreamEndCapture(streams_[0], &graph);
    simulated::cuGraphInstantiateWithFlags(&graph_, graph, 0);
    simulated::cuGraphDestroy(graph);
  }
  void replay() {
    const Status status = kind_.before_replay(buffer_, stream_);
    replays_ = status == Status::kOk;
    replayed_ = stream_;
    if (status == Status::kFinished) return draw(1);
    if (replays_ && random_() % 8 > 0) simulated::cuGraphLaunch(graph_, stream_);
  }
  void reset() {
    buffer_.reset(random_() % 5);
    replays_ = false;
  }
  void go_over() {
    const Checkpoint point = buffer_.checkpoint();
    reset();
    if (random_() % 2 > 0) return;
    EXPECT_TRUE(buffer_.restore(point));
  }
  /// Another thread goes on: one whose number may be that of one that has ended.
  void elsewhere() {
    std::thread([this] {
      const cuda::DeviceContext::Scope scope(*context_);
      const std::uint64_t steps = 1 + random_() % 4;
      for (std::uint64_t i = 0; i < steps; ++i) random_() % 2 ? draw(1) : replay();
    }).join();
  }
  void end() {
    if (random_() % 4 > 0) return;
    buffer_.close();
    if (random_() % 2 == 0 && buffer_.open_ahead(9)) {
      put(3);
      draw(random_() % 8);
      buffer_.go_ahead();
      replays_ = false;
    }
  }

  const cuda::SharedContext context_;
  const Driver& driver_;
  mutable Random random_;
  Memory memory_;
  std::unique_ptr<Core> owned_;
  Core& buffer_;
  Kind kind_;
  std::vector<StreamHandle> streams_;
  StreamHandle stream_ = nullptr;
  bool replays_ = false;
  StreamHandle replayed_ = nullptr;
  simulated::GraphExecHandle graph_ = nullptr;
};

template <class Kind>
void run(std::uint64_t seed, bool old) {
  simulated::echobuf_simulated_start(seed, 1, std::size_t{1} << 26,
                                     std::size_t{1} << 26, 50);
  {
    auto driver = Driver::load(ECHOBUF_SIMULATED_CUDA);
    if (old) {
      auto calls = driver->calls();
      calls.stream_id = nullptr;
      driver = driver->with(calls);
    }
    const auto context = std::make_shared<const cuda::DeviceContext>(driver, 0);
    const cuda::DeviceContext::Scope scope(*context);
    simulated::echobuf_simulated_reuse_handles(1);
    Caller<Kind> caller(context, seed);
    for (int i = 0; i < 150; ++i) caller.step();
  }
  simulated::echobuf_simulated_stop();
  for (std::size_t i = 0; i < simulated::echobuf_simulated_reports(); ++i) {
    char text[1024];
    simulated::echobuf_simulated_report(i, text, sizeof text);
    ADD_FAILURE() << "seed " << seed << ": " << text;
    if (i > 2) break;
  }
}

class AnyOrder : public testing::TestWithParam<bool> {};

TEST_P(AnyOrder, OfRecordsOfOneSize) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) run<Fixed>(seed, GetParam());
}
TEST_P(AnyOrder, OfRecordsThatDifferInLength) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) run<Ragged>(seed, GetParam());
}
TEST_P(AnyOrder, OfPackedRows) {
  for (std::uint64_t seed = 0; seed < kSeeds; ++seed) run<Packed>(seed, GetParam());
}

INSTANTIATE_TEST_SUITE_P(Drivers, AnyOrder, testing::Bool(), [](const auto& info) {
  return info.param ? std::string("Old") : std::string("New");
});

}  // namespace
}  // namespace echobuf::test::any_order
