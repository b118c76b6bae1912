// The end of a buffer on a device, while others are in the middle of a call.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "control.hpp"
#include "run.hpp"

namespace {

using echobuf::Deadline;
using echobuf::SourceLeaf;
using echobuf::Status;
using echobuf::Target;
using echobuf::cuda::Address;
using echobuf::cuda::Driver;
using echobuf::cuda::FunctionHandle;
using echobuf::cuda::Result;
using echobuf::cuda::StreamHandle;
using echobuf::test::DeviceBuffer;
using echobuf::test::on_device;
using echobuf::test::on_host;
using echobuf::test::Plan;
using echobuf::test::small_plan;
using echobuf::test::with_device;

/// Puts examples until there is no room.
void put_what_fits(DeviceBuffer& buffer) {
  const std::uint64_t values[6] = {};
  const SourceLeaf leaves[] = {SourceLeaf::of(values, 5), SourceLeaf::of(values + 5)};
  while (buffer.put(leaves, echobuf::kAtOnce) == Status::kOk) {
  }
}

Driver::Calls driver_calls;
std::atomic<bool> launching, let_go;

/// A launch that waits until it is let go.
Result launch_late(FunctionHandle f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                   unsigned by, unsigned bz, unsigned shared, StreamHandle stream,
                   void** arguments, void** extra) {
  launching = true;
  while (!let_go) std::this_thread::yield();
  return driver_calls.launch(f, gx, gy, gz, bx, by, bz, shared, stream, arguments,
                             extra);
}

TEST(DeviceBuffer, WaitsForADrawThatItsEndHasOvertaken) {
  const auto change = [](Driver::Calls& calls) {
    driver_calls = calls;
    launching = let_go = false;
    calls.launch = launch_late;
  };
  const auto script = [](DeviceBuffer& buffer, const Driver& driver) {
    put_what_fits(buffer);
    StreamHandle stream = nullptr;
    driver.stream_create(&stream, echobuf::cuda::kStreamNonBlocking);
    Address block = 0;
    driver.memory_alloc(&block, buffer.layout().bytes());
    std::thread consumer([&, stream, block] {
      auto* memory = reinterpret_cast<std::byte*>(block);
      std::byte* leaves[] = {memory, memory + buffer.layout().offset(1)};
      Target target{leaves};
      target.stream = stream;
      buffer.next_into(target, Deadline::max());
    });
    while (!launching) std::this_thread::yield();
    buffer.shut_down();
    let_go = true;
    consumer.join();
    echobuf::simulated::echobuf_simulated_free(block);
    driver.stream_destroy(stream);
  };
  const auto outcome = with_device(small_plan(), change, script);
  EXPECT_EQ(outcome.error, "");
  EXPECT_EQ(outcome.reports, std::vector<std::string>());
}

TEST(DeviceBuffer, ResetsAfterItsEndWithoutWaitingForUploads) {
  const auto outcome =
      with_device(small_plan(), nullptr, [](DeviceBuffer& buffer, const Driver&) {
        put_what_fits(buffer);  // more than the window takes: some are not uploaded
        buffer.shut_down();
        buffer.shut_down();
        EXPECT_EQ(buffer.reset(1), Status::kOk);
      });
  EXPECT_EQ(outcome.reports, std::vector<std::string>());
}

TEST(DeviceBuffer, DrawsOnTheCallersStreamWhateverPrefetchSays) {
  Plan plan = small_plan();
  plan.options.prefetch = 3;
  const auto outcome = on_device(plan);
  EXPECT_EQ(outcome.batches, on_host(plan));
  EXPECT_EQ(outcome.reports, std::vector<std::string>());
  EXPECT_EQ(DeviceBuffer::needs(plan.options).batches, 0u);
}

}  // namespace
