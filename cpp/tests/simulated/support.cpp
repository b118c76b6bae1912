#include "support.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace echobuf::simulated::test {

namespace {

template <class Value>
Value argument(void* const* arguments, int index) {
  Value value;
  std::memcpy(&value, arguments[index], sizeof value);
  return value;
}

unsigned char* memory(Address address) {
  return static_cast<unsigned char*>(pointer(address));
}

void run_fill(const Launch&, void* const* arguments) {
  auto* const to = memory(argument<Address>(arguments, 0));
  const auto bytes = argument<std::size_t>(arguments, 1);
  echobuf_simulated_touch(to, bytes, 1);
  std::memset(to, argument<unsigned char>(arguments, 2), bytes);
}

void run_add(const Launch&, void* const* arguments) {
  auto* const to = memory(argument<Address>(arguments, 0));
  const auto* const from = memory(argument<Address>(arguments, 1));
  const auto bytes = argument<std::size_t>(arguments, 2);
  echobuf_simulated_touch(from, bytes, 0);
  echobuf_simulated_touch(to, bytes, 1);
  std::transform(from, from + bytes, to,
                 [](int byte) { return static_cast<unsigned char>(byte + 1); });
}

}  // namespace

void* pointer(Address address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

std::vector<std::string> reports() {
  std::vector<std::string> all;
  for (std::size_t i = 0; i < echobuf_simulated_reports(); ++i) {
    std::vector<char> text(echobuf_simulated_report(i, nullptr, 0) + 1);
    echobuf_simulated_report(i, text.data(), text.size());
    all.emplace_back(text.data());
  }
  return all;
}

std::size_t found(const std::string& kind, const std::vector<std::string>& words) {
  const auto all = reports();
  const auto matches = [&](const std::string& report) {
    return report.rfind(kind + ": ", 0) == 0 &&
           std::all_of(words.begin(), words.end(), [&](const std::string& word) {
             return report.find(word) != std::string::npos;
           });
  };
  return static_cast<std::size_t>(std::count_if(all.begin(), all.end(), matches));
}

FunctionHandle fill_kernel() {
  static constexpr std::array<std::size_t, 3> kBytes{8, 8, 1};
  static const FunctionHandle handle =
      echobuf_simulated_kernel("fill", run_fill, kBytes.data(), 3);
  return handle;
}

FunctionHandle add_kernel() {
  static constexpr std::array<std::size_t, 3> kBytes{8, 8, 8};
  static const FunctionHandle handle =
      echobuf_simulated_kernel("add", run_add, kBytes.data(), 3);
  return handle;
}

void Simulated::begin(std::uint64_t seed, int devices, std::size_t bytes) {
  constexpr unsigned kLargestDelayUs = 50;
  echobuf_simulated_start(seed, devices, bytes, bytes, kLargestDelayUs);
  driver_ = Driver::load(ECHOBUF_SIMULATED_CUDA);
  cuda::Context context = nullptr;
  driver().primary_retain(&context, 0);
  driver().context_push(context);
  running_ = true;
}

void Simulated::end() {
  if (!running_) return;
  running_ = false;
  driver().context_pop(nullptr);
  driver().primary_release(0);
  echobuf_simulated_stop();
}

void Simulated::TearDown() {
  end();
  if (!reports_expected_) {
    EXPECT_EQ(reports(), std::vector<std::string>{});
  }
}

Address Simulated::device_memory(std::size_t bytes) {
  Address address = 0;
  driver().memory_alloc(&address, bytes);
  return address;
}

unsigned char* Simulated::pinned_memory(std::size_t bytes) {
  void* pinned = nullptr;
  driver().host_alloc(&pinned, bytes, cuda::kHostAllocPortable);
  return static_cast<unsigned char*>(pinned);
}

StreamHandle Simulated::stream(unsigned flags) {
  StreamHandle stream = nullptr;
  driver().stream_create(&stream, flags);
  return stream;
}

EventHandle Simulated::event() {
  EventHandle event = nullptr;
  driver().event_create(&event, cuda::kEventDisableTiming);
  return event;
}

void Simulated::fill(Address to, std::size_t bytes, unsigned char value,
                     StreamHandle stream) {
  std::array<void*, 3> arguments{&to, &bytes, &value};
  driver().launch(fill_kernel(), 1U, 1U, 1U, 1U, 1U, 1U, 0U, stream, arguments.data(),
                  static_cast<void**>(nullptr));
}

void Simulated::add(Address to, Address from, std::size_t bytes, StreamHandle stream) {
  std::array<void*, 3> arguments{&to, &from, &bytes};
  driver().launch(add_kernel(), 1U, 1U, 1U, 1U, 1U, 1U, 0U, stream, arguments.data(),
                  static_cast<void**>(nullptr));
}

std::vector<unsigned char> Simulated::read(Address from, std::size_t bytes,
                                           StreamHandle stream) {
  std::vector<unsigned char> values(bytes);
  driver().copy_to_host(static_cast<void*>(values.data()), from, bytes, stream);
  return values;
}

}  // namespace echobuf::simulated::test
