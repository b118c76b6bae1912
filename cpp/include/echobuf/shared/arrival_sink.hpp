// The ring that items enter as they arrive, whatever its records are.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "echobuf/status.hpp"
#include "echobuf/store/host_store.hpp"
#include "echobuf/sync/wait_for.hpp"

namespace echobuf::workers {

/// A ring, as a pool of workers needs it. A virtual call an item costs nothing beside
/// it, and there is one pool for all kinds of buffers.
class ArrivalSink {
 public:
  ArrivalSink() = default;
  ArrivalSink(const ArrivalSink&) = delete;
  ArrivalSink& operator=(const ArrivalSink&) = delete;
  virtual ~ArrivalSink() = default;

  virtual bool has_ended(std::uint64_t term) = 0;
  virtual void fail(std::uint64_t term) = 0;

  /// For records of one size: takes the next position, and publishes what was written
  /// there.
  virtual Status claim(std::uint64_t term, std::uint64_t& position,
                       Deadline deadline) = 0;
  virtual void commit(std::uint64_t position) = 0;

  /// For records that differ in length: puts one. See PayloadPutPath.
  virtual Status put_made(std::uint64_t term, const SourceLeaf* leaves,
                          Deadline deadline) = 0;
  virtual void begin_making(std::uint64_t n) = 0;
  virtual void end_making(std::uint64_t n) = 0;
};

/// What both kinds of records have in common. `Core`: a BasicBuffer.
template <class Core>
class ArrivalSinkOf : public ArrivalSink {
 public:
  explicit ArrivalSinkOf(std::shared_ptr<Core> buffer) : buffer_(std::move(buffer)) {}

  bool has_ended(std::uint64_t term) override {
    std::uint64_t done = 0;
    return buffer_->put(term, nullptr, 0, 0, done, kAtOnce, nullptr) == Status::kClosed;
  }
  void fail(std::uint64_t term) override { buffer_->fail(term); }
  Status claim(std::uint64_t, std::uint64_t&, Deadline) override {
    return Status::kFailed;
  }
  void commit(std::uint64_t) override {}
  Status put_made(std::uint64_t, const SourceLeaf*, Deadline) override {
    return Status::kFailed;
  }
  void begin_making(std::uint64_t) override {}
  void end_making(std::uint64_t) override {}

 protected:
  const std::shared_ptr<Core> buffer_;
};

/// Of records of one size.
template <class Core>
class ArrivalSlots final : public ArrivalSinkOf<Core> {
 public:
  using ArrivalSinkOf<Core>::ArrivalSinkOf;

  Status claim(std::uint64_t term, std::uint64_t& position,
               Deadline deadline) override {
    std::uint64_t one = 1;
    return this->buffer_->claim(term, position, one, deadline);
  }
  void commit(std::uint64_t position) override { this->buffer_->commit(position, 1); }
};

/// Of records that differ in length.
template <class Core>
class ArrivalRows final : public ArrivalSinkOf<Core> {
 public:
  using ArrivalSinkOf<Core>::ArrivalSinkOf;

  Status put_made(std::uint64_t term, const SourceLeaf* leaves,
                  Deadline deadline) override {
    std::uint64_t done = 0;
    return this->buffer_->put_made(term, leaves, done, deadline);
  }
  void begin_making(std::uint64_t n) override { this->buffer_->begin_making(n); }
  void end_making(std::uint64_t n) override { this->buffer_->end_making(n); }
};

}  // namespace echobuf::workers
