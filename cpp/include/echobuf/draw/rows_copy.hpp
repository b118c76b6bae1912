// Copying the rows of records that differ in length into a batch: one behind another,
// or each padded to the same length.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "echobuf/cpu.hpp"
#include "echobuf/draw/batch.hpp"
#include "echobuf/length_options.hpp"
#include "echobuf/sizes.hpp"
#include "echobuf/store/copy.hpp"

namespace echobuf {

/// Bytes of one record's rows.
struct RowsSource {
  const std::byte* data;
  std::size_t bytes;
};

/// The bytes of runs that are read one after the other, asked for ahead of the reads:
/// the hardware finds each run anew, and follows it no further than a page.
class RowsAhead {
 public:
  RowsAhead(const RowsSource* sources, std::size_t count)
      : next_(sources), end_(sources + count) {}

  /// Asks for so many bytes more, of as many runs as have them.
  void ask(std::size_t bytes) {
    for (;;) {
      if (left_ > bytes) {
        prefetch(bytes);
        return;
      }
      bytes -= left_;
      prefetch(left_);
      if (next_ == end_) return;
      at_ = next_->data;
      left_ = next_->bytes;
      ++next_;
    }
  }

  /// The same of two lines, which is quick in the middle of a run.
  void ask_two_lines() {
    if (left_ < 128) {
      ask(128);
      return;
    }
    prefetch_two_lines(at_);
    at_ += 128;
    left_ -= 128;
  }

 private:
  void prefetch(std::size_t bytes) {
    for (std::size_t i = 0; i < bytes; i += 128) prefetch_two_lines(at_ + i);
    at_ += bytes;
    left_ -= bytes;
  }

  const RowsSource* next_;
  const RowsSource* const end_;
  const std::byte* at_ = nullptr;  // in the run before `next_`
  std::size_t left_ = 0;           // bytes of it
};

namespace detail {

using RunCopy = void (*)(std::byte* to, const std::byte* from, std::size_t bytes,
                         RowsAhead& ahead);

inline void copy_run(std::byte* to, const std::byte* from, std::size_t bytes,
                     RowsAhead& ahead) {
  std::size_t i = 0;
  for (; i + 128 <= bytes; i += 128) {
    ahead.ask_two_lines();
    std::memcpy(to + i, from + i, 128);
  }
  ahead.ask(bytes - i);
  if (i < bytes) std::memcpy(to + i, from + i, bytes - i);
}

#ifdef ECHOBUF_X86

/// `kStream`: past the caches.
template <bool kStream>
__attribute__((target("avx2"))) inline void copy_run_avx2(std::byte* to,
                                                          const std::byte* from,
                                                          std::size_t bytes,
                                                          RowsAhead& ahead) {
  std::size_t i = kStream ? copy_head(to, from, bytes) : 0;
  ahead.ask(i);
  for (; i + 128 <= bytes; i += 128) {
    ahead.ask_two_lines();
    copy_two_lines_avx2<kStream>(to + i, from + i);
  }
  ahead.ask(bytes - i);
  if (i < bytes) std::memcpy(to + i, from + i, bytes - i);
}

#endif

inline RunCopy run_copy(bool stream) {
#ifdef ECHOBUF_X86
  if (cpu_level() >= CpuLevel::kAvx2)
    return stream ? copy_run_avx2<true> : copy_run_avx2<false>;
#endif
  static_cast<void>(stream);
  return copy_run;
}

}  // namespace detail

/// Copies runs of bytes one after the other, each while the next ones come.
class RowsCopier {
 public:
  /// `stream`: past the caches; finish_streaming() must follow.
  RowsCopier(const RowsSource* sources, std::size_t count, bool stream)
      : source_(sources), ahead_(sources, count), copy_(detail::run_copy(stream)) {
    ahead_.ask(stream ? kStreamingAhead : kAhead);
  }

  /// Copies the next run to `to`.
  void operator()(std::byte* to) {
    if (source_->bytes > 0) copy_(to, source_->data, source_->bytes, ahead_);
    ++source_;
  }

 private:
  // Bytes. Half of it costs a tenth of the speed, and with streaming stores a third.
  static constexpr std::size_t kAhead = std::size_t{8} << 10;
  static constexpr std::size_t kStreamingAhead = std::size_t{16} << 10;

  const RowsSource* source_;
  RowsAhead ahead_;
  detail::RunCopy copy_;
};

/// Fills `bytes` with `pattern` again and again; with zeros, if it is empty.
inline void fill_rows(std::byte* to, std::size_t bytes,
                      const std::vector<std::byte>& pattern) {
  if (bytes == 0) return;
  if (pattern.empty()) {
    std::memset(to, 0, bytes);
    return;
  }
  std::size_t done = std::min(pattern.size(), bytes);
  std::memcpy(to, pattern.data(), done);
  while (done < bytes) {  // what is there is doubled
    const std::size_t more = std::min(done, bytes - done);
    std::memcpy(to + done, to, more);
    done += more;
  }
}

/// The rows of the examples of a leaf, before they have a place.
struct RowsExtent {
  std::uint64_t examples;
  std::uint64_t all = 0;      // of all examples together
  std::uint64_t longest = 0;  // of one
};

/// Returns the place of a leaf with rows of `row` bytes. `add`: takes bytes and returns
/// their offset.
template <class Add>
LeafPlace place_rows(const RowsExtent& extent, std::size_t row, std::uint64_t pad_to,
                     LengthOptions::Form form, Add&& add) {
  const bool packed = form == LengthOptions::Form::kPacked;
  LeafPlace place{};
  place.rows = round_up(packed ? extent.all : extent.longest, pad_to);
  place.index = add((extent.examples + (packed ? 1 : 0)) * sizeof(std::int64_t));
  place.values =
      add(size_product(size_product(place.rows, row), packed ? 1 : extent.examples));
  return place;
}

/// Returns the offsets, or the lengths, of the leaf at a place.
inline std::int64_t* index_of(const Batch& batch, const LeafPlace& place) {
  return reinterpret_cast<std::int64_t*>(batch.block.data() + place.index);
}

/// Fills the place of a leaf, example after example.
class RowsWriter {
 public:
  /// `row`: bytes of a row; `pad`: one row.
  RowsWriter(const Batch& batch, const LeafPlace& place, std::size_t row,
             LengthOptions::Form form, const std::vector<std::byte>& pad)
      : packed_(form == LengthOptions::Form::kPacked),
        row_(row),
        room_(place.rows * row),
        pad_(pad),
        to_(batch.block.data() + place.values),
        index_(index_of(batch, place)) {
    if (packed_) *index_++ = 0;
  }

  /// The address that the rows of the next example belong at.
  std::byte* next() const { return to_ + at_; }

  /// The rows of an example, so many bytes, were written to next().
  void wrote(std::size_t bytes) {
    if (packed_) {
      at_ += bytes;
    } else {
      fill_rows(next() + bytes, room_ - bytes, pad_);
      at_ += room_;
    }
    *index_++ = static_cast<std::int64_t>((packed_ ? at_ : bytes) / row_);
  }

  /// All examples were written.
  void finish() {
    if (packed_) fill_rows(next(), room_ - at_, pad_);
  }

 private:
  const bool packed_;
  const std::size_t row_;
  const std::size_t room_;  // bytes of all examples; of each, if padded
  const std::vector<std::byte>& pad_;
  std::byte* const to_;
  std::int64_t* index_;
  std::size_t at_ = 0;
};

}  // namespace echobuf
