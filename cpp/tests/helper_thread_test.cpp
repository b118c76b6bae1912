#include "echobuf/draw/helper_thread.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <set>
#include <thread>
#include <vector>

#include "echobuf/buffer/buffer.hpp"
#include "rounds.hpp"
#include "support.hpp"

namespace {

using namespace echobuf;        // NOLINT(google-build-using-namespace)
using namespace echobuf::test;  // NOLINT(google-build-using-namespace)

bool always() { return true; }

TEST(UsableCores, AreSome) { EXPECT_GE(usable_cores(), 1U); }

TEST(HelperThread, DoesEachChunkOnceAndIsSeenToHaveDoneIt) {
  HelperThread helper(always);
  for (std::uint64_t chunks = 0; chunks < 200; ++chunks) {
    std::vector<int> calls(chunks);  // plain: a race would be seen
    helper.share(chunks, [&](std::uint64_t i) { ++calls[i]; });
    ASSERT_EQ(std::count(calls.begin(), calls.end(), 1),
              static_cast<std::ptrdiff_t>(chunks));
  }
}

TEST(HelperThread, TakesAShareOnceItIsWanted) {
  if (usable_cores() < 2) GTEST_SKIP() << "one core";
  bool wanted = false;  // asked by the caller alone
  HelperThread helper([&] { return wanted; });
  std::set<std::thread::id> unwanted;
  helper.share(5, [&](std::uint64_t) { unwanted.insert(std::this_thread::get_id()); });
  EXPECT_EQ(unwanted, std::set{std::this_thread::get_id()});

  // Chunk by chunk, until the other thread has come: it waits for nobody.
  const auto caller = std::this_thread::get_id();
  std::atomic<bool> came{false};
  wanted = true;
  helper.share(2, [&](std::uint64_t) {
    if (std::this_thread::get_id() != caller) {
      came = true;
      return;
    }
    while (!came) std::this_thread::yield();
  });
  EXPECT_TRUE(came);
}

TEST(HelperThread, EndsAtAnyMoment) {
  for (std::uint64_t i = 0; i < rounds(400); ++i) {
    HelperThread helper(always);
    std::atomic<std::uint64_t> done{0};
    for (std::uint64_t share = 0; share < i % 4; ++share)
      helper.share(3, [&](std::uint64_t) { ++done; });
    EXPECT_EQ(done, i % 4 * 3);
    if (i % 2) helper.stop();
  }
}

/// Batches of 9 and 11 MB, with a field that tells records apart at its start and end.
BufferOptions large(std::uint64_t seed) {
  BufferOptions options;
  options.fields = {{170'003 + seed * 32'000, 1}, {sizeof(std::uint64_t), 1}};
  options.window = 96;
  options.batch_size = 53;
  options.factor = seed % 2 ? Ratio{3, 1} : Ratio{5, 2};
  options.seed = seed;
  if (seed == 0) {
    options.leaves = {{0, nullptr}, {1, nullptr}, {kNoField, nullptr}};
    options.leaves.back().info = InfoLeaf::kEcho;
    options.echoes = true;
  }
  return options;
}

/// All batches of 110 examples, one behind the other.
std::vector<std::byte> drawn(const BufferOptions& options) {
  Buffer buffer(options);
  Threads threads;
  threads.start([&] {
    std::vector<std::byte> image(options.fields[0].row_bytes);
    for (std::uint64_t id = 0; id < 110; ++id) {
      std::fill(image.begin(), image.end(), static_cast<std::byte>(id));
      for (std::size_t i = 0; i < image.size(); i += 509)
        image[i] = static_cast<std::byte>(id + i / 509);
      const SourceLeaf leaves[] = {SourceLeaf::of(image.data(), image.size()),
                                   SourceLeaf::of(&id)};
      ASSERT_EQ(buffer.put(leaves), Status::kOk);
    }
    buffer.close();
  });
  std::vector<std::byte> bytes;
  Batch batch;
  while (buffer.next(batch, far_off()) == Status::kOk)
    for (std::size_t leaf = 0; leaf < buffer.layout().leaves(); ++leaf) {
      const std::byte* const data = batch.block.data() + buffer.layout().offset(leaf);
      bytes.insert(bytes.end(), data,
                   data + batch.count * buffer.layout().all()[leaf].bytes);
    }
  return bytes;
}

TEST(HelperThread, ChangesNoByteOfBatchesAheadAndNotTheirOrder) {
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    BufferOptions options = large(seed);
    const std::vector<std::byte> alone = drawn(options);
    options.prefetch = 2;
    ASSERT_TRUE(drawn(options) == alone) << "seed " << seed;
  }
}

}  // namespace
