// Examples whose every byte follows from their number, so that a torn one shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "plan.hpp"

namespace echobuf::soak {

/// Numbers are an epoch and an index. Where the first field is shorter than eight bytes
/// only the low bytes of the index are to be seen, and examples are counted by those.
class Examples {
 public:
  explicit Examples(const BufferOptions& options)
      : options_(options),
        number_bytes_(bytes_of_number(options)),
        mask_(number_bytes_ == 8 ? ~std::uint64_t{0}
                                 : (std::uint64_t{1} << 8 * number_bytes_) - 1) {}

  std::uint64_t number(std::uint64_t epoch, std::uint64_t index) const {
    return (epoch << 32 | index) & mask_;
  }
  /// The epoch that a number tells, where it does.
  bool tells_epoch() const { return number_bytes_ == 8; }
  static std::uint64_t epoch_of(std::uint64_t number) { return number >> 32; }
  static std::uint64_t index_of(std::uint64_t number) { return number & 0xFFFFFFFF; }

  std::size_t fields() const { return options_.fields.size(); }
  /// Rows of a record: of a whole batch, its examples.
  std::size_t rows(std::uint64_t number) const {
    if (!options_.lengths.in_batches()) return options_.fields[0].rows;
    return 1 + mix(number) % options_.fields[0].rows;
  }
  std::size_t bytes(std::size_t field, std::uint64_t number) const {
    return options_.fields[field].row_bytes * rows(number);
  }
  /// The most bytes that a field of an example has.
  std::size_t room(std::size_t field) const {
    return options_.fields[field].row_bytes * options_.fields[field].rows;
  }

  void write(std::byte* to, std::size_t field, std::uint64_t number) const {
    const std::size_t bytes = this->bytes(field, number);
    for (std::size_t at = 0; at < bytes; at += 8) {
      const std::uint64_t word = word_at(field, number, at);
      std::memcpy(to + at, &word, std::min<std::size_t>(8, bytes - at));
    }
  }

  /// Returns whether a field is all there.
  bool whole(const std::byte* from, std::size_t field, std::uint64_t number) const {
    const std::size_t bytes = this->bytes(field, number);
    for (std::size_t at = 0; at < bytes; at += 8) {
      const std::uint64_t word = word_at(field, number, at);
      if (std::memcmp(from + at, &word, std::min<std::size_t>(8, bytes - at)) != 0)
        return false;
    }
    return true;
  }

  std::uint64_t read_number(const std::byte* first_field) const {
    std::uint64_t number = 0;
    std::memcpy(&number, first_field, number_bytes_);  // little endian
    return number;
  }

 private:
  static std::uint64_t mix(std::uint64_t x) {
    x *= 0x9E3779B97F4A7C15u;
    return x ^ x >> 29;
  }
  std::uint64_t word_at(std::size_t field, std::uint64_t number, std::size_t at) const {
    if (field == 0 && at == 0) {
      // Beyond the number there may be more of the first row.
      return number;
    }
    return mix(number + (at + 1) * 0x100000001B3u + field);
  }

  const BufferOptions& options_;
  const std::size_t number_bytes_;
  const std::uint64_t mask_;
};

/// A run of examples as a producer holds it, each leaf with gaps between its rows.
class Piece {
 public:
  Piece(const Examples& examples, const std::vector<std::uint64_t>& numbers,
        std::size_t gap)
      : memory_(examples.fields()) {
    for (std::size_t f = 0; f < memory_.size(); ++f) {
      const std::size_t stride = examples.room(f) + gap;
      memory_[f].resize(stride * numbers.size() + 1);
      for (std::size_t i = 0; i < numbers.size(); ++i)
        examples.write(memory_[f].data() + i * stride, f, numbers[i]);
      leaves_.push_back({memory_[f].data(), static_cast<std::ptrdiff_t>(stride)});
    }
  }
  const SourceLeaf* leaves() const { return leaves_.data(); }

 private:
  std::vector<std::vector<std::byte>> memory_;
  std::vector<SourceLeaf> leaves_;
};

}  // namespace echobuf::soak
