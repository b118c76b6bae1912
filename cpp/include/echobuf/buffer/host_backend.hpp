// The backend of a buffer on the CPU: the ring's slots are the window, and where
// records have rows the payload beside them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "echobuf/buffer/payload_measure.hpp"
#include "echobuf/buffer/put_path.hpp"
#include "echobuf/buffer/stats.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/batch_pool.hpp"
#include "echobuf/draw/drawer.hpp"
#include "echobuf/draw/host_drawer.hpp"
#include "echobuf/draw/host_packing.hpp"
#include "echobuf/draw/rows_counts.hpp"
#include "echobuf/draw/rows_layout.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/store/host_store.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/store/ring.hpp"
#include "echobuf/store/versions.hpp"

namespace echobuf {

/// Bytes of a batch. Where records have rows, of one as large as batches are on
/// average, twice: they differ, but for those of rows of one length.
inline std::size_t batch_bytes(const BufferOptions& options,
                               const PayloadMeasure& measure,
                               const BatchLayout& batch) {
  const LengthOptions& lengths = options.lengths;
  if (!lengths.any()) return batch.bytes();
  if (lengths.packs()) return RowsLayout(batch, lengths, options.batch_size).bytes();
  const std::size_t examples = options.most_examples();
  std::size_t row = 0;
  for (const RaggedField& field : lengths.fields) row += field.row_bytes;
  std::size_t made = 0;  // of a row of all leaves, but for windows
  std::size_t windows = 0;
  std::size_t leaves = 0;
  for (const BatchLayout::Leaf& leaf : batch.all())
    for (const RaggedField& field : lengths.fields) {
      if (field.field != leaf.field) continue;
      ++leaves;
      if (leaf.rows && leaf.rows->windowed())
        windows += round_up(size_product(examples, leaf.rows->bytes), kLeafAlignment);
      else
        made += leaf.rows ? leaf.rows->bytes : field.row_bytes;
    }
  std::size_t rows = measure.most;
  if (lengths.max_rows > 0)
    rows = std::max(rows, size_product(lengths.max_rows, row));
  else if (lengths.payload_bytes > 0)
    rows = std::max<std::size_t>(
        rows, 2 * options.batch_size * (lengths.payload_bytes / options.window));
  else
    rows = size_product(rows, options.batch_size);
  const std::size_t index = (examples + 1) * sizeof(std::int64_t);
  if (made != row) rows = size_product(rows / row + 1, made);
  return batch.bytes() + windows + leaves * round_up(index, kLeafAlignment) +
         round_up(rows, kLeafAlignment);
}

struct HostBackend {
  using Ring = echobuf::Ring;
  using Store = HostStore;
  using PutPath = echobuf::PutPath<Ring, Store>;

  static constexpr bool kUploads = false;

  /// Returns the options that this backend follows.
  static BufferOptions accept(const BufferOptions& options) {
    return options.drawn_when_asked();
  }

  /// Throws std::bad_alloc.
  explicit HostBackend(const BufferOptions& options)
      : measure(options),
        examples_(options.lengths.examples),
        ring(shape_of(options, measure)),
        store(make_store(options, measure)),
        versions(options.keeps_versions() ? ring.capacity() : 0),
        batch(store.layout(), options.leaves, options.batch_size),
        pool(std::make_shared<BatchPool>(batch_bytes(options, measure, batch),
                                         options.idle)) {}

  static BufferNeeds needs(const BufferOptions& options) {
    const PayloadMeasure measure(options);
    const RecordLayout record = record_of(options);
    const BatchLayout batch(record, options.leaves, options.batch_size);
    const LengthOptions& lengths = options.lengths;
    const std::size_t slot = store_bytes(options.borrowed != nullptr, record, 1,
                                         lengths.fields.size(), lengths.examples) +
                             Ring::bytes(1, lengths.any()) +
                             Versions::bytes(options.keeps_versions() ? 1 : 0);
    // More than those made ahead: one that a wait has cut in two, or of rows that are
    // being packed.
    const std::uint64_t begun = lengths.packs()
                                    ? HostPacking::most_begun(options.batch_size)
                                    : (options.automatic || lengths.any() ? 1 : 0);
    return {ring_capacity(options), slot, options.prefetch + begun,
            batch_bytes(options, measure, batch),
            batch.maker_bytes() + (options.borrowed ? 0 : measure.size.bytes())};
  }

  std::unique_ptr<Drawer> drawer(const BufferOptions& options) {
    const WindowRows rows{store.table(), measure.share, measure.most, &counts};
    if (options.lengths.packs())
      return std::make_unique<HostPacking>(options, ring, store, batch, pool, rows);
    return std::make_unique<HostDrawer>(options, ring, store, batch, pool, rows,
                                        &versions);
  }

  PutPath put_path() { return {ring, store, measure.most, &versions}; }

  /// Nothing here works by itself.
  template <class Broken>
  void start(Broken&&) {}
  void stop() { pool->close(); }

  /// Bytes taken by now, without what no record of those put so far comes to.
  std::size_t bytes() const {
    const std::size_t fields = store.table() ? store.table()->fields().size() : 0;
    const std::size_t window = store_bytes(store.is_borrowed(), store.layout(),
                                           ring.capacity(), fields, examples_);
    const std::size_t payload = store.payload() && !store.is_borrowed()
                                    ? store.payload()->used_bytes(measure.wrap_from)
                                    : 0;
    return window + payload + Ring::bytes(ring.capacity(), fields > 0) +
           versions.bytes() + pool->held() + batch.maker_bytes();
  }

  std::size_t device_bytes() const { return 0; }

  /// What is known of the rows beside that.
  void describe(BufferStats& stats) {
    if (const RowsTable* const table = store.table())
      describe_payload(stats, ring.claims(), measure, counts, table->fields().size());
  }

  const PayloadMeasure measure;

 private:
  const std::uint64_t examples_;

 public:
  Ring ring;
  Store store;
  Versions versions;
  const BatchLayout batch;  // of the leaves that are no field of any length
  const std::shared_ptr<BatchPool> pool;
  RowsCounts counts;

 private:
  /// Of `slots` slots and, if there are `fields` of rows, of the table of these.
  static std::size_t store_bytes(bool is_borrowed, const RecordLayout& record,
                                 std::uint64_t slots, std::size_t fields,
                                 std::uint64_t examples) {
    if (!is_borrowed) return HostStore::bytes(record, slots, fields, examples);
    return fields > 0 ? RowsTable::bytes(slots, fields) : 0;
  }

  static RingShape shape_of(const BufferOptions& options,
                            const PayloadMeasure& measure) {
    const std::uint64_t records = ring_capacity(options);
    if (options.borrowed) return RingShape::over(*options.borrowed, records);
    return {.capacity = records,
            .units = measure.size.units,
            .wrap_from = measure.wrap_from};
  }

  static HostStore make_store(const BufferOptions& options,
                              const PayloadMeasure& measure) {
    const LengthOptions& lengths = options.lengths;
    RecordLayout record = record_of(options);
    const std::uint64_t slots = ring_capacity(options);
    if (options.borrowed)
      return {std::move(record), *options.borrowed, lengths, measure.most};
    if (!lengths.any()) return {std::move(record), slots, options.shared};
    return {std::move(record), slots, measure.size, lengths.fields, lengths.examples};
  }
};

}  // namespace echobuf
