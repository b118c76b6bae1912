// Every other kind of report is found.
#include <array>
#include <cstring>

#include "support.hpp"

namespace echobuf::simulated::test {
namespace {

class Reported : public Simulated {
 protected:
  void SetUp() override {
    Simulated::SetUp();
    expect_reports();
    stream_ = stream();
  }
  void finish() { echobuf_simulated_wait(nullptr); }
  void finish_and_end() {
    destroy(stream_);
    end();
  }

  StreamHandle stream_ = nullptr;
};

TEST_F(Reported, LeakedMemory) {
  device_memory(100);
  pinned_memory(200);
  finish_and_end();
  EXPECT_EQ(found("leak", {"device memory block 0 (100 bytes, device 0)"}), 1U);
  EXPECT_EQ(found("leak", {"pinned memory block 1 (200 bytes)"}), 1U);
  EXPECT_EQ(reports().size(), 2U);
}

TEST_F(Reported, LeakedMemoryCanStillBeLookedAt) {
  const Address address = device_memory(1);
  fill(address, 1, 7, stream_);
  finish_and_end();
  EXPECT_EQ(*static_cast<const unsigned char*>(pointer(address)), 7);
}

TEST_F(Reported, NotOfLentMemoryWhichOutlivesTheDriver) {
  Address address = 0;
  ASSERT_EQ(echobuf_simulated_lend(0, 10, &address), 0);
  EXPECT_EQ(echobuf_simulated_lend(7, 10, &address), cuda::kErrorInvalidDevice);
  EXPECT_EQ(echobuf_simulated_lend(0, 1 << 30, &address), cuda::kErrorOutOfMemory);
  fill(address, 10, 7, stream_);
  finish_and_end();
  EXPECT_EQ(reports(), std::vector<std::string>());
  EXPECT_EQ(*static_cast<const unsigned char*>(pointer(address)), 7);
  EXPECT_EQ(echobuf_simulated_free(address), 0);
  EXPECT_NE(echobuf_simulated_free(address), 0);
}

TEST_F(Reported, LeakedStreamsAndEvents) {
  event();
  end();
  EXPECT_EQ(found("leak", {"stream 1 of device 0"}), 1U);
  EXPECT_EQ(found("leak", {"event 1 of device 0"}), 1U);
  EXPECT_EQ(reports().size(), 2U);
}

TEST_F(Reported, RetainedAndPushedContexts) {
  cuda::Context context = nullptr;
  driver().primary_retain(&context, 1);
  driver().context_push(context);
  driver().context_pop(nullptr);
  destroy(stream_);
  driver().primary_retain(&context, 0);
  driver().context_push(context);
  end();
  EXPECT_EQ(found("leak", {"primary context of device 0 is retained 1 times"}), 1U);
  EXPECT_EQ(found("leak", {"primary context of device 1 is retained 1 times"}), 1U);
  EXPECT_EQ(found("leak", {"left 1 contexts pushed"}), 1U);
  EXPECT_EQ(reports().size(), 3U);
}

TEST_F(Reported, MisalignedAccesses) {
  const Address address = device_memory();
  fill(address + 1, 1, 1, stream_);
  fill(address + 1, 3, 1, stream_);  // that many are copied byte by byte
  fill(address + 8, 8, 1, stream_);
  fill(address + 1, 32, 1, stream_);
  driver().stream_synchronize(stream_);
  EXPECT_EQ(reports(), std::vector<std::string>());
  fill(address + 4, 8, 1, stream_);
  driver().stream_synchronize(stream_);
  EXPECT_EQ(found("misaligned", {"`fill`", "accesses 8 bytes"}), 1U);
  EXPECT_EQ(reports().size(), 1U);
  free(address);
  finish_and_end();
}

TEST_F(Reported, UnwrittenMemory) {
  const Address address = device_memory();
  fill(address, 100, 1, stream_);
  read(address, 100, stream_);
  driver().stream_synchronize(stream_);
  EXPECT_EQ(reports(), std::vector<std::string>());
  read(address + 50, 60, stream_);
  driver().stream_synchronize(stream_);
  EXPECT_EQ(found("unwritten memory",
                  {"cuMemcpyDtoHAsync", "reads byte 100 of", "device memory block 0"}),
            1U);
  EXPECT_EQ(reports().size(), 1U);
  free(address);
  finish_and_end();
}

TEST_F(Reported, UseAfterFree) {
  const Address address = device_memory();
  echobuf_simulated_hold(stream_, 1);
  fill(address, kBlockBytes, 1, stream_);
  free(address);
  echobuf_simulated_hold(stream_, 0);
  finish();
  EXPECT_EQ(found("use after free", {"`fill`", "stream 1, operation 1", "writes",
                                     "device memory block 0"}),
            1U);
  EXPECT_EQ(reports().size(), 1U);
  finish_and_end();
}

TEST_F(Reported, UseAfterFreeOfPinnedMemory) {
  const Address address = device_memory();
  unsigned char* const pinned = pinned_memory();
  echobuf_simulated_hold(stream_, 1);
  driver().copy_to_device(address, static_cast<const void*>(pinned), kBlockBytes,
                          stream_);
  driver().host_free(static_cast<void*>(pinned));
  echobuf_simulated_hold(stream_, 0);
  driver().stream_synchronize(stream_);
  free(address);
  EXPECT_EQ(found("use after free", {"cuMemcpyHtoDAsync", "reads", "pinned"}), 1U);
  echobuf_simulated_host_access(pinned, 1, 0);
  EXPECT_EQ(found("use after free", {"the host", "reads", "pinned"}), 1U);
  finish_and_end();
}

TEST_F(Reported, DoubleFree) {
  const Address address = device_memory();
  free(address);
  EXPECT_EQ(calls().memory_free(address), cuda::kErrorInvalidValue);
  void* const pinned = pinned_memory();
  driver().host_free(pinned);
  EXPECT_EQ(calls().host_free(pinned), cuda::kErrorInvalidValue);
  EXPECT_EQ(found("double free", {"device memory block 0"}), 1U);
  EXPECT_EQ(found("double free", {"pinned memory block 1"}), 1U);
  finish_and_end();
}

TEST_F(Reported, FreeOfWhatIsNoBlock) {
  const Address address = device_memory();
  EXPECT_EQ(calls().memory_free(address + 1), cuda::kErrorInvalidValue);
  EXPECT_EQ(calls().host_free(pointer(address)), cuda::kErrorInvalidValue);
  EXPECT_EQ(found("wrong free", {"no device memory", "1 bytes after the begin"}), 1U);
  EXPECT_EQ(found("wrong free", {"no pinned memory", "0 bytes after the begin"}), 1U);
  free(address);
  finish_and_end();
}

TEST_F(Reported, OutOfBounds) {
  const Address address = device_memory();
  fill(address + 1, kBlockBytes, 1, stream_);
  driver().stream_synchronize(stream_);
  EXPECT_EQ(found("out of bounds", {"`fill`", "1024 bytes from byte 1"}), 1U);
  const Address to = device_memory(2 * kBlockBytes);
  driver().copy_on_device(to, address, kBlockBytes + 1, stream_);
  driver().stream_synchronize(stream_);
  EXPECT_EQ(found("out of bounds", {"cuMemcpyDtoDAsync", "reads 1025 bytes"}), 1U);
  fill(to - 1, 1, 1, stream_);
  driver().stream_synchronize(stream_);
  EXPECT_EQ(found("unknown memory", {"`fill`", "writes 1 bytes"}), 1U);
  driver().stream_synchronize(stream_);
  free(to);
  free(address);
  EXPECT_EQ(found("out of bounds", {"beyond an end", "without saying so"}), 2U);
  finish_and_end();
}

TEST_F(Reported, CallsOnDestroyedHandles) {
  StreamHandle gone = stream();
  EventHandle lost = event(), other = event();
  destroy(gone);
  driver().event_destroy(lost);
  EXPECT_EQ(calls().stream_synchronize(gone), cuda::kErrorInvalidHandle);
  EXPECT_EQ(calls().event_record(other, gone), cuda::kErrorInvalidHandle);
  EXPECT_EQ(calls().event_query(lost), cuda::kErrorInvalidHandle);
  EXPECT_EQ(calls().stream_destroy(gone), cuda::kErrorInvalidHandle);
  EXPECT_EQ(found("destroyed handle", {"cuStreamSynchronize on stream 2"}), 1U);
  EXPECT_EQ(found("destroyed handle", {"cuEventRecord on stream 2"}), 1U);
  EXPECT_EQ(found("destroyed handle", {"cuEventQuery on event 1"}), 1U);
  EXPECT_EQ(found("destroyed handle", {"cuStreamDestroy on stream 2"}), 1U);
  driver().event_destroy(other);
  finish_and_end();
}

TEST_F(Reported, AHandleOfADriverThatEnded) {
  finish_and_end();
  begin(2);
  EXPECT_EQ(calls().stream_synchronize(stream_), cuda::kErrorInvalidHandle);
  EXPECT_EQ(reports(), std::vector<std::string>{});
}

TEST_F(Reported, AContextThatWasReleased) {
  cuda::Context context = nullptr;
  driver().primary_retain(&context, 1);
  driver().primary_release(1);
  EXPECT_EQ(calls().context_push(context), cuda::kErrorInvalidContext);
  EXPECT_EQ(found("destroyed handle", {"cuCtxPushCurrent"}), 1U);
  finish_and_end();
}

TEST_F(Reported, TheWrongDevice) {
  cuda::Context context = nullptr;
  driver().primary_retain(&context, 1);
  driver().context_push(context);
  const Address elsewhere = device_memory();
  driver().context_pop(nullptr);
  fill(elsewhere, kBlockBytes, 1, stream_);
  driver().stream_synchronize(stream_);
  EXPECT_EQ(found("wrong device", {"`fill`", "device 1", "from device 0"}), 1U);
  driver().context_push(context);
  free(elsewhere);
  driver().context_pop(nullptr);
  driver().primary_release(1);
  finish_and_end();
}

TEST_F(Reported, TheHostAtDeviceMemory) {
  const Address address = device_memory();
  echobuf_simulated_touch(pointer(address), 1, 0);
  EXPECT_EQ(found("wrong device", {"the host", "reads", "device memory block 0"}), 1U);
  free(address);
  finish_and_end();
}

TEST_F(Reported, AKernelAtPageableMemory) {
  std::array<unsigned char, 16> pageable{};
  fill(reinterpret_cast<Address>(pageable.data()), 16, 1, stream_);
  finish();
  EXPECT_EQ(found("unknown memory", {"`fill`", "16 bytes"}), 1U);
  finish_and_end();
}

TEST_F(Reported, TheSameOnlyOnce) {
  const Address address = device_memory(4 * kBlockBytes);
  StreamHandle other = stream();
  add(address, address + 100, kBlockBytes, stream_);
  add(address, address + 100, kBlockBytes, other);
  finish();
  EXPECT_EQ(found("race"), 1U);
  finish_and_end();
}

}  // namespace
}  // namespace echobuf::simulated::test
