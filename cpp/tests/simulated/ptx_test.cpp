// Compiled kernels on the streams of this driver.
#include "ptx.hpp"

#include <array>
#include <string>

#include "support.hpp"

namespace echobuf::simulated::test {
namespace {

/// A kernel `k` with the addresses %from and %to.
std::string kernel(const std::string& body) {
  return R"(.version 8.5
.target sm_90
.address_size 64
.visible .entry k(.param .u64 from, .param .u64 to)
{
  .reg .b64 %from, %to, %low, %high;
  ld.param.u64 %from, [from];
  ld.param.u64 %to, [to];
)" + body +
         "\n}\n";
}

class CompiledKernels : public Simulated {
 protected:
  void SetUp() override {
    Simulated::SetUp();
    stream_ = stream();
    from_ = device_memory(24);
    to_ = device_memory(16);
    fill(from_, 8, 7, stream_);
  }

  void launch(const std::string& body, std::uint64_t most_instructions = 1000) {
    const std::string text = kernel(body);
    const FunctionHandle handle =
        echobuf_ptx_kernel(text.data(), text.size(), "k", nullptr, most_instructions);
    ASSERT_NE(handle, nullptr) << echobuf_ptx_error();
    std::array<void*, 2> arguments{&from_, &to_};
    driver().launch(handle, 1U, 1U, 1U, 1U, 1U, 1U, 0U, stream_, arguments.data(),
                    static_cast<void**>(nullptr));
    driver().stream_synchronize(stream_);
  }

  void finish() {
    driver().stream_synchronize(stream_);
    free(from_);
    free(to_);
    destroy(stream_);
    end();
  }

  StreamHandle stream_ = nullptr;
  Address from_ = 0, to_ = 0;
};

TEST_F(CompiledKernels, LookAtNoByteThatTheCompilerSaysIsNotUsed) {
  launch(R"(
  .pragma "used_bytes_mask 255";
  ld.global.v2.u64 {%low, %high}, [%from];
  st.global.u64 [%to], %low;
  ret;)");
  EXPECT_EQ(read(to_, 8, stream_), std::vector<unsigned char>(8, 7));
  finish();
}

TEST_F(CompiledKernels, LookAtAllOthers) {
  expect_reports();
  launch(R"(
  .pragma "used_bytes_mask 257";
  ld.global.v2.u64 {%low, %high}, [%from];
  st.global.u64 [%to], %low;
  ret;)");
  finish();
  EXPECT_EQ(found("unwritten memory", {"reads byte 8 of"}), 1U);
  EXPECT_EQ(reports().size(), 1U);
}

TEST_F(CompiledKernels, MayNotLoadBeyondTheirMemory) {
  expect_reports();
  fill(from_, 24, 7, stream_);
  launch(R"(
  .pragma "used_bytes_mask 255";
  ld.global.v2.u64 {%low, %high}, [%from+16];
  st.global.u64 [%to], %low;
  ret;)");
  finish();
  EXPECT_EQ(found("out of bounds", {"k, line", "16 bytes at address"}), 1U);
}

TEST_F(CompiledKernels, ThatNeverEndAreEnded) {
  expect_reports();
  launch("AGAIN:\n  bra AGAIN;", 5000);
  launch("AGAIN:\n  bra AGAIN;", 6000);
  launch("  st.global.u64 [%to], 1;\n  ret;");  // what comes later goes on
  EXPECT_EQ(read(to_, 1, stream_), std::vector<unsigned char>(1, 1));
  finish();
  EXPECT_EQ(found("limit of instructions", {"k, line", "5000 instructions"}), 1U);
  EXPECT_EQ(found("limit of instructions", {"k, line", "6000 instructions"}), 1U);
}

TEST_F(CompiledKernels, OfATextThatIsNoneAreRefused) {
  const std::string text = kernel("  atom.global.add.u64 %low, [%to], 1;\n  ret;");
  EXPECT_EQ(echobuf_ptx_kernel(text.data(), text.size(), "k", nullptr, 1000), nullptr);
  EXPECT_EQ(std::string(echobuf_ptx_error()), "line 9: unknown opcode atom");
  finish();
}

}  // namespace
}  // namespace echobuf::simulated::test
