// The backend of a buffer on the CPU: the ring's slots are the window.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "echobuf/buffer/put_path.hpp"
#include "echobuf/buffer/stats.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/batch_pool.hpp"
#include "echobuf/draw/drawer.hpp"
#include "echobuf/draw/host_draw.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/store/host_store.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/store/ring.hpp"
#include "echobuf/store/versions.hpp"

namespace echobuf {

struct HostBackend {
  using Ring = echobuf::Ring;
  using Store = HostStore;
  using Drawer = echobuf::Drawer<Ring, HostDraw>;
  using PutPath = echobuf::PutPath<Ring, Store>;

  static constexpr bool kUploads = false;

  /// Returns the options that this backend follows.
  static BufferOptions accept(const BufferOptions& options) {
    return options.drawn_when_asked();
  }

  /// Throws std::bad_alloc.
  explicit HostBackend(const BufferOptions& options)
      : ring(shape_of(options)),
        store(make_store(options)),
        versions(options.keeps_versions() ? ring.capacity() : 0),
        batch(store.layout(), options.leaves, options.batch_size),
        pool(std::make_shared<BatchPool>(batch.bytes(), options.idle)) {}

  static BufferNeeds needs(const BufferOptions& options) {
    const RecordLayout record(options.fields, options.ragged);
    const BatchLayout batch(record, options.leaves, options.batch_size);
    // "auto" has one more: a batch that a wait has cut in two.
    const std::size_t slot = (options.borrowed ? 0 : HostStore::bytes(record, 1)) +
                             Versions::bytes(options.keeps_versions() ? 1 : 0);
    return {ring_capacity(options), slot + Ring::bytes(1, false),
            options.prefetch + (options.automatic ? 1u : 0u), batch.bytes(),
            batch.maker_bytes()};
  }

  std::unique_ptr<Drawer> drawer(const BufferOptions& options) {
    return std::make_unique<Drawer>(
        options, ring, HostDraw(store.slots(), batch, options.seed, &versions), pool,
        &versions);
  }

  PutPath put_path() { return {ring, store, 0, &versions}; }

  /// Nothing here works by itself.
  template <class Broken>
  void start(Broken&&) {}
  void stop() {}

  /// Bytes taken by now.
  std::size_t bytes() const {
    const std::size_t slots =
        store.is_borrowed() ? 0 : HostStore::bytes(store.layout(), ring.capacity());
    return slots + Ring::bytes(ring.capacity(), false) + versions.bytes() +
           pool->held() + batch.maker_bytes();
  }

  std::size_t device_bytes() const { return 0; }

  Ring ring;
  Store store;
  Versions versions;
  const BatchLayout batch;
  const std::shared_ptr<BatchPool> pool;

 private:
  static RingShape shape_of(const BufferOptions& options) {
    const std::uint64_t slots = ring_capacity(options);
    if (options.borrowed) return RingShape::over(*options.borrowed, slots);
    return {.capacity = slots};
  }
  static HostStore make_store(const BufferOptions& options) {
    RecordLayout layout(options.fields, options.ragged);
    if (options.borrowed)
      return {std::move(layout), *options.borrowed, options.lengths, 0};
    return {std::move(layout), ring_capacity(options), options.shared};
  }
};

}  // namespace echobuf
