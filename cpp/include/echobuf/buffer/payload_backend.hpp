// The backend of a buffer on the CPU whose records differ in length.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <variant>
#include <vector>

#include "echobuf/buffer/payload_put_path.hpp"
#include "echobuf/buffer/stats.hpp"
#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/batch_pool.hpp"
#include "echobuf/draw/payload_drawer.hpp"
#include "echobuf/draw/rows_counts.hpp"
#include "echobuf/draw/rows_drawer.hpp"
#include "echobuf/draw/rows_layout.hpp"
#include "echobuf/options.hpp"
#include "echobuf/schedule/sweep.hpp"
#include "echobuf/store/payload_claims.hpp"
#include "echobuf/store/payload_store.hpp"
#include "echobuf/store/record.hpp"
#include "echobuf/store/ring.hpp"
#include "echobuf/store/versions.hpp"

namespace echobuf {

/// The most bytes of a segment, and of a record; and the payload ring, which has room
/// for the window, the segment that is being filled, the record that shows that it is
/// full, and, from `wrap_from` on, the end of one that does not wrap around.
class PayloadMeasure {
 public:
  explicit PayloadMeasure(const BufferOptions& options) {
    const Sweep sweep = make_sweep(options, options.epoch);
    const std::uint64_t segments =
        std::visit([](const auto& s) { return s.schedule().segments(); }, sweep);
    const bool fractional = !options.automatic && options.factor.den != 1;
    const LengthOptions& lengths = options.lengths;
    if (lengths.payload_bytes > LengthOptions::kMostBytes) throw std::bad_alloc();
    share = lengths.share(segments);
    most = lengths.most_bytes(segments);
    const std::uint64_t records = ring_capacity(options);
    const std::uint64_t window =
        lengths.payload_bytes > 0
            ? lengths.payload_bytes + share + (fractional ? share / 2 : 0)
            : size_product(records, most);
    const std::uint64_t examples = std::max<std::uint64_t>(lengths.examples, 1);
    size = PayloadSize::around(window, most, records,
                               size_product(lengths.fields.size(), examples), edge);
    // As many units as a record takes at most: see PayloadClaims.
    wrap_from = size.units - (most + edge) / size.unit;
  }

  std::uint64_t share;  // LengthOptions::kNoLimit: none
  std::uint64_t most;
  std::uint64_t edge;  // bytes of a record at most that are no rows
  PayloadSize size{0, 0};
  std::uint64_t wrap_from;  // units
};

/// Says how full the payload ring is, and what is known of the rows.
inline void describe_payload(BufferStats& stats, const PayloadClaims& claims,
                             const PayloadMeasure& measure, const RowsCounts& counts,
                             std::size_t fields) {
  stats.payload_bytes = claims.used() * measure.size.unit;
  stats.payload_capacity = measure.size.bytes();
  stats.mean_rows = counts.mean_rows() / static_cast<double>(fields);
  stats.padding_share = counts.padding_share();
}

/// The layout of the slots, which have no bytes of the fields of any length.
inline RecordLayout record_of(const BufferOptions& options) {
  std::vector<FieldShape> shapes = options.fields;
  for (const RaggedField& field : options.lengths.fields)
    shapes[field.field] = {0, static_cast<std::size_t>(options.lengths.examples)};
  return {shapes, options.ragged};
}

/// `DrawerOf`: a PayloadDrawer, or a RowsDrawer for rows that are packed.
template <class DrawerOf>
struct BasicPayloadBackend {
  using Ring = PayloadRing;
  using Store = PayloadStore;
  using Drawer = DrawerOf;
  using PutPath = PayloadPutPath<Ring, Store>;

  static constexpr bool kUploads = false;

  /// Returns the options that this backend follows.
  static BufferOptions accept(const BufferOptions& options) {
    return options.drawn_when_asked();
  }

  /// Throws std::bad_alloc.
  explicit BasicPayloadBackend(const BufferOptions& options)
      : measure(options),
        examples_(options.lengths.examples),
        ring(make_ring(options, measure)),
        store(make_store(options, measure)),
        versions(options.keeps_versions() ? ring.capacity() : 0),
        batch(store.layout(), options.leaves, options.batch_size),
        pool(std::make_shared<BatchPool>(batch_bytes(options, measure, batch),
                                         options.idle)) {}

  static BufferNeeds needs(const BufferOptions& options) {
    const PayloadMeasure measure(options);
    const RecordLayout record = record_of(options);
    const BatchLayout batch(record, options.leaves, options.batch_size);
    const std::size_t fields = options.lengths.fields.size();
    const std::size_t slot =
        (options.borrowed
             ? RowsTable::bytes(1, fields)
             : PayloadStore::bytes(record, 1, fields, options.lengths.examples)) +
        Versions::bytes(options.keeps_versions() ? 1 : 0);
    // More than those made ahead: of records that are set apart for a batch, or of rows
    // that are being packed.
    const std::uint64_t begun =
        options.lengths.pack_to > 0 ? RowsDrawer::most_begun(options.batch_size) : 1;
    return {ring_capacity(options), slot + Ring::bytes(1), options.prefetch + begun,
            batch_bytes(options, measure, batch),
            batch.maker_bytes() + (options.borrowed ? 0 : measure.size.bytes())};
  }

  std::unique_ptr<Drawer> drawer(const BufferOptions& options) {
    return std::make_unique<Drawer>(options, ring, store, batch, pool, measure.share,
                                    measure.most, counts, versions);
  }

  PutPath put_path() { return {ring, store, measure.most, &versions}; }

  /// Nothing here works by itself.
  template <class Broken>
  void start(Broken&&) {}
  void stop() {}

  /// Bytes taken by now, without what no record of those put so far comes to.
  std::size_t bytes() const {
    const std::size_t fields = store.fields().size();
    const std::size_t window =
        store.is_borrowed()
            ? RowsTable::bytes(ring.capacity(), fields)
            : PayloadStore::bytes(store.layout(), ring.capacity(), fields, examples_) +
                  store.payload_bytes(measure.wrap_from);
    return window + Ring::bytes(ring.capacity()) + versions.bytes() + pool->held() +
           batch.maker_bytes();
  }

  std::size_t device_bytes() const { return 0; }

  /// What is known of the rows beside that.
  void describe(BufferStats& stats) {
    describe_payload(stats, ring.claims(), measure, counts, store.fields().size());
    if (store.is_borrowed()) stats.payload_bytes = stats.payload_capacity = 0;
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
  static Ring make_ring(const BufferOptions& options, const PayloadMeasure& measure) {
    const std::uint64_t records = ring_capacity(options);
    if (options.borrowed) return {records, *options.borrowed};
    return {records, measure.size.units, 0, 0, nullptr, measure.wrap_from};
  }
  static Store make_store(const BufferOptions& options, const PayloadMeasure& measure) {
    const std::vector<RaggedField>& fields = options.lengths.fields;
    if (options.borrowed)
      return {record_of(options), *options.borrowed, options.lengths, measure.most};
    return {record_of(options), ring_capacity(options), measure.size, fields,
            options.lengths.examples};
  }

  /// Of a batch as large as they are on average, twice: batches differ, but for those
  /// of rows of one length.
  static std::size_t batch_bytes(const BufferOptions& options,
                                 const PayloadMeasure& measure,
                                 const BatchLayout& batch) {
    const LengthOptions& lengths = options.lengths;
    if (lengths.pack_to > 0)
      return RowsLayout(batch, lengths, options.batch_size).bytes();
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
};

using PayloadBackend = BasicPayloadBackend<PayloadDrawer>;
using PackingBackend = BasicPayloadBackend<RowsDrawer>;

}  // namespace echobuf
