#include "producer.hpp"

#include <cstring>
#include <iterator>
#include <new>
#include <utility>

namespace echobuf::test {

DeviceProducer::DeviceProducer(DeviceBuffer& buffer, const cuda::Driver& driver,
                               std::uint64_t seed)
    : buffer_(buffer), driver_(driver), random_(seed) {
  for (int i = 0; i < 2; ++i) {
    cuda::StreamHandle stream = nullptr;
    driver_.stream_create(&stream, cuda::kStreamNonBlocking);
    streams_.push_back(stream);
  }
}

DeviceProducer::~DeviceProducer() {
  try {
    const cuda::DeviceContext::RelaxedScope scope(buffer_.backend().context(),
                                                  std::nothrow);
    for (const cuda::StreamHandle stream : streams_) {
      driver_.calls().stream_synchronize(stream);
      driver_.calls().stream_destroy(stream);
    }
    for (const cuda::Address address : taken_) driver_.calls().memory_free(address);
  } catch (const cuda::Error&) {  // a call was to be refused
  }
}

/// Copies a leaf to the device, its examples some bytes apart, and not aligned.
void DeviceProducer::place(const SourceLeaf& leaf, std::uint64_t n, std::size_t bytes,
                           cuda::StreamHandle stream, SourceLeaf& placed) {
  constexpr std::size_t kShifts[] = {0, 0, 16, 8, 4, 1};
  const std::size_t shift = kShifts[random_() % std::size(kShifts)];
  const std::size_t step = bytes + kShifts[random_() % std::size(kShifts)];
  const std::size_t all = shift + step * n + 1;
  std::vector<std::byte> image(all, std::byte{0xee});
  for (std::uint64_t i = 0; i < n && bytes > 0; ++i)
    std::memcpy(image.data() + shift + i * step,
                leaf.data + static_cast<std::ptrdiff_t>(i) * leaf.stride, bytes);
  cuda::Address address = 0;
  {  // another thread may be capturing
    const cuda::DeviceContext::RelaxedScope scope(buffer_.backend().context());
    driver_.memory_alloc(&address, all);
  }
  taken_.push_back(address);
  of_put_.push_back({address, all});
  driver_.copy_to_device(address, static_cast<const void*>(image.data()), all, stream);
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  placed.data = reinterpret_cast<const std::byte*>(address + shift);
  placed.stride = static_cast<std::ptrdiff_t>(step);
}

Status DeviceProducer::put(std::uint64_t term, const SourceLeaf* leaves,
                           std::uint64_t n, std::size_t rows) {
  const cuda::StreamHandle stream = streams_[random_() % streams_.size()];
  const RecordLayout& layout = buffer_.record();
  const std::size_t fields = layout.fields().size();
  std::vector<SourceLeaf> sources(leaves, leaves + fields);
  std::vector<cuda::PutLeaf> places(fields);
  bool staged = false;
  of_put_.clear();
  for (std::size_t f = 0; f < fields; ++f) {
    places[f].on_device = f == 0 || random_() % 3 != 0;
    staged = staged || !places[f].on_device;
    if (places[f].on_device)
      place(leaves[f], n, layout.bytes(f, rows), stream, sources[f]);
  }
  const cuda::DevicePut what{sources.data(), places.data(), rows, stream, {}, staged};
  cuda::DevicePuts::Write write(buffer_.backend().puts, what);
  std::uint64_t done = 0;
  const Status status = buffer_.put_by(write, term, sources.data(), n, rows, done,
                                       Deadline::max(), nullptr, nullptr);
  if (write.error()) throw cuda::Error(*write.error());
  for (const Piece& piece : of_put_) {
    const std::vector<std::byte> other(piece.bytes, std::byte{0x55});
    driver_.copy_to_device(piece.address, static_cast<const void*>(other.data()),
                           piece.bytes, stream);
  }
  return status;
}

}  // namespace echobuf::test
