// The smallest use: examples in from a thread, batches out.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

#include "echobuf/echobuf.hpp"

int main() {
  constexpr std::size_t kExamples = 1000;
  constexpr std::size_t kPoint = 3;  // floats in an example
  std::vector<float> points(kExamples * kPoint, 0.5f);
  std::vector<std::int64_t> labels(kExamples, 1);

  echobuf::BufferOptions options;
  options.fields = {{kPoint * sizeof(float), 1}, {sizeof(std::int64_t), 1}};
  options.window = 256;
  options.batch_size = 32;
  options.factor = {5, 2};  // 2.5
  echobuf::Buffer buffer(options);

  std::thread producer([&] {
    const echobuf::SourceLeaf leaves[] = {
        echobuf::SourceLeaf::of(points.data(), kPoint),
        echobuf::SourceLeaf::of(labels.data())};
    std::uint64_t done = 0;  // counts up, so that a put that timed out can go on
    buffer.put(buffer.term(), leaves, kExamples, 0, done, echobuf::Deadline::max(),
               nullptr);
    buffer.close();
  });

  std::int64_t sum = 0;
  echobuf::Batch batch;
  while (buffer.next(batch) == echobuf::Status::kOk) {
    const auto* label = buffer.field<std::int64_t>(batch, 1);
    for (std::uint64_t i = 0; i < batch.count; ++i) sum += label[i];
  }
  producer.join();
  std::printf("%lld labels served\n", static_cast<long long>(sum));
}
