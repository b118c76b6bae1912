// The members of the operations, by name and in their order.
#pragma once

#include "echobuf/transform/stage.hpp"

namespace echobuf::transform {

template <class Get>
void members(Get&& get, Crop& op) {
  get("in", op.in);
  get("height", op.height);
  get("width", op.width);
  get("top", op.top);
  get("left", op.left);
  get("tops", op.tops);
  get("lefts", op.lefts);
  get("border", op.border);
  get("columns_first", op.columns_first);
  get("fill", op.fill);
}

template <class Get>
void members(Get&& get, Flip& op) {
  get("in", op.in);
  get("axis", op.axis);
  get("p", op.p);
}

template <class Get>
void members(Get&& get, Nearest& op) {
  get("in", op.in);
  get("height", op.height);
  get("width", op.width);
  get("centred", op.centred);
}

template <class Get>
void members(Get&& get, NearestWindow& op) {
  get("in", op.in);
  get("height", op.height);
  get("width", op.width);
  get("scale", op.scale);
  get("ratio", op.ratio);
}

template <class Get>
void members(Get&& get, Resample& op) {
  get("in", op.in);
  get("height", op.height);
  get("width", op.width);
  get("antialias", op.antialias);
  get("windowed", op.windowed);
  get("scale", op.scale);
  get("ratio", op.ratio);
  get("filter", op.filter);
}

template <class Get>
void members(Get&& get, Warp& op) {
  get("in", op.in);
  get("bilinear", op.bilinear);
  get("degrees", op.degrees);
  get("shift", op.shift);
  get("scale", op.scale);
  get("shear_x", op.shear_x);
  get("shear_y", op.shear_y);
  get("centre", op.centre);
  get("fill", op.fill);
}

template <class Get>
void members(Get&& get, Normalize& op) {
  get("scale", op.scale);
  get("mean", op.mean);
  get("deviation", op.deviation);
}

template <class Get>
void members(Get&& get, Scale& op) {
  get("factor", op.factor);
}

template <class Get>
void members(Get&& get, Round& op) {
  get("type", op.type);
}

template <class Get>
void members(Get&& get, Gain& op) {
  get("low", op.low);
  get("high", op.high);
}

template <class Get>
void members(Get&& get, Noise& op) {
  get("mean", op.mean);
  get("sigma", op.sigma);
  get("most", op.most);
  get("clip", op.clip);
  get("integer", op.integer);
}

template <class Get>
void members(Get&& get, Erase& op) {
  get("p", op.p);
  get("scale", op.scale);
  get("ratio", op.ratio);
  get("random", op.random);
  get("value", op.value);
}

template <class Get>
void members(Get&& get, Bands& op) {
  get("rows", op.rows);
  get("columns", op.columns);
  get("tallest", op.tallest);
  get("widest", op.widest);
  get("value", op.value);
}

template <class Get>
void members(Get&& get, Jitter& op) {
  get("in", op.in);
  get("least", op.least);
  get("most", op.most);
  get("active", op.active);
  get("integer", op.integer);
  get("bound", op.bound);
}

template <class Get>
void members(Get&& get, Mix& op) {
  get("whole", op.whole);
  get("alpha", op.alpha);
  get("cut", op.cut);
  get("flat", op.flat);
}

template <class Get>
void members(Get&& get, Mask& op) {
  get("p", op.p);
  get("hidden", op.hidden);
  get("replaced", op.replaced);
  get("mask", op.mask);
  get("vocabulary", op.vocabulary);
  get("labels", op.labels);
  get("ignored", op.ignored);
  get("specials", op.specials);
  get("special", op.special);
}

template <class Get>
void members(Get&& get, Invert& op) {
  get("p", op.p);
  get("white", op.white);
}

template <class Get>
void members(Get&& get, Solarize& op) {
  get("p", op.p);
  get("white", op.white);
  get("thresholds", op.thresholds);
}

template <class Get>
void members(Get&& get, Posterize& op) {
  get("p", op.p);
  get("integer", op.integer);
  get("bits", op.bits);
}

template <class Get>
void members(Get&& get, AutoContrast& op) {
  get("p", op.p);
  get("white", op.white);
  get("integer", op.integer);
}

template <class Get>
void members(Get&& get, Equalize& op) {
  get("p", op.p);
  get("integer", op.integer);
}

template <class Get>
void members(Get&& get, Grey& op) {
  get("p", op.p);
  get("from", op.from);
  get("to", op.to);
  get("integer", op.integer);
}

template <class Get>
void members(Get&& get, GradedColor& op) {
  get("in", op.in);
  get("kind", op.kind);
  get("integer", op.integer);
  get("bound", op.bound);
  get("levels", op.levels);
}

template <class Get>
void members(Get&& get, GradedWarp& op) {
  get("in", op.in);
  get("bilinear", op.bilinear);
  get("kind", op.kind);
  get("fill", op.fill);
  get("levels", op.levels);
}

template <class Get>
void members(Get&& get, Blur& op) {
  get("in", op.in);
  get("radius", op.radius);
  get("sigma", op.sigma);
}

template <class Get>
void members(Get&& get, Sharpen& op) {
  get("in", op.in);
  get("integer", op.integer);
  get("bound", op.bound);
  get("p", op.p);
  get("levels", op.levels);
}

template <class Get>
void members(Get&& get, Perspective& op) {
  get("in", op.in);
  get("bilinear", op.bilinear);
  get("p", op.p);
  get("down", op.down);
  get("right", op.right);
  get("fill", op.fill);
}

template <class Get>
void members(Get&& get, CropPoints& op) {
  get("in", op.in);
  get("height", op.height);
  get("width", op.width);
  get("top", op.top);
  get("left", op.left);
  get("tops", op.tops);
  get("lefts", op.lefts);
  get("columns_first", op.columns_first);
  get("boxes", op.boxes);
  get("outside", op.outside);
}

template <class Get>
void members(Get&& get, FlipPoints& op) {
  get("in", op.in);
  get("axis", op.axis);
  get("p", op.p);
  get("boxes", op.boxes);
  get("outside", op.outside);
}

template <class Get>
void members(Get&& get, ResizePoints& op) {
  get("in", op.in);
  get("height", op.height);
  get("width", op.width);
  get("boxes", op.boxes);
  get("outside", op.outside);
}

template <class Get>
void members(Get&& get, WindowPoints& op) {
  get("in", op.in);
  get("height", op.height);
  get("width", op.width);
  get("scale", op.scale);
  get("ratio", op.ratio);
  get("boxes", op.boxes);
  get("outside", op.outside);
}

template <class Get>
void members(Get&& get, WarpPoints& op) {
  get("in", op.in);
  get("angle", op.angle);
  get("shift", op.shift);
  get("scale", op.scale);
  get("shear_x", op.shear_x);
  get("shear_y", op.shear_y);
  get("centre", op.centre);
  get("boxes", op.boxes);
  get("outside", op.outside);
}

template <class Get>
void members(Get&& get, SanitizePoints& op) {
  get("in", op.in);
  get("min_size", op.min_size);
  get("boxes", op.boxes);
  get("outside", op.outside);
}

template <class Get>
void members(Get&& get, GradedWarpPoints& op) {
  get("in", op.in);
  get("kind", op.kind);
  get("levels", op.levels);
  get("boxes", op.boxes);
  get("outside", op.outside);
}

template <class Get>
void members(Get&& get, PerspectivePoints& op) {
  get("in", op.in);
  get("p", op.p);
  get("down", op.down);
  get("right", op.right);
  get("boxes", op.boxes);
  get("outside", op.outside);
}

}  // namespace echobuf::transform
