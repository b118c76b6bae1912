#pragma once

#include "echobuf/transform/image.hpp"
#include "echobuf/transform/members.hpp"
#include "echobuf/transform/words.hpp"

// Mixing an example with a partner, another record of the same pass.
//
// Sources: H. Zhang et al., "mixup: beyond empirical risk minimization"
// (arXiv:1710.09412); S. Yun et al., "CutMix" (arXiv:1905.04899).

namespace echobuf::transform {

struct Mix {
  Extent whole;   // the image whose box is cut
  double alpha;   // of the distribution Beta(alpha, alpha) of the weight
  uint32_t cut;   // a box of the partner; else a sum
  uint32_t flat;  // of numbers that have no place in the image: labels

  ECHOBUF_MEMBERS(whole, alpha, cut, flat)

  struct Draw {
    float own;  // the example's share
    float partners;
    int32_t top, left, bottom, right;  // the partner's box
  };

  ECHOBUF_HD Draw draw(Words words, const Extent&) const {
    words.word();  // the partner's
    const uint32_t across = words.word();
    const uint32_t down = words.word();
    const double weight = symmetric_beta(words, alpha);
    if (cut == 0)
      return {static_cast<float>(weight), static_cast<float>(1.0 - weight), 0, 0, 0, 0};
    const auto h = static_cast<uint32_t>(whole.height);
    const auto w = static_cast<uint32_t>(whole.width);
    const double half = 0.5 * exact::square_root(1.0 - weight);
    const auto half_height = static_cast<int32_t>(half * whole.height);
    const auto half_width = static_cast<int32_t>(half * whole.width);
    const auto x = static_cast<int32_t>(scaled(across, w));
    const auto y = static_cast<int32_t>(scaled(down, h));
    Draw d{};
    d.top = exact::most(y - half_height, 0);
    d.left = exact::most(x - half_width, 0);
    d.bottom = exact::least(y + half_height, whole.height);
    d.right = exact::least(x + half_width, whole.width);
    const double box = static_cast<double>(d.bottom - d.top) * (d.right - d.left);
    const double share = box / (static_cast<double>(whole.height) * whole.width);
    d.own = static_cast<float>(1.0 - share);
    d.partners = static_cast<float>(share);
    return d;
  }

  ECHOBUF_HD float element(const Draw& d, float v, float partner,
                           const Place& at) const {
    if (cut == 0 || flat != 0) return v * d.own + partner * d.partners;
    const bool within =
        at.y >= d.top && at.y < d.bottom && at.x >= d.left && at.x < d.right;
    return within ? partner : v;
  }
};

}  // namespace echobuf::transform

/// The operations here, by the names that chains have for them.
#define ECHOBUF_MIX_OPERATIONS(X) X(mix, Mix)
