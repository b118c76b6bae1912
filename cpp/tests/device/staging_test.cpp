// Records in a staging area that is larger than the caches.
#include "echobuf/cuda/staging.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "control.hpp"

namespace {

namespace cuda = echobuf::cuda;
namespace simulated = echobuf::simulated;
using echobuf::RecordLayout;
using echobuf::SourceLeaf;

TEST(Staging, HoldsRecordsThatAreWrittenPastTheCaches) {
  constexpr std::size_t kImage = 300'001;  // bytes: no line ends there
  const RecordLayout layout({{kImage, 1}, {8, 1}}, false);
  const std::uint64_t slots = echobuf::kStreamInto / kImage + 1;
  constexpr std::uint64_t kCount = 3;
  simulated::echobuf_simulated_start(0, 1, std::size_t{1} << 26, std::size_t{1} << 26,
                                     0);
  {
    const auto context = std::make_shared<const cuda::DeviceContext>(
        cuda::Driver::load(ECHOBUF_SIMULATED_CUDA), 0);
    cuda::Staging staging(context, layout, slots, 0);
    std::vector<std::uint8_t> images(kCount * kImage);
    for (std::size_t i = 0; i < images.size(); ++i)
      images[i] = static_cast<std::uint8_t>(i % 251 + i / kImage);
    const std::vector<std::uint64_t> labels = {7, 8, 9};
    const SourceLeaf leaves[] = {SourceLeaf::of(images.data(), kImage),
                                 SourceLeaf::of(labels.data())};
    const std::uint64_t first = slots - 1;  // the others are in the first slots
    staging.write(first, kCount, leaves, 0, 0);
    for (std::uint64_t i = 0; i < kCount; ++i) {
      const std::byte* record = staging.at(first + i);
      EXPECT_EQ(
          std::memcmp(record + layout.fields()[0].offset, &images[i * kImage], kImage),
          0);
      EXPECT_EQ(std::memcmp(record + layout.fields()[1].offset, &labels[i], 8), 0);
    }
  }
  simulated::echobuf_simulated_stop();
}

}  // namespace
