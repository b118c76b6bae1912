// An operation of one's own: images get darker towards their corners, each time by
// another amount. Compiled for the CPU, and by NVRTC for a GPU.
#pragma once

#include "echobuf/transform/image.hpp"
#include "echobuf/transform/words.hpp"

struct Vignette {
  // The settings: members of plain types, which Python names.
  float least;  // of the light that is taken away in the corners
  float most;

  // What chance decides for one draw of an example.
  struct Draw {
    float strength;
  };

  ECHOBUF_HD Draw draw(echobuf::transform::Words words,
                       const echobuf::transform::Extent&) const {
    return {static_cast<float>(words.uniform(least, most))};
  }

  // One number from one number: `at` says where in the image it is. Where channels need
  // each other: `void pixel(const Draw&, float* v, const Place& at) const` instead.
  ECHOBUF_HD float element(const Draw& draw, float v, int /*channel*/,
                           const echobuf::transform::Place& at) const {
    const float x =
        2.0f * static_cast<float>(at.x) / static_cast<float>(at.extent.width) - 1.0f;
    const float y =
        2.0f * static_cast<float>(at.y) / static_cast<float>(at.extent.height) - 1.0f;
    return v * (1.0f - draw.strength * 0.5f * (x * x + y * y));
  }
};
