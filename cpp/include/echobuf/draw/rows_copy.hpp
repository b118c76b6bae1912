// Copying the rows of records that differ in length into a batch: one behind another,
// or each padded to the same length.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "echobuf/draw/copy.hpp"
#include "echobuf/draw/copy_ahead.hpp"
#include "echobuf/draw/gather.hpp"

namespace echobuf {

/// Bytes of one record's rows.
struct RowsSource {
  const std::byte* data;
  std::size_t bytes;
};

/// Copies runs of bytes one after the other, each while the next ones come.
class RowsCopier {
 public:
  /// `stream`: past the caches; finish_streaming() must follow.
  explicit RowsCopier(bool stream)
      : copy_(stream ? streaming_copy_ahead() : cold_copy_ahead()),
        lookahead_(stream ? kStreamingLookahead : kLookahead) {}

  /// Copies source `i` of `count` to `to`.
  void operator()(const RowsSource* sources, std::size_t i, std::size_t count,
                  std::byte* to) const {
    const auto [data, bytes] = sources[i];
    if (i + kAhead < count) prefetch_for_read(sources[i + kAhead].data);
    if (bytes < kLong) {
      if (bytes > 0) std::memcpy(to, data, bytes);
      return;
    }
    const RowsSource& next = sources[i + 1 < count ? i + 1 : i];
    copy_(to, data, bytes,
          Lookahead{data + bytes, next.data, std::min(lookahead_, bytes)});
  }

 private:
  static constexpr std::size_t kLong = 256;  // bytes; a shorter run is there at once
  static constexpr std::size_t kAhead = 8;   // records

  RowCopyAhead copy_;
  std::size_t lookahead_;
};

/// Fills `bytes` with `pattern` again and again; with zeros, if it is empty.
inline void fill_rows(std::byte* to, std::size_t bytes,
                      const std::vector<std::byte>& pattern) {
  if (pattern.empty() || bytes == 0) {
    if (bytes > 0) std::memset(to, 0, bytes);
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

}  // namespace echobuf
