// A forked child may destroy its parent's buffer, and nothing else. The threads are not
// there, and the locks may be held for ever.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <memory>

#include "support.hpp"

namespace {

using namespace echobuf;        // NOLINT(google-build-using-namespace)
using namespace echobuf::test;  // NOLINT(google-build-using-namespace)

/// Runs `call` in a forked child; the status that the child ended with. One that hangs
/// is killed.
template <class Call>
int in_child(Call&& call) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    call();
    _exit(0);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

class ForkedBuffer : public testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(Factor, ForkedBuffer, testing::Bool());

TEST_P(ForkedBuffer, IsDestroyedWithoutTheThreadThatAssemblesAhead) {
  BufferOptions options =
      GetParam() ? numbered_auto(64, 8) : numbered(64, 8, Ratio{2, 1});
  options.prefetch = 2;
  auto buffer = std::make_unique<Buffer>(options);
  std::atomic<bool> served{false};
  Threads threads;
  threads.start([&] {
    for (std::uint64_t id = 0; put(*buffer, {id}) == Status::kOk; ++id) {
    }
  });
  threads.start([&] {  // so that forks come at any moment of its thread's life
    Batch batch;
    while (buffer->next(batch, far_off()) == Status::kOk) served = true;
  });
  while (!served) std::this_thread::yield();
  for (int i = 0; i < 30; ++i) {
    Batch held;
    ASSERT_EQ(buffer->next(held, far_off()), Status::kOk);
    EXPECT_EQ(in_child([&] {
                if (buffer->of_this_process()) _exit(1);
                buffer.reset();
                held = Batch();  // outlives its buffer
              }),
              0);
    EXPECT_TRUE(buffer->of_this_process());
  }
  buffer->shut_down();
}

TEST(Fork, LeavesTheParentsBufferAlone) {
  BufferOptions options = numbered(64, 8, Ratio{2, 1});
  options.prefetch = 2;
  auto buffer = std::make_unique<Buffer>(options);
  EXPECT_EQ(in_child([&] { buffer.reset(); }), 0);
  EXPECT_EQ(uses(joined(serve(*buffer, 100).batches), 100), Ids(100, 2));
}

TEST(Fork, DoesNotKeepAChildFromMakingItsOwn) {
  BufferOptions options = numbered(64, 8, Ratio{2, 1});
  options.prefetch = 2;
  const Buffer parents(options);
  options.prefetch = 0;  // ThreadSanitizer refuses a thread in a child of threads
  EXPECT_EQ(in_child([&] {
              Buffer own(options);
              const Ids draws = joined(serve(own, 100).batches);
              if (uses(draws, 100) != Ids(100, 2)) _exit(1);
            }),
            0);
}

}  // namespace
