// The kernels of draws and puts, as the driver knows them.
#pragma once

#include "echobuf/cuda/api.hpp"

namespace echobuf::cuda {

/// The kernels of kernels/draw.cu, rows.cu and scatter.cu, compiled for the device by
/// Python.
struct Kernels {
  FunctionHandle draw;
  FunctionHandle draw_planned;
  FunctionHandle draw_partners;
  FunctionHandle plan;
  FunctionHandle draw_rows;
  FunctionHandle place_rows;
  FunctionHandle scatter;
};

}  // namespace echobuf::cuda
