#include "run.hpp"

#include <algorithm>
#include <cstddef>
#include <exception>
#include <functional>
#include <iterator>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "consumer.hpp"
#include "control.hpp"
#include "draw.hpp"
#include "echobuf/buffer/buffer.hpp"
#include "echobuf/cuda/backend.hpp"
#include "producer.hpp"
#include "stage.hpp"

namespace echobuf::test {
namespace {

using cuda::Address;
constexpr int kLaunchFailed = 719;  // CUDA_ERROR_LAUNCH_FAILED
constexpr std::uint64_t kAll = ~std::uint64_t{0};

std::uint64_t pick(std::mt19937_64& random, std::uint64_t least, std::uint64_t most) {
  return least + random() % (most - least + 1);
}

/// Example `i`: bytes that follow from it.
class Examples {
 public:
  Examples(const BufferOptions& options, std::uint64_t first, std::uint64_t count) {
    for (const auto& [bytes, rows] : options.fields) {
      const std::size_t size = bytes * rows;
      std::vector<std::byte> memory(size * count + 1);
      for (std::uint64_t i = 0; i < count; ++i)
        for (std::size_t b = 0; b < size; ++b)
          memory[i * size + b] =
              static_cast<std::byte>((first + i) * 31 + b * 7 + b / 97);
      memory_.push_back(std::move(memory));
      leaves_.push_back({memory_.back().data(), static_cast<std::ptrdiff_t>(size)});
    }
  }
  const SourceLeaf* leaves() const { return leaves_.data(); }

 private:
  std::vector<std::vector<std::byte>> memory_;
  std::vector<SourceLeaf> leaves_;
};

/// Claims positions, writes them without a word, and commits them.
bool write_claimed(DeviceBuffer& buffer, std::uint64_t term, const SourceLeaf* leaves,
                   std::uint64_t n) {
  for (std::uint64_t done = 0; done < n;) {
    std::uint64_t first = 0;
    std::uint64_t count = n - done;
    if (buffer.claim(term, first, count, Deadline::max()) != Status::kOk) return false;
    for (std::uint64_t i = 0; i < count; ++i)
      write_record(buffer.record(), buffer.backend().store.at(first + i), leaves,
                   done + i, 0, nullptr);
    buffer.commit(first, count);
    done += count;
  }
  return true;
}

/// Whether the consumer has left an epoch, which its producer then does not close.
struct Left {
  std::mutex mutex;
  bool yet = false;
};

/// Puts what a plan has in the term; `device` is null for a buffer on the host. Returns
/// false where the term has ended.
template <class Buffer>
bool put_all(Buffer& buffer, std::uint64_t term, const Plan& plan,
             DeviceProducer* device) {
  std::mt19937_64 random(plan.seed);
  for (std::uint64_t first = 0; first < plan.examples;) {
    const bool in_batches = plan.options.lengths.in_batches();
    const std::uint64_t count =
        in_batches ? 1 : std::min(pick(random, 1, 7), plan.examples - first);
    const std::size_t rows = in_batches ? first % (plan.options.fields[0].rows + 1) : 0;
    const Examples examples(plan.options, first, count);
    if constexpr (Buffer::kUploads) {
      if (plan.claimed) {
        if (!write_claimed(buffer, term, examples.leaves(), count)) return false;
        first += count;
        continue;
      }
    }
    if (device && random() % 4 < static_cast<unsigned>(plan.device_puts)) {
      if (device->put(term, examples.leaves(), count, rows) != Status::kOk)
        return false;
      first += count;
      continue;
    }
    std::uint64_t done = 0;
    if (buffer.put(term, examples.leaves(), count, rows, done, Deadline::max(),
                   nullptr) != Status::kOk)
      return false;
    first += count;
  }
  return true;
}

template <class Buffer>
void produce(Buffer& buffer, std::uint64_t term, const Plan& plan, Left& left,
             const cuda::Driver* driver) {
  const auto put = [&](DeviceProducer* device) {
    if (!put_all(buffer, term, plan, device)) return;
    const std::lock_guard lock(left.mutex);
    if (!left.yet) buffer.close();
  };
  if constexpr (Buffer::kUploads) {
    if (plan.device_puts > 0) try {
        const cuda::DeviceContext::Scope scope(buffer.backend().context());
        DeviceProducer device(buffer, *driver, plan.seed + 2);
        return put(&device);
      } catch (const cuda::Error&) {  // the consumer says it
        return buffer.fail();
      }
  }
  put(nullptr);
}

/// Joins a producer, also one whose buffer's device was lost.
template <class Buffer>
class Joined {
 public:
  Joined(std::thread& thread, Buffer& buffer)
      : thread_(thread), buffer_(buffer), errors_(std::uncaught_exceptions()) {}
  ~Joined() {
    if (std::uncaught_exceptions() > errors_) buffer_.fail();
    thread_.join();
  }
  Joined(const Joined&) = delete;
  Joined& operator=(const Joined&) = delete;

 private:
  std::thread& thread_;
  Buffer& buffer_;
  const int errors_;
};

/// Draws a batch and adds it; returns false at the end.
using Draw = std::function<bool(std::vector<BatchBytes>& batches)>;

/// The epochs of a plan, with a producer beside each.
template <class Buffer>
std::vector<BatchBytes> live(Buffer& buffer, const Plan& plan, const Draw& draw,
                             const cuda::Driver* driver = nullptr) {
  std::vector<BatchBytes> batches;
  std::uint64_t number = 0;
  const auto epoch = [&](std::uint64_t most) {
    const std::uint64_t term = buffer.term();
    Left left;
    std::thread producer([&] { produce(buffer, term, plan, left, driver); });
    const Joined joined(producer, buffer);
    for (std::uint64_t i = 0; i < most && draw(batches); ++i) {
    }
    if (most != kAll) {
      {
        const std::lock_guard lock(left.mutex);
        left.yet = true;
      }
      buffer.reset(++number);
    }
  };
  for (const std::uint64_t most : plan.left_after) epoch(most);
  epoch(kAll);
  return batches;
}

std::vector<BatchBytes> draw_all(DeviceBuffer& buffer, const cuda::Driver& driver,
                                 const Plan& plan) {
  Consumer consumer(buffer, driver, plan.streams, plan.default_stream);
  std::mt19937_64 random(plan.seed + 1);
  const Draw draw = [&](std::vector<BatchBytes>& drawn) {
    const bool replay = random() % 4 < static_cast<unsigned>(plan.replays);
    const cuda::StreamHandle stream = consumer.stream(random());
    BatchBytes bytes;
    Status status = Status::kFinished;
    if (replay) status = consumer.replay(random(), stream, bytes);
    // Also what is left of an epoch, which no launch serves.
    if (status == Status::kFinished) status = consumer.draw(stream, bytes);
    if (status != Status::kOk) return false;
    drawn.push_back(std::move(bytes));
    return true;
  };
  return live(buffer, plan, draw, &driver);
}

/// Returns the kernels of all stages of all leaves.
std::vector<cuda::StageKernels> stage_kernels(const BufferOptions& options) {
  std::vector<cuda::StageKernels> kernels;
  for (const LeafOptions& leaf : options.leaves)
    for (std::size_t i = 0; leaf.plan && i < leaf.plan->program()->stages.size(); ++i)
      kernels.push_back({simulated::make_function(), simulated::sum_function()});
  return kernels;
}

std::vector<std::string> all_reports() {
  std::vector<std::string> reports(simulated::echobuf_simulated_reports());
  for (std::size_t i = 0; i < reports.size(); ++i) {
    char text[1024];
    simulated::echobuf_simulated_report(i, text, sizeof text);
    reports[i] = text;
  }
  return reports;
}

}  // namespace

BatchBytes bytes_of(const BatchLayout& layout, const std::byte* block,
                    std::uint64_t count) {
  BatchBytes bytes;
  for (std::size_t f = 0; f < layout.leaves(); ++f) {
    const auto* leaf = reinterpret_cast<const std::uint8_t*>(block + layout.offset(f));
    bytes.insert(bytes.end(), leaf, leaf + count * layout.all()[f].bytes);
  }
  return bytes;
}

Plan small_plan() {
  Plan plan;
  plan.options.fields = {{40, 1}, {8, 1}};
  plan.options.window = 12;
  plan.options.batch_size = 4;
  plan.options.factor = {2, 1};
  plan.examples = 200;
  plan.seed = 0;
  return plan;
}

Plan random_plan(std::uint64_t seed) {
  std::mt19937_64 random(seed * 7919 + 1);
  Plan plan;
  plan.seed = seed;
  BufferOptions& o = plan.options;
  const bool in_batches = seed % 8 == 7;
  const std::size_t rows = in_batches ? pick(random, 1, 4) : 1;
  if (in_batches) o.lengths.examples = rows;
  const std::size_t fields = seed % 16 == 3 ? 40 : pick(random, 1, 3);
  constexpr std::size_t kSizes[] = {1, 2, 3, 4, 8, 15, 16, 24, 64, 100, 1000};
  for (std::size_t f = 0; f < fields; ++f)
    o.fields.push_back({kSizes[random() % std::size(kSizes)], rows});
  constexpr Ratio kFactors[] = {{1, 1}, {2, 1}, {3, 1}, {5, 2}, {10, 3}, {4, 1}};
  o.factor = kFactors[random() % std::size(kFactors)];
  o.window = pick(random, o.factor.ceil(), 24);
  o.batch_size =
      in_batches ? 1 : pick(random, 1, std::min<std::uint64_t>(o.largest_batch(), 9));
  o.drop_last = random() % 4 == 0;
  o.seed = random();
  plan.examples = pick(random, 0, 60);
  plan.default_stream = seed % 3 == 1;
  while (random() % 3 == 0) plan.left_after.push_back(pick(random, 0, 12));
  return plan;
}

std::vector<BatchBytes> on_host(const Plan& plan) {
  Buffer buffer(plan.options);
  return live(buffer, plan, [&](std::vector<BatchBytes>& drawn) {
    Batch batch;
    if (buffer.next(batch) != Status::kOk) return false;
    drawn.push_back(bytes_of(buffer.layout(), batch.block.data(), batch.count));
    return true;
  });
}

Outcome with_device(const Plan& plan, Change change, const Script& script) {
  simulated::echobuf_simulated_start(plan.seed, 1, std::size_t{1} << 26,
                                     std::size_t{1} << 26, plan.largest_delay_us);
  Outcome outcome;
  if (plan.refused)
    simulated::echobuf_simulated_fail(plan.refused, plan.nth, kLaunchFailed);
  try {
    auto driver = cuda::Driver::load(ECHOBUF_SIMULATED_CUDA);
    if (change) {
      auto calls = driver->calls();
      change(calls);
      driver = driver->with(calls);
    }
    const auto context = std::make_shared<const cuda::DeviceContext>(driver, 0);
    const cuda::DeviceContext::Scope scope(*context);
    DeviceBuffer buffer(plan.options, context, simulated::kernels(),
                        stage_kernels(plan.options));
    script(buffer, *driver);
    outcome.error = buffer.backend().error();
  } catch (const cuda::Error& error) {
    outcome.error = error.what();
  }
  simulated::echobuf_simulated_stop();
  outcome.reports = all_reports();
  return outcome;
}

Outcome on_device(const Plan& plan, Change change) {
  std::vector<BatchBytes> batches;
  Outcome outcome =
      with_device(plan, change, [&](DeviceBuffer& buffer, const cuda::Driver& driver) {
        batches = draw_all(buffer, driver, plan);
      });
  outcome.batches = std::move(batches);
  return outcome;
}

}  // namespace echobuf::test
