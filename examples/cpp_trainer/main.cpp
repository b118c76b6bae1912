// Trains a small model on a slow upstream with example echoing, stops half-way, and
// goes on from a checkpoint. Fails unless it has learnt.
#include <cstdio>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <vector>

#include "digits.hpp"
#include "echobuf/echobuf.hpp"
#include "model.hpp"
#include "trainer.hpp"
#include "upstream.hpp"

namespace {

constexpr std::uint64_t kExamples = 6000;
constexpr int kThreads = 2;
constexpr const char* kFile = "checkpoint.txt";

echobuf::BufferOptions options() {
  echobuf::BufferOptions options;
  options.fields = {{sizeof(Digit::pixels), 1}, {sizeof(Digit::label), 1}};
  options.window = 1024;
  options.batch_size = 32;
  options.factor = {4, 1};  // each fresh example is served four times
  options.seed = 1;
  options.prefetch = 1;  // a thread assembles one batch ahead
  return options;
}

void save(const echobuf::Checkpoint& checkpoint) {
  std::ofstream file(kFile);
  for (const std::uint64_t word : to_words(checkpoint, options())) file << word << '\n';
}

echobuf::Checkpoint load() {
  std::ifstream file(kFile);
  std::vector<std::uint64_t> words;
  for (std::uint64_t word; file >> word;) words.push_back(word);
  return echobuf::from_words(words, options());
}

/// The first half: stops in the middle of everything.
void begin(Model& model, const DigitMaker& maker) {
  echobuf::Buffer buffer(options());
  const Upstream upstream(buffer, maker, 0, kExamples, kThreads);
  Trainer(buffer, model).train(350);
  save(buffer.checkpoint());
}

/// The second half, in another process for all that it knows.
bool resume(Model& model, const DigitMaker& maker) {
  const echobuf::Checkpoint checkpoint = load();
  echobuf::Buffer buffer(options());
  if (!buffer.restore(checkpoint)) throw std::logic_error("the buffer has been used");
  const Upstream upstream(buffer, maker, checkpoint.fresh_offset(), kExamples,
                          kThreads);
  if (!Trainer(buffer, model).train(1'000'000)) return false;
  const echobuf::BufferStats stats = buffer.stats();
  std::printf("fresh %llu, served %llu: each %g times\n",
              static_cast<unsigned long long>(stats.fresh),
              static_cast<unsigned long long>(stats.served),
              static_cast<double>(stats.served) / static_cast<double>(stats.fresh));
  return stats.fresh == kExamples && stats.served == 4 * kExamples;
}

double accuracy(Model& model) {
  const DigitMaker others(99);
  int right = 0;
  constexpr int kTests = 1000;
  for (std::uint64_t i = 0; i < kTests; ++i) {
    const Digit digit = others.make(i);
    right += model.guess(digit.pixels.data()) == digit.label;
  }
  return static_cast<double>(right) / kTests;
}

}  // namespace

int main() try {
  Model model(0);
  const DigitMaker maker(1);
  begin(model, maker);
  const bool exact = resume(model, maker);
  const double share = accuracy(model);
  std::printf("accuracy %.3f\n", share);
  return exact && share > 0.9 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
