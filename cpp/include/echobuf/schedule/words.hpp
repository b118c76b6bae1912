#pragma once

#include "echobuf/platform.hpp"
#include "echobuf/schedule/random.hpp"

// The random words of operations: a pure function of (seed, epoch, draw,
// operation), on any processor and in any order.
//
// Specification (tests/transform_reference/ is written from it):
//
//   epoch key  K = words 0 and 1 of Philox4x32-10 of the counter
//              (epoch mod 2^32, epoch div 2^32, 0, 0xB0 * 2^24) under the key `seed`.
//   words      block i of operation `op` at draw d is Philox4x32-10 of the counter
//              (d mod 2^32, d div 2^32 mod 2^16 + op * 2^16, row, i) under K; `row` is
//              0, or the row in the batch where whole batches are echoed. Words are
//              taken in the order of the blocks.
//   element    what an operation needs for element e of an image it takes from block
//              2^31 + e, e = (y * width + x) * channels + c; of frame t of a clip
//              e = ((t * height + y) * width + x) * channels + c. All other words are
//              the same in all frames.
//   uniform    word * 2^-32; of [0, n): word * n div 2^32.
//   choice     RandomApply, RandomChoice: a uniform u of word 0, the alternative whose
//              bounds have low <= u < high. RandomOrder of k: word 0 is the number, of
//              [0, k!), of the permutation where permutations are sorted.
//   normal     the quantile of (word + 1/2) * 2^-32, by PPND7.
//   beta       attempt i takes words 0 and 1 of block 1 + i as u and v; a = alpha.
//              a <= 1 (Joehnk): x = u^(1/a), y = v^(1/a); x / (x + y) if x + y <= 1.
//              a > 1 (Ulrich): U = 2u - 1, S = U^2 + v^2;
//              1/2 + U * v / S * sqrt(1 - S^(2 / (2a - 1))) if 0 < S <= 1.
//              1/2 after 64 attempts that failed.
//   alternate  an operation that alternates takes its words under another key: words 0
//              and 1 of the block of the counter (n mod 2^32, n div 2^32 mod 2^16 +
//              65535 * 2^16, k, 0) under K; its own counters have d = 0. n is the
//              number of the record among the epoch's fresh examples, k half of its
//              uses before, or 0 where all uses share their words. At every second use
//              a word w of a choice that has an opposite becomes 2^32 - 1 - w, and
//              place i of n becomes n - 1 - i.
//
// Sources: M. J. Wichura, "Algorithm AS 241: the percentage points of the normal
// distribution", Applied Statistics 37 (1988), routine PPND7; L. Devroye, "Non-uniform
// random variate generation" (1986), section IX.4.1 for Joehnk's and Ulrich's methods.

namespace echobuf::transform {

/// The fourth counter word of epoch keys; permutations keep to 0xA0 ... 0xA3.
inline constexpr uint32_t kTransformTag = 0xB0;
/// Added to the number of an operation for the partner in a mix.
inline constexpr uint32_t kPartnerOperation = 0x8000;
/// Added to that of one that alternates: two uses of a record share its words, or all.
inline constexpr uint32_t kPairOperation = 0x10000;
inline constexpr uint32_t kRecordOperation = 0x20000;
inline constexpr uint32_t kKeyOperation = 0xFFFF;  // chooses keys, and is no operation

/// True if an operation of this number is another at every second use of a record.
ECHOBUF_HD constexpr bool alternates(uint32_t operation) {
  return operation >= kPairOperation;
}
inline constexpr uint32_t kElementBlocks = 0x80000000u;

ECHOBUF_HD inline Philox4x32Key transform_key(uint64_t seed, uint64_t epoch) {
  const Philox4x32Block counter{{static_cast<uint32_t>(epoch),
                                 static_cast<uint32_t>(epoch >> 32), 0,
                                 kTransformTag << 24}};
  const Philox4x32Block block = philox4x32(counter, philox_key(seed));
  return {{block.word[0], block.word[1]}};
}

/// One draw of an example, as chance depends on it.
struct DrawNumber {
  Philox4x32Key key;           // of the epoch
  uint64_t draw;               // of the epoch
  uint32_t row;                // of the batch, where whole batches are echoed
  uint32_t first_element = 0;  // of the frame, where the example is a clip
  // Where the example is of any length, and made in pieces of some rows:
  uint32_t first_row = 0;
  uint32_t rows = 0;  // of the example; 0: it is no such example
  // Where draws know which use of its record they are; else 0:
  uint64_t record = 0;  // its number among the epoch's fresh examples
  uint32_t echo = 0;    // its uses before
};

ECHOBUF_HD inline double unit(uint32_t word) { return word * 2.3283064365386963e-10; }

/// The number below `n` that a word stands for.
ECHOBUF_HD inline uint32_t scaled(uint32_t word, uint32_t n) {
  return static_cast<uint32_t>((uint64_t{word} * n) >> 32);
}

/// The words of one operation at one draw, in order.
class Words {
 public:
  ECHOBUF_HD Words(const DrawNumber& number, uint32_t operation)
      : key_(number.key),
        draw_(number.draw),
        row_(number.row),
        first_element_(number.first_element),
        first_row_(number.first_row),
        rows_(number.rows),
        operation_(operation) {}

  /// Of an operation that alternates, before the first word: keys them by the record in
  /// place of the draw. `number`: that of the constructor.
  ECHOBUF_HD void alternate(const DrawNumber& number) {
    const uint32_t pair = operation_ >= kRecordOperation ? 0 : number.echo / 2;
    const Philox4x32Block block =
        philox4x32(counter_of(number.record, kKeyOperation, pair, 0), number.key);
    key_ = {{block.word[0], block.word[1]}};
    draw_ = 0;
    opposite_ = (number.echo & 1) != 0;
  }

  ECHOBUF_HD uint32_t word() {
    if (used_ == 4) next_block();
    if (used_ == 0 && !filled_) fill();
    // The next one comes first: an index would put the block into a device's memory.
    const uint32_t first = block_.word[0];
    block_ = {{block_.word[1], block_.word[2], block_.word[3], first}};
    ++used_;
    return first;
  }
  /// Of [0, 1).
  ECHOBUF_HD double uniform() { return unit(word()); }
  /// Of [low, high), or `low` where they are one.
  ECHOBUF_HD double uniform(double low, double high) {
    return low + (high - low) * uniform();
  }
  ECHOBUF_HD bool chance(double p) { return uniform() < p; }
  ECHOBUF_HD uint32_t below(uint32_t n) { return scaled(word(), n); }

  // Choices that have an opposite, which every second use makes if the operation
  // alternates:
  ECHOBUF_HD bool either(double p) { return antithetic() < p; }
  ECHOBUF_HD double antithetic() { return unit(opposite_ ? ~word() : word()); }
  ECHOBUF_HD double antithetic(double low, double high) {
    return low + (high - low) * antithetic();
  }
  /// The place below `n` that a word stands for.
  ECHOBUF_HD uint32_t place(uint32_t word, uint32_t n) const {
    const uint32_t at = scaled(word, n);
    return opposite_ ? n - 1 - at : at;
  }

  /// Begins a new block at the next word.
  ECHOBUF_HD void next_block() {
    ++index_;
    used_ = 0;
    filled_ = false;
  }

  ECHOBUF_HD Philox4x32Block block(uint32_t index) const {
    return philox4x32(counter(index), key_);
  }
  /// The counter of block `index`, which only its last word depends on.
  ECHOBUF_HD Philox4x32Block counter(uint32_t index) const {
    return counter_of(draw_, operation_, row_, index);
  }
  ECHOBUF_HD const Philox4x32Key& key() const { return key_; }
  /// The rows of the whole example, of which `height` are at hand.
  ECHOBUF_HD int32_t rows(int32_t height) const {
    return rows_ == 0 ? height : static_cast<int32_t>(rows_);
  }
  /// The row of the example that comes first among those at hand.
  ECHOBUF_HD int32_t first_row() const { return static_cast<int32_t>(first_row_); }
  /// Of an element.
  ECHOBUF_HD Philox4x32Block element(uint32_t index) const {
    return block(element_block(index));
  }
  ECHOBUF_HD uint32_t element_block(uint32_t index) const {
    return kElementBlocks + first_element_ + index;
  }

 private:
  ECHOBUF_HD void fill() {
    block_ = block(index_);
    filled_ = true;
  }
  ECHOBUF_HD static Philox4x32Block counter_of(uint64_t draw, uint32_t operation,
                                               uint32_t row, uint32_t index) {
    return {{static_cast<uint32_t>(draw),
             (static_cast<uint32_t>(draw >> 32) & 0xFFFFu) | operation << 16, row,
             index}};
  }

  Philox4x32Key key_;
  uint64_t draw_;
  uint32_t row_;
  uint32_t first_element_;
  uint32_t first_row_;
  uint32_t rows_;
  uint32_t operation_;
  uint32_t index_ = 0;
  uint32_t used_ = 0;
  bool filled_ = false;
  bool opposite_ = false;  // of an operation that alternates: at every second use
  Philox4x32Block block_{};
};

/// The words of an operation that alternates if its number says so. Where the number is
/// a constant, ask alternates() of it: kernels then have no code for the other case.
ECHOBUF_HD inline Words words_of(const DrawNumber& number, uint32_t operation) {
  Words words(number, operation);
  if (alternates(operation)) words.alternate(number);
  return words;
}

}  // namespace echobuf::transform
