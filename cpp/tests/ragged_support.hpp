// Helpers of tests of records that differ in length: records that show when they are
// torn, and one thread that puts and draws.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "echobuf/buffer/buffer.hpp"
#include "support.hpp"

namespace echobuf::test {

/// A record is a number, of eight bytes, and two fields of any length: tokens of four
/// bytes, and points of three times two.
inline constexpr std::size_t kTokenBytes = 4, kPointBytes = 6;

struct Lengths {
  std::uint64_t tokens, points;

  bool operator==(const Lengths&) const = default;
  std::uint64_t bytes() const { return tokens * kTokenBytes + points * kPointBytes; }
};
using LengthsOf = std::function<Lengths(std::uint64_t id)>;

/// SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators",
/// 2014): made anew for each record, where std::mt19937_64 would first fill 2,496
/// bytes.
class SmallRandom {
 public:
  explicit SmallRandom(std::uint64_t seed) : state_(seed) {}
  std::uint64_t operator()() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
  }

 private:
  std::uint64_t state_;
};

/// Lengths from none to `most` tokens, most of them short, as a function of the number.
inline LengthsOf some_lengths(std::uint64_t most, std::uint64_t seed = 0) {
  return [=](std::uint64_t id) -> Lengths {
    SmallRandom random(id * 77 + seed);
    const std::uint64_t kind = random() % 8;
    if (kind == 0) return {0, 0};
    const std::uint64_t up_to = kind == 1 ? most : most / 4;
    const std::uint64_t tokens = random() % (up_to + 1);
    return {tokens, std::min<std::uint64_t>(random() % 3, (most - tokens) / 2)};
  };
}

inline BufferOptions of_lengths(std::uint64_t window, std::uint64_t batch_size,
                                Ratio factor, std::uint64_t payload_bytes) {
  BufferOptions options = numbered(window, batch_size, factor);
  options.fields = {{8, 1}, {kTokenBytes, 1}, {kPointBytes, 1}};
  options.lengths.fields = {{1, kTokenBytes}, {2, kPointBytes}};
  options.lengths.payload_bytes = payload_bytes;
  return options;
}
inline BufferOptions of_lengths_auto(std::uint64_t window, std::uint64_t batch_size,
                                     std::uint64_t payload_bytes) {
  BufferOptions options = of_lengths(window, batch_size, {1, 1}, payload_bytes);
  options.automatic = true;
  return options;
}

/// The bytes of a field of a record: they begin somewhere in numbers that are random,
/// so that those of another record differ, and are compared and copied as a whole.
inline constexpr std::size_t kMostFieldBytes = 1 << 15;
inline const std::byte* field_bytes(std::uint64_t id, std::uint64_t field) {
  static const std::vector<std::byte> bytes = [] {
    SmallRandom random(0);
    std::vector<std::byte> made(2 * kMostFieldBytes);
    for (std::byte& byte : made) byte = static_cast<std::byte>(random());
    return made;
  }();
  return bytes.data() + ((id * 31 + field * 7 + 1) * 0x9E3779B97F4A7C15u >> 49);
}

/// Records in memory, as put() takes them.
class Records {
 public:
  Records(const Ids& ids, const LengthsOf& lengths) : ids_(ids) {
    offsets_[0].push_back(0);
    offsets_[1].push_back(0);
    for (const std::uint64_t id : ids) {
      const Lengths of = lengths(id);
      add(0, id, of.tokens, kTokenBytes);
      add(1, id, of.points, kPointBytes);
    }
    leaves_[0] = SourceLeaf::of(ids_.data());
    leaves_[1] = {bytes_[0].data(), 0, 0, offsets_[0].data()};
    leaves_[2] = {bytes_[1].data(), 0, 0, offsets_[1].data()};
  }
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  const SourceLeaf* leaves() const { return leaves_; }
  std::uint64_t size() const { return ids_.size(); }

 private:
  void add(std::uint64_t field, std::uint64_t id, std::uint64_t rows,
           std::uint64_t row_bytes) {
    const std::byte* const bytes = field_bytes(id, field);
    ASSERT_LE(rows * row_bytes, kMostFieldBytes);
    bytes_[field].insert(bytes_[field].end(), bytes, bytes + rows * row_bytes);
    offsets_[field].push_back(offsets_[field].back() + static_cast<std::int64_t>(rows));
  }

  Ids ids_;
  std::vector<std::byte> bytes_[2];
  std::vector<std::int64_t> offsets_[2];
  SourceLeaf leaves_[3] = {};
};

/// Looks at every byte of a batch, and returns the numbers of its records.
inline Ids read_batch(const Batch& batch, const BufferOptions& options,
                      const LengthsOf& lengths) {
  Ids ids(batch.count);
  const std::byte* const block = batch.block.data();
  if (batch.count > 0)
    std::memcpy(ids.data(), block + batch.places[0].values, batch.count * 8);
  const bool packed = options.lengths.form == LengthOptions::Form::kPacked;
  for (std::uint64_t f = 0; f < 2; ++f) {
    const RaggedField& field = options.lengths.fields[f];
    const LeafPlace& place = batch.places[f + 1];
    const std::byte* values = block + place.values;
    std::vector<std::int64_t> index(batch.count + (packed ? 1 : 0));
    if (!index.empty())
      std::memcpy(index.data(), block + place.index, index.size() * 8);
    const auto expect_padding = [&](const std::byte* from, const std::byte* end) {
      const std::vector<std::byte> pad =
          field.pad.empty() ? std::vector<std::byte>{std::byte{0}} : field.pad;
      // The first value, and then each byte is that of one value before.
      const std::size_t size = static_cast<std::size_t>(end - from), one = pad.size();
      if (size == 0) return;
      ASSERT_EQ(std::memcmp(from, pad.data(), std::min(size, one)), 0);
      ASSERT_TRUE(size <= one || std::memcmp(from, from + one, size - one) == 0);
    };
    EXPECT_EQ(place.rows % options.lengths.pad_to, 0u);
    std::uint64_t all = 0, longest = 0;
    if (packed) {
      EXPECT_EQ(index[0], 0);
    }
    for (std::uint64_t i = 0; i < batch.count; ++i) {
      const Lengths of = lengths(ids[i]);
      const std::uint64_t rows = f == 0 ? of.tokens : of.points;
      const std::byte* record =
          values + (packed ? all : i * place.rows) * field.row_bytes;
      if (rows > 0 &&
          std::memcmp(record, field_bytes(ids[i], f), rows * field.row_bytes) != 0) {
        ADD_FAILURE() << "record " << ids[i] << " is torn";
        return ids;
      }
      all += rows;
      longest = std::max(longest, rows);
      EXPECT_EQ(static_cast<std::uint64_t>(index[i + (packed ? 1 : 0)]),
                packed ? all : rows);
      if (!packed)
        expect_padding(record + rows * field.row_bytes,
                       record + place.rows * field.row_bytes);
    }
    EXPECT_EQ(place.rows, round_up(packed ? all : longest, options.lengths.pad_to));
    if (packed)
      expect_padding(values + all * field.row_bytes,
                     values + place.rows * field.row_bytes);
  }
  return ids;
}

// ---- one thread alone

/// Puts as many of first ... end-1 as fit, and says where the rest begins.
inline std::uint64_t put_what_fits(Buffer& buffer, std::uint64_t first,
                                   std::uint64_t end, const LengthsOf& lengths) {
  const Records records(range(first, std::min(end, first + 97)), lengths);
  std::uint64_t done = 0;
  buffer.put(buffer.term(), records.leaves(), records.size(), 0, done, kAtOnce,
             nullptr);
  return first + done;
}

/// Serves first ... n-1 on this thread alone, up to `most` batches.
inline Epochs serve(Buffer& buffer, std::uint64_t n, const LengthsOf& lengths,
                    std::uint64_t first = 0, std::size_t most = ~std::size_t{0}) {
  Epochs got;
  const Records records(range(first, n), lengths);
  std::uint64_t done = 0;
  while (got.batches.size() < most) {
    const std::uint64_t before = done;
    buffer.put(buffer.term(), records.leaves(), std::min(records.size(), done + 97), 0,
               done, kAtOnce, nullptr);
    if (done == records.size()) buffer.close();
    const bool wait = buffer.prefetches() && done == records.size();
    bool drew = false;
    Status status = Status::kOk;
    Batch batch;
    const auto next = [&] {
      if (!wait) return buffer.next(batch, kAtOnce);
      return promptly([&](Deadline deadline) { return buffer.next(batch, deadline); });
    };
    while (got.batches.size() < most && (status = next()) == Status::kOk) {
      got.batches.push_back(read_batch(batch, buffer.options(), lengths));
      got.after.push_back(buffer.checkpoint());
      drew = true;
    }
    if (status == Status::kFinished) return got;
    if (status != Status::kTimeout && status != Status::kOk) {
      ADD_FAILURE() << "ended with status " << static_cast<int>(status);
      return got;
    }
    if (!drew && done == before && !buffer.prefetches()) {
      ADD_FAILURE() << "producer and consumer wait for each other at " << first + done;
      return got;
    }
  }
  return got;
}

inline std::string name_of_lengths(const BufferOptions& options) {
  const LengthOptions& lengths = options.lengths;
  return (options.automatic ? "auto, " : "") + name_of(options) + " payload " +
         std::to_string(lengths.payload_bytes) + " max_rows " +
         std::to_string(lengths.max_rows) + " pad_to " +
         std::to_string(lengths.pad_to) +
         (lengths.form == LengthOptions::Form::kPadded ? " padded" : " packed") +
         (options.drop_last ? " drop_last" : "");
}

}  // namespace echobuf::test
