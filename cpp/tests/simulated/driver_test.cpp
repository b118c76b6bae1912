// The driver's own calls: devices, contexts, limits, error codes, faults, forks.
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <limits>
#include <thread>

#include "support.hpp"

namespace echobuf::simulated::test {
namespace {

using namespace cuda;  // NOLINT(google-build-using-namespace)

using Calls = Simulated;

TEST_F(Calls, TellTheDevices) {
  end();
  begin(1, 3);
  int count = 0, version = 0;
  Device device = -1;
  driver().device_count(&count);
  EXPECT_EQ(count, 3);
  driver().device_get(&device, 2);
  EXPECT_EQ(device, 2);
  driver().driver_version(&version);
  EXPECT_GE(version, 11000);
  for (const int attribute :
       {kAttributeMultiprocessors, kAttributeMajor, kAttributeMinor}) {
    int value = -1;
    driver().device_attribute(&value, attribute, device);
    EXPECT_GE(value, 0);
  }
}

TEST_F(Calls, RefuseWhatDoesNotExist) {
  int value = 0;
  Device device = 0;
  Context context = nullptr;
  for (const int ordinal : {-1, 2}) {
    EXPECT_EQ(calls().device_get(&device, ordinal), kErrorInvalidDevice);
    EXPECT_EQ(calls().primary_retain(&context, ordinal), kErrorInvalidDevice);
    EXPECT_EQ(calls().primary_release(ordinal), kErrorInvalidDevice);
    EXPECT_EQ(calls().device_attribute(&value, kAttributeMajor, ordinal),
              kErrorInvalidDevice);
  }
  EXPECT_EQ(calls().device_attribute(&value, -1, 0), kErrorInvalidValue);
  EXPECT_EQ(calls().primary_release(1), kErrorInvalidContext);
  EXPECT_EQ(calls().init(1), kErrorInvalidValue);
  void* const nothing = reinterpret_cast<void*>(0x1234);
  EXPECT_EQ(calls().context_push(nothing), kErrorInvalidContext);
  EXPECT_EQ(calls().stream_synchronize(nothing), kErrorInvalidHandle);
  EXPECT_EQ(calls().stream_destroy(nullptr), kErrorInvalidHandle);
  EXPECT_EQ(calls().event_query(nothing), kErrorInvalidHandle);
  EXPECT_EQ(calls().launch(nothing, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr),
            kErrorInvalidHandle);
}

TEST_F(Calls, RefuseNullPointers) {
  EXPECT_EQ(calls().device_count(nullptr), kErrorInvalidValue);
  EXPECT_EQ(calls().device_get(nullptr, 0), kErrorInvalidValue);
  EXPECT_EQ(calls().driver_version(nullptr), kErrorInvalidValue);
  EXPECT_EQ(calls().primary_retain(nullptr, 0), kErrorInvalidValue);
  EXPECT_EQ(calls().memory_alloc(nullptr, 1), kErrorInvalidValue);
  EXPECT_EQ(calls().memory_info(nullptr, nullptr), kErrorInvalidValue);
  EXPECT_EQ(calls().host_alloc(nullptr, 1, 0), kErrorInvalidValue);
  EXPECT_EQ(calls().stream_create(nullptr, 0), kErrorInvalidValue);
  EXPECT_EQ(calls().event_create(nullptr, 0), kErrorInvalidValue);
  EXPECT_EQ(calls().stream_capture_info(nullptr, nullptr, nullptr), kErrorInvalidValue);
  EXPECT_EQ(calls().thread_exchange_capture_mode(nullptr), kErrorInvalidValue);
}

TEST_F(Calls, RefuseLaunchesThatNoDeviceTakes) {
  const auto launch = [&](unsigned grid, unsigned block, unsigned shared) {
    return calls().launch(fill_kernel(), grid, 1, 1, block, 1, 1, shared, nullptr,
                          nullptr, nullptr);
  };
  EXPECT_EQ(launch(0, 1, 0), kErrorInvalidValue);
  EXPECT_EQ(launch(1, 0, 0), kErrorInvalidValue);
  EXPECT_EQ(launch(1, 1025, 0), kErrorInvalidValue);
  EXPECT_EQ(launch(1, 1, 48 * 1024 + 1), kErrorInvalidValue);
  EXPECT_EQ(launch(1, 1, 0), kErrorInvalidValue);  // no arguments
}

TEST_F(Calls, ContextsAreAStackOfEachThread) {
  Context first = nullptr, second = nullptr, popped = nullptr;
  driver().primary_retain(&second, 1);
  driver().primary_retain(&first, 0);
  EXPECT_NE(first, second);
  driver().context_push(second);
  std::thread([&] {
    Context none = nullptr;
    EXPECT_EQ(calls().context_pop(&none), kErrorInvalidContext);
    Address address = 0;
    EXPECT_EQ(calls().memory_alloc(&address, 1), kErrorInvalidContext);
  }).join();
  driver().context_pop(&popped);
  EXPECT_EQ(popped, second);
  driver().context_pop(&popped);
  EXPECT_EQ(popped, first);
  EXPECT_EQ(calls().context_pop(&popped), kErrorInvalidContext);
  EXPECT_EQ(calls().stream_synchronize(nullptr), kErrorInvalidContext);
  driver().context_push(first);
  driver().primary_release(0);
  driver().primary_release(1);
}

TEST_F(Calls, AReleasedContextIsOfNoUse) {
  driver().primary_release(0);
  Address address = 0;
  EXPECT_EQ(calls().memory_alloc(&address, 1), 709);  // CONTEXT_IS_DESTROYED
  Context again = nullptr;
  driver().context_pop(nullptr);
  driver().primary_retain(&again, 0);
  driver().context_push(again);
  free(device_memory());
}

TEST_F(Calls, StreamsAndEventsAreOfOneDevice) {
  StreamHandle here = stream();
  Context other = nullptr;
  driver().primary_retain(&other, 1);
  driver().context_push(other);
  EventHandle there = event();
  EXPECT_EQ(calls().event_record(there, here), kErrorInvalidHandle);
  EXPECT_EQ(calls().launch(fill_kernel(), 1, 1, 1, 1, 1, 1, 0, here, nullptr, nullptr),
            kErrorInvalidHandle);
  driver().event_record(there, nullptr);
  driver().stream_wait_event(here, there, 0U);  // across devices: allowed
  driver().stream_synchronize(here);
  driver().event_destroy(there);
  driver().context_pop(nullptr);
  driver().primary_release(1);
  destroy(here);
}

TEST_F(Calls, MemoryHasAnEnd) {
  std::size_t unused = 0, total = 0;
  const Address half = device_memory(1 << 19);
  driver().memory_info(&unused, &total);
  EXPECT_EQ(total, std::size_t{1} << 20);
  EXPECT_EQ(unused, std::size_t{1} << 19);
  Address address = 0;
  for (const std::size_t bytes :
       {(std::size_t{1} << 19) + 1, std::numeric_limits<std::size_t>::max()})
    EXPECT_EQ(calls().memory_alloc(&address, bytes), kErrorOutOfMemory);
  EXPECT_EQ(calls().memory_alloc(&address, 0), kErrorInvalidValue);
  free(half);
  free(device_memory(1 << 20));
  void* pinned = nullptr;
  EXPECT_EQ(calls().host_alloc(&pinned, (1 << 20) + 1, 0), kErrorOutOfMemory);
  driver().host_free(static_cast<void*>(pinned_memory(1 << 20)));
}

TEST_F(Calls, CopiesNeedMemoryOfTheirKind) {
  const Address address = device_memory();
  std::array<unsigned char, 4> here{};
  const auto pageable = reinterpret_cast<Address>(here.data());
  EXPECT_EQ(calls().copy_to_device(pageable, here.data(), 4, nullptr),
            kErrorInvalidValue);
  EXPECT_EQ(calls().copy_to_host(here.data(), pageable, 4, nullptr),
            kErrorInvalidValue);
  EXPECT_EQ(calls().copy_on_device(address, pageable, 4, nullptr), kErrorInvalidValue);
  EXPECT_EQ(calls().copy_to_device(address, nullptr, 4, nullptr), kErrorInvalidValue);
  driver().copy_to_device(address, static_cast<const void*>(nullptr), std::size_t{0},
                          StreamHandle{});
  free(address);
}

TEST_F(Calls, ErrorsAreWordedAsTheDriverDoes) {
  EXPECT_EQ(driver().describe(kErrorOutOfMemory),
            "CUDA_ERROR_OUT_OF_MEMORY (2), out of memory");
  EXPECT_EQ(driver().describe(kErrorInvalidDevice),
            "CUDA_ERROR_INVALID_DEVICE (101), invalid device ordinal");
  EXPECT_EQ(driver().describe(12345), "unknown error (12345)");
}

TEST_F(Calls, FailWhenTold) {
  echobuf_simulated_fail("cuMemAlloc_v2", 2, kErrorOutOfMemory);
  const Address first = device_memory();
  Address none = 7;
  EXPECT_EQ(calls().memory_alloc(&none, 1), kErrorOutOfMemory);
  EXPECT_EQ(none, 7U);
  free(device_memory());
  free(first);
  EXPECT_EQ(echobuf_simulated_calls("cuMemAlloc_v2"), 3U);
  echobuf_simulated_fail("cuMemFree_v2", 1, kErrorUnknown);
  echobuf_simulated_fail("cuMemFree_v2", 0, 0);  // forgets it
  free(device_memory());
}

TEST_F(Calls, AllReturnTheErrorOfALostDevice) {
  constexpr cuda::Result kIllegalAddress = 700;
  const Address memory = device_memory();
  StreamHandle busy = stream();
  fill(memory, 1, 1, busy);
  driver().stream_synchronize(busy);
  echobuf_simulated_hold(busy, 1);
  fill(memory, 1, 2, busy);
  EventHandle last = event();
  driver().event_record(last, busy);
  echobuf_simulated_lose(kIllegalAddress);
  echobuf_simulated_hold(busy, 0);
  Address none = 7;
  std::size_t bytes = 0;
  StreamHandle fresh = nullptr;
  EXPECT_EQ(calls().memory_alloc(&none, 1), kIllegalAddress);
  EXPECT_EQ(calls().memory_free(memory), kIllegalAddress);
  EXPECT_EQ(calls().memory_info(&bytes, &bytes), kIllegalAddress);
  EXPECT_EQ(calls().stream_create(&fresh, 0), kIllegalAddress);
  EXPECT_EQ(calls().stream_synchronize(busy), kIllegalAddress);
  EXPECT_EQ(calls().event_query(last), kIllegalAddress);
  EXPECT_EQ(calls().event_destroy(last), kIllegalAddress);
  EXPECT_EQ(calls().context_synchronize(), kIllegalAddress);
  EXPECT_EQ(calls().stream_destroy(busy), kIllegalAddress);
  // Calls that ask nothing of the device are answered.
  int count = 0;
  driver().device_count(&count);
  EXPECT_EQ(count, 2);
  echobuf_simulated_wait(nullptr);
  EXPECT_EQ(*static_cast<const unsigned char*>(pointer(memory)), 1);  // not 2
  end();  // without a report: nothing can be given back
  begin(1);
  free(device_memory());
}

TEST_F(Calls, AreRefusedAfterTheEnd) {
  end();
  int count = 0;
  EXPECT_EQ(calls().device_count(&count), kErrorDeinitialized);
  begin(1);
  driver().device_count(&count);
  EXPECT_EQ(count, 2);
}

TEST_F(Calls, InitStartsADriverIfThereIsNone) {
  end();
  driver().init(0U);
  std::size_t unused = 0, total = 0;
  Context context = nullptr;
  driver().primary_retain(&context, 0);
  driver().context_push(context);
  driver().memory_info(&unused, &total);
  EXPECT_EQ(total, std::size_t{1} << 30);
  driver().context_pop(nullptr);
  driver().primary_release(0);
  echobuf_simulated_stop();
}

TEST_F(Calls, AForkedChildMayMakeNone) {
  const Address address = device_memory();
  StreamHandle busy = stream();
  for (int i = 0; i < 100; ++i) fill(address, kBlockBytes, 1, busy);
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    int count = 0;
    Address more = 0;
    const bool refused = calls().init(0) == kErrorNotInitialized &&
                         calls().device_count(&count) == kErrorNotInitialized &&
                         calls().memory_alloc(&more, 1) == kErrorNotInitialized &&
                         calls().stream_synchronize(busy) == kErrorNotInitialized;
    echobuf_simulated_stop();
    _exit(refused ? 0 : 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  driver().stream_synchronize(busy);
  destroy(busy);
  free(address);
}

}  // namespace
}  // namespace echobuf::simulated::test
