#include "consumer.hpp"

#include <gtest/gtest.h>

#include <utility>

#include "control.hpp"

namespace echobuf::test {

using namespace simulated;  // NOLINT(google-build-using-namespace)

Targets::~Targets() {
  for (const cuda::Address address : taken_) echobuf_simulated_free(address);
}

std::vector<std::byte*> Targets::take() {
  cuda::Address address = 0;
  driver_.memory_alloc(&address, layout_.bytes());
  taken_.push_back(address);
  std::vector<std::byte*> leaves;
  for (std::size_t f = 0; f < layout_.leaves(); ++f)
    leaves.push_back(reinterpret_cast<std::byte*>(address) + layout_.offset(f));
  return leaves;
}

CapturedDraw::CapturedDraw(DeviceBuffer& buffer, std::vector<std::byte*> leaves,
                           cuda::StreamHandle stream)
    : leaves_(std::move(leaves)) {
  struct Capture {
    explicit Capture(cuda::StreamHandle of) : stream(of) {
      EXPECT_EQ(cuStreamBeginCapture_v2(stream, kCaptureGlobal), cuda::kSuccess);
    }
    ~Capture() {
      if (cuStreamEndCapture(stream, &graph) != cuda::kSuccess) return;
      if (made) cuGraphInstantiateWithFlags(made, graph, 0);
      cuGraphDestroy(graph);
    }
    cuda::StreamHandle stream;
    GraphHandle graph = nullptr;
    GraphExecHandle* made = nullptr;
  } capture(stream);
  Target target{leaves_.data()};
  target.stream = stream;
  if (buffer.next_into(target, kAtOnce) != Status::kOk) return;
  count_ = target.count;
  capture.made = &graph_;
}

CapturedDraw::~CapturedDraw() {
  if (graph_) cuGraphExecDestroy(graph_);
}

void CapturedDraw::enqueue(cuda::StreamHandle stream) const {
  EXPECT_EQ(cuGraphLaunch(graph_, stream), cuda::kSuccess);
}

void CapturedDraw::launch(cuda::StreamHandle stream) const {
  enqueue(stream);
  echobuf_simulated_wait(stream);
}

Consumer::Consumer(DeviceBuffer& buffer, const cuda::Driver& driver, int streams,
                   bool default_stream)
    : buffer_(buffer),
      driver_(driver),
      created_(static_cast<std::size_t>(streams)),
      targets_(driver, buffer.layout()) {
  for (auto& handle : created_) driver.stream_create(&handle, cuda::kStreamNonBlocking);
  streams_ = created_;
  if (default_stream) streams_.insert(streams_.end(), {nullptr, cuda::kLegacyStream});
}

Consumer::~Consumer() {
  try {
    buffer_.reset(buffer_.checkpoint().epoch);
  } catch (const cuda::Error&) {  // the driver refuses it, as the test wants
  }
  for (auto* handle : created_) driver_.calls().stream_destroy(handle);
}

Status Consumer::draw(cuda::StreamHandle stream, BatchBytes& bytes, Deadline deadline) {
  const std::vector<std::byte*> leaves = targets_.take();
  Target target{leaves.data()};
  target.stream = stream;
  const Status status = buffer_.next_into(target, deadline);
  if (status != Status::kOk) return status;
  echobuf_simulated_wait(stream);
  bytes = bytes_of(buffer_.layout(), leaves[0], target.count);
  return status;
}

Status Consumer::replay(std::uint64_t random, cuda::StreamHandle stream,
                        BatchBytes& bytes) {
  constexpr std::size_t kGraphs = 3;
  if (graphs_.empty() || (graphs_.size() < kGraphs && random % 8 == 0))
    // On the default stream nothing can be captured.
    graphs_.push_back(
        std::make_unique<CapturedDraw>(buffer_, targets_.take(), created_[0]));
  const CapturedDraw& graph = *graphs_[random / 8 % graphs_.size()];
  const Status status = buffer_.before_replay(stream, Deadline::max());
  if (status != Status::kOk) return status;
  const auto launched = [&] {
    graph.launch(stream);
    return bytes_of(buffer_.layout(), graph.block(), graph.count());
  };
  bytes = launched();
  // The same batch again, or none that a buffer gives: whoever leaves an event out gets
  // what the race makes of it.
  if (random / 64 % 4 == 0 && launched() != bytes) bytes.clear();
  return status;
}

}  // namespace echobuf::test
