#pragma once

#include "echobuf/transform/image.hpp"
#include "echobuf/transform/members.hpp"
#include "echobuf/transform/words.hpp"

// Masked language modelling: some tokens are hidden, and are what is to be told.
//
// Source: J. Devlin et al., "BERT" (arXiv:1810.04805), section 3.1.

namespace echobuf::transform {

struct Mask {
  static constexpr int kMostSpecial = 16;

  double p;         // that a token is selected
  double hidden;    // of those: `mask` in its place,
  double replaced;  // or any token
  int64_t mask;
  uint32_t vocabulary;
  uint32_t labels;  // the result is what is to be told, and `ignored` elsewhere
  int64_t ignored;
  uint32_t specials;  // tokens that are never selected
  int64_t special[kMostSpecial];

  ECHOBUF_MEMBERS(p, hidden, replaced, mask, vocabulary, labels, ignored, specials,
                  special)

  struct Draw {
    Words words;
  };

  ECHOBUF_HD Draw draw(Words words, const Extent&) const { return {words}; }

  ECHOBUF_HD int64_t token(const Draw& d, int64_t v, uint32_t element) const {
    const Philox4x32Block block = d.words.element(element);
    bool selected = unit(block.word[0]) < p;
    for (uint32_t i = 0; i < specials; ++i) selected = selected && v != special[i];
    if (labels != 0) return selected ? v : ignored;
    if (!selected) return v;
    const double which = unit(block.word[1]);
    if (which < hidden) return mask;
    return which < hidden + replaced ? scaled(block.word[2], vocabulary) : v;
  }
};

}  // namespace echobuf::transform

/// The operations here, by the names that chains have for them.
#define ECHOBUF_TOKENS_OPERATIONS(X) X(mask, Mask)
