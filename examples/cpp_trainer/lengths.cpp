// Examples that differ in length: texts in from a thread, packed batches out.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

#include "echobuf/echobuf.hpp"

int main() {
  constexpr std::uint64_t kTexts = 1000;

  echobuf::BufferOptions options;
  options.fields = {{sizeof(std::int64_t), 1}, {sizeof(std::int32_t), 1}};
  options.lengths.fields = {
      {1, sizeof(std::int32_t)}};           // field 1: rows of a token each
  options.lengths.payload_bytes = 100'000;  // of the tokens in the window
  options.window = 256;
  options.batch_size = 32;
  options.factor = {3, 1};
  echobuf::Buffer buffer(options);

  std::thread producer([&] {
    std::vector<std::int32_t> tokens;
    for (std::int64_t label = 0; label < std::int64_t{kTexts}; ++label) {
      tokens.assign(static_cast<std::size_t>(label % 100), 1);
      const echobuf::SourceLeaf leaves[] = {
          echobuf::SourceLeaf::of(&label),
          echobuf::SourceLeaf::of_rows(tokens.data(), tokens.size())};
      if (buffer.put(leaves) != echobuf::Status::kOk) return;
    }
    buffer.close();
  });

  std::int64_t sum = 0;
  echobuf::Batch batch;
  while (buffer.next(batch) == echobuf::Status::kOk) {
    const std::byte* block = batch.block.data();
    const echobuf::LeafPlace& place = batch.places[1];
    const auto* tokens = reinterpret_cast<const std::int32_t*>(block + place.values);
    const auto* offsets = reinterpret_cast<const std::int64_t*>(block + place.index);
    for (std::uint64_t text = 0; text < batch.count; ++text)
      for (std::int64_t i = offsets[text]; i < offsets[text + 1]; ++i) sum += tokens[i];
  }
  producer.join();
  std::printf("%lld tokens served\n", static_cast<long long>(sum));
}
