// The ring that records enter from other processes, whatever its records are.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "echobuf/options.hpp"
#include "echobuf/store/borrowed_slots.hpp"
#include "echobuf/store/host_store.hpp"
#include "echobuf/sync/wait_for.hpp"

namespace echobuf {

/// A ring, as a pool of workers and the reader of a server need it. A virtual call an
/// item costs nothing beside the item, and there is one pool and one reader for all
/// kinds of buffers.
class RecordSink {
 public:
  RecordSink() = default;
  RecordSink(const RecordSink&) = delete;
  RecordSink& operator=(const RecordSink&) = delete;
  virtual ~RecordSink() = default;

  virtual const BufferOptions& options() const = 0;
  /// The memory of the slots that are claimed; null if it is not shared.
  virtual const SharedMemory* shared_memory() const = 0;
  /// The most bytes of the rows of a record; 0 where records have none.
  virtual std::uint64_t most_bytes() const = 0;
  virtual bool of_this_process() const = 0;

  virtual std::uint64_t term() const = 0;
  virtual std::uint64_t tail() const = 0;
  virtual bool has_ended(std::uint64_t term) = 0;
  virtual void fail(std::uint64_t term) = 0;

  /// Takes up to `count` positions, and says how many from which on; commit() publishes
  /// what was written there. For records of one size, and for borrowed ones.
  virtual Status claim(std::uint64_t term, std::uint64_t& first, std::uint64_t& count,
                       Deadline deadline) = 0;
  virtual void commit(std::uint64_t first, std::uint64_t count) = 0;
  /// The first record of the last claim that cannot be drawn, of borrowed ones.
  virtual Misfit misfit() const = 0;

  /// Puts a record that has rows. See PutPath.
  virtual Status put_made(std::uint64_t term, const SourceLeaf* leaves,
                          Deadline deadline) = 0;
  virtual void begin_making(std::uint64_t n) = 0;
  virtual void end_making(std::uint64_t n) = 0;
};

/// `Core`: a BasicBuffer, or a SharedRing.
template <class Core>
class RecordSinkOf final : public RecordSink {
 public:
  explicit RecordSinkOf(std::shared_ptr<Core> core) : core_(std::move(core)) {}

  const BufferOptions& options() const override { return core_->options(); }
  const SharedMemory* shared_memory() const override { return core_->shared_memory(); }
  std::uint64_t most_bytes() const override { return core_->most_bytes(); }
  bool of_this_process() const override { return core_->of_this_process(); }

  std::uint64_t term() const override { return core_->term(); }
  std::uint64_t tail() const override { return core_->tail(); }
  bool has_ended(std::uint64_t term) override {
    std::uint64_t done = 0;
    return core_->put(term, nullptr, 0, 0, done, kAtOnce, nullptr) == Status::kClosed;
  }
  void fail(std::uint64_t term) override { core_->fail(term); }

  Status claim(std::uint64_t term, std::uint64_t& first, std::uint64_t& count,
               Deadline deadline) override {
    return core_->claim(term, first, count, deadline);
  }
  void commit(std::uint64_t first, std::uint64_t count) override {
    core_->commit(first, count);
  }
  Misfit misfit() const override { return core_->misfit(); }

  Status put_made(std::uint64_t term, const SourceLeaf* leaves,
                  Deadline deadline) override {
    std::uint64_t done = 0;
    return core_->put_made(term, leaves, done, deadline);
  }
  void begin_making(std::uint64_t n) override { core_->begin_making(n); }
  void end_making(std::uint64_t n) override { core_->end_making(n); }

 private:
  const std::shared_ptr<Core> core_;
};

}  // namespace echobuf
