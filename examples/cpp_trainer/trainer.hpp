// The loop: batches from the buffer into the model.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "echobuf/echobuf.hpp"
#include "model.hpp"

class Trainer {
 public:
  Trainer(echobuf::Buffer& buffer, Model& model) : buffer_(buffer), model_(model) {}

  /// Trains until everything has been served (true) or for `most` steps (false).
  bool train(std::uint64_t most) {
    using echobuf::Status;
    echobuf::Batch batch;
    for (std::uint64_t steps = 0; steps < most;) {
      // A deadline, so that an upstream that hangs is seen. Nothing is lost by it.
      const auto deadline = echobuf::Clock::now() + std::chrono::seconds(10);
      switch (buffer_.next(batch, deadline)) {
        case Status::kOk:
          learn(batch);
          ++steps;
          break;
        case Status::kFinished:
          return true;
        case Status::kTimeout:
          std::fputs("upstream gave nothing for ten seconds; still waiting\n", stderr);
          break;
        default:
          std::fputs("the buffer was shut down or upstream failed\n", stderr);
          std::exit(2);
      }
    }
    return false;
  }

 private:
  void learn(const echobuf::Batch& batch) {
    const auto* pixels = buffer_.field<std::uint8_t>(batch, 0);
    const auto* labels = buffer_.field<std::int32_t>(batch, 1);
    loss_ += 0.05f * (model_.train(pixels, labels, batch.count) - loss_);
    if (++steps_ % 100 == 0) report();
  }

  void report() const {
    const echobuf::BufferStats stats = buffer_.stats();
    const auto fresh = static_cast<double>(stats.fresh);
    std::printf("step %4llu  loss %.3f  fresh %5.0f  served %6llu  factor %.2f\n",
                static_cast<unsigned long long>(steps_), static_cast<double>(loss_),
                fresh, static_cast<unsigned long long>(stats.served),
                static_cast<double>(stats.served) / fresh);
  }

  echobuf::Buffer& buffer_;
  Model& model_;
  float loss_ = 2.3f;
  std::uint64_t steps_ = 0;
};
