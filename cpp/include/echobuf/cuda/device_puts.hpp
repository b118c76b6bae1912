// Puts of records that lie on the device: they are copied there, in the order of the
// producer's stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "echobuf/cuda/handles.hpp"
#include "echobuf/cuda/put_leaf.hpp"
#include "echobuf/cuda/scatter_launch.hpp"
#include "echobuf/cuda/staged_ring.hpp"
#include "echobuf/cuda/staging.hpp"
#include "echobuf/cuda/uploader.hpp"
#include "echobuf/store/claims.hpp"
#include "echobuf/store/rows_table.hpp"
#include "echobuf/store/source_leaf.hpp"

namespace echobuf::cuda {

/// What one call puts. All must outlive it.
struct DevicePut {
  const SourceLeaf* leaves;
  const PutLeaf* places;
  std::size_t rows;                  // of each example, if that is a whole batch
  StreamHandle stream;               // on which the leaves are valid, or
  std::vector<StreamHandle> others;  // on one of these
  bool staged;                       // some leaves lie on the host
};

/// Claims positions as producers on the host do, and copies records with a kernel that
/// is launched on the producer's stream, behind the draws of those that had their
/// slots. The kernel reads what lies on the host from staging.
class DevicePuts {
 public:
  DevicePuts(SharedContext context, StagedRing& ring, Staging& staging,
             const Staging::Window& window, FunctionHandle kernel, Uploader& uploader)
      : context_(std::move(context)),
        ring_(ring),
        staging_(staging),
        window_(window),
        kernel_(kernel),
        uploader_(uploader) {}

  /// Returns whether so many copies are on their way that a launch may wait for room in
  /// the queue of its stream, which holds a thousand or so.
  bool are_behind() const { return uploader_.puts_on_way() >= kMostOnWay; }

  /// One call, for PutPath::put_by(). While it lives the device's context is the
  /// thread's.
  class Write {
   public:
    /// Throws Error, and nothing has happened.
    Write(DevicePuts& puts, const DevicePut& put)
        : puts_(puts), put_(put), scope_(*puts.context_) {
      is_captured_ = puts.uploader_.capture_of(put.stream).has_value();
      for (const StreamHandle other : put.others)
        is_captured_ = is_captured_ || puts.uploader_.capture_of(other);
    }

    /// Returns whether a stream is being captured: then nothing may be put.
    bool is_captured() const { return is_captured_; }

    /// Claims positions for up to `want` examples from `from` on, and enqueues their
    /// copy. `least`: set to the units of the first, if it has any.
    Claims::Claim operator()(std::uint64_t from, std::uint64_t want, std::uint64_t term,
                             std::uint64_t& least) {
      const Claims::Claim claim = puts_.staging_.table()
                                      ? write_rows(from, want, term, least)
                                      : write_slots(from, want, term);
      if (claim.count > 0) end_ = claim.first + claim.count;
      return claim;
    }
    bool has_room(std::uint64_t units) const {
      return puts_.ring_.has_room_on_device(units, put_.staged);
    }
    EventCount& room() const { return puts_.ring_.room_on_device(); }

    /// The position that follows the last one claimed; 0: none was.
    std::uint64_t end() const { return end_; }
    /// The driver's refusal of a copy, after which the buffer is lost.
    const std::optional<Error>& error() const { return error_; }

   private:
    static constexpr std::uint64_t kRowsChunk = 64;         // records
    static constexpr std::uint64_t kMostRecords = 1 << 30;  // of a launch

    Claims::Claim write_slots(std::uint64_t from, std::uint64_t want,
                              std::uint64_t term) {
      const Claims::Claim claim = puts_.ring_.claim_on_device(
          std::min(want, kMostRecords), term, nullptr, put_.staged);
      if (claim.count > 0) enqueue(claim, [&] { copy_slots(claim, from); });
      return claim;
    }

    void copy_slots(const Claims::Claim& claim, std::uint64_t from) {
      const Staging& staging = puts_.staging_;
      for (std::uint64_t at = 0; at < claim.count;) {
        const std::uint64_t position = claim.first + at;
        std::uint64_t some = claim.count - at;
        if (put_.staged)  // in one piece there
          some = std::min(some, staging.slots() - position % staging.slots());
        ScatterLaunch launch = launch_to(
            {puts_.window_.slots, staging.layout().stride(), puts_.window_.capacity,
             position % puts_.window_.capacity, some});
        for (std::size_t f = 0; f < staging.layout().fields().size(); ++f)
          add_field(launch, f, position, from + at, some,
                    staging.layout().fields()[f].offset);
        launch.flush();
        at += some;
      }
      puts_.staging_.note_length(claim.first, claim.count, put_.rows);
    }

    /// Adds a field of `count` examples from `from` on, which goes to byte `to`.
    void add_field(ScatterLaunch& launch, std::size_t f, std::uint64_t position,
                   std::uint64_t from, std::uint64_t count, std::uint64_t to) const {
      Staging& staging = puts_.staging_;
      const SourceLeaf& leaf = put_.leaves[f];
      const std::size_t bytes = staging.layout().bytes(f, put_.rows);
      if (bytes == 0) return;
      if (put_.places[f].on_device)
        return launch.add(address(leaf, from), leaf.stride, to, bytes,
                          put_.places[f].items);
      for (std::uint64_t i = 0; i < count; ++i)
        staging.write_field(position + i, f, leaf, from + i, bytes);
      const std::byte* const first =
          staging.at(position) + staging.layout().fields()[f].offset;
      launch.add(reinterpret_cast<Address>(first),
                 static_cast<std::int64_t>(staging.layout().stride()), to, bytes, {});
    }

    /// The same of examples with rows.
    Claims::Claim write_rows(std::uint64_t from, std::uint64_t want, std::uint64_t term,
                             std::uint64_t& least) {
      std::uint64_t units[kRowsChunk];
      want = std::min(want, kRowsChunk);
      const RowsTable& table = *puts_.staging_.table();
      table.units_of(put_.leaves, from, want, put_.rows, units);
      least = units[0];
      const Claims::Claim claim =
          puts_.ring_.claim_on_device(want, term, units, put_.staged);
      if (claim.count > 0) enqueue(claim, [&] { copy_rows(claim, from, units); });
      return claim;
    }

    void copy_rows(const Claims::Claim& claim, std::uint64_t from,
                   const std::uint64_t* units) {
      Claims& claims = puts_.ring_.claims();
      Claims::Cursor next = claims.cursor(claim.place);
      ScatterLaunch launch = launch_to(ScatterSlots::anywhere());
      for (std::uint64_t i = 0; i < claim.count; ++i) {
        const std::uint64_t position = claim.first + i;
        const std::uint64_t slot = puts_.ring_.slot(position);
        const Claims::Cursor start = claims.take(next, units[i]);
        copy_record(launch, {position, slot, start}, from + i);
        claims.end_in(slot, next.place);
      }
      launch.flush();
    }

    void copy_record(ScatterLaunch& launch, const RecordPlace& at,
                     std::uint64_t index) {
      const RecordLayout& layout = puts_.staging_.layout();
      const Address slot = puts_.window_.slots + at.slot * layout.stride();
      for (std::size_t f = 0; f < layout.fields().size(); ++f)
        add_field(launch, f, at.position, index, 1, slot + layout.fields()[f].offset);
      puts_.staging_.place(
          at, put_.leaves, index, put_.rows,
          [&](const RaggedField& field, std::uint64_t to, std::uint64_t first,
              std::uint64_t count) { add_run(launch, at, field, to, first, count); });
    }

    /// Adds a run of rows, which goes to byte `to` of the payload.
    void add_run(ScatterLaunch& launch, const RecordPlace& at, const RaggedField& field,
                 std::uint64_t to, std::uint64_t first, std::uint64_t count) const {
      const SourceLeaf& leaf = put_.leaves[field.field];
      const PutLeaf& place = put_.places[field.field];
      const std::uint64_t bytes = count * field.row_bytes;
      if (bytes == 0) return;
      const Address payload = puts_.window_.payload;
      if (!place.on_device) {
        puts_.staging_.stage(
            at, to, leaf.data + first * field.row_bytes, bytes,
            [&](const std::byte* from, std::uint64_t offset, std::uint64_t some) {
              launch.add(reinterpret_cast<Address>(from), 0, payload + offset, some,
                         {});
            });
        return;
      }
      const PutRows& rows = place.rows_at(first);
      FieldItems items = rows.items;
      items.axes.insert(items.axes.begin(), {count, rows.step});
      const auto skipped = static_cast<std::int64_t>(first - rows.first) * rows.step;
      launch.add(rows.from + static_cast<Address>(skipped), 0, payload + to, bytes,
                 items);
    }

    static Address address(const SourceLeaf& leaf, std::uint64_t example) {
      const auto skipped = static_cast<std::int64_t>(example) * leaf.stride;
      return reinterpret_cast<Address>(leaf.data) + static_cast<Address>(skipped);
    }

    ScatterLaunch launch_to(const ScatterSlots& to) const {
      return {puts_.context_->driver(), puts_.kernel_,
              2 * puts_.context_->multiprocessors(), to, put_.stream};
    }

    /// Has `copy` enqueue the copy of what was claimed, between what it waits for and
    /// what will wait for it. Where the driver refuses, the positions hold nothing, and
    /// no draw will come to them.
    template <class Copy>
    void enqueue(const Claims::Claim& claim, const Copy& copy) try {
      const Driver& driver = puts_.context_->driver();
      const std::uint64_t end = claim.first + claim.count;
      const std::uint64_t freed = puts_.ring_.freed();
      std::unique_ptr<Event> ready = puts_.uploader_.take_event();
      if (end_ == 0) {
        for (const StreamHandle other : put_.others) {
          driver.event_record(ready->get(), other);
          driver.stream_wait_event(put_.stream, ready->get(), 0u);
        }
      }
      const bool waits = puts_.uploader_.must_wait_for_draws(end, freed);
      if (waits) puts_.uploader_.wait_for_draws(put_.stream);
      copy();
      driver.event_record(ready->get(), put_.stream);
      for (const StreamHandle other : put_.others)
        driver.stream_wait_event(other, ready->get(), 0u);
      puts_.uploader_.note_put(claim.first, end, std::move(ready), waits ? freed : 0);
    } catch (const Error& error) {
      lose(error);
    } catch (const std::bad_alloc&) {
      lose(Error(kErrorOutOfMemory, "no host memory for a put"));
    }

    void lose(const Error& error) {
      puts_.uploader_.lose_draw(put_.stream, error);
      error_ = error;
    }

    DevicePuts& puts_;
    const DevicePut& put_;
    const DeviceContext::CurrentScope scope_;
    bool is_captured_ = false;
    std::uint64_t end_ = 0;
    std::optional<Error> error_;
  };

 private:
  static constexpr std::size_t kMostOnWay = 64;

  const SharedContext context_;
  StagedRing& ring_;
  Staging& staging_;
  const Staging::Window window_;
  const FunctionHandle kernel_;
  Uploader& uploader_;
};

}  // namespace echobuf::cuda
