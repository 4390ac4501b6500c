// The code that computes a product depends on its shape only, because the order
// of summation, and therefore the bits, depend on the code.
//
// Measured on one core of a 2.6 GHz Sapphire Rapids, in GFLOP/s, best of
// several runs on a shared machine:
//
//   rows x inputs -> outputs  forward         input gradient  weight gradient
//                             OpenBLAS oneDNN OpenBLAS oneDNN OpenBLAS oneDNN
//   64 x 784 -> 512           118      164    -        -      154      180
//   64 x 512 -> 512           121      165    152      199    150      180
//   64 x 3136 -> 128          113      142    118      178    136      171
//   1024 x 128 -> 384         165      196    157      195    146      170
//   1024 x 512 -> 128         155      173    156      189    134      171
//   16 x 4096 -> 4096         56       65     39       48     68       159
//
// oneDNN (2.6.3; OpenBLAS 0.3.21) is faster except for very narrow layers, and
// convolutions need it, so it is the only library. The last row is one pass
// over 64 MiB: SkinnyForward raises 65 to 111, at 14 GB/s, and
// SkinnyBackwardInput raises 48 to 97. Below the limits in this file oneDNN is
// faster again: its weights are in the cache, or some lanes would be idle.
#include "worker/device/cpu/kernels/linear.h"

#include "worker/device/cpu/kernels/elementwise.h"
#include "worker/device/cpu/products/gemm.h"
#include "worker/device/cpu/products/skinny_gemm.h"

namespace tributary::cpu {
bool IsSkinnyForward(const LinearShape& s) {
  return s.rows >= 6 && s.rows <= kSkinnyRows &&
         s.inputs * s.outputs >= int64_t{1} << 20;
}

bool IsSkinnyBackwardInput(const LinearShape& s) {
  return s.rows >= 4 && s.rows <= kSkinnyRows &&
         s.inputs * s.outputs >= int64_t{1} << 23;
}

void LinearForward(const LinearShape& s, const float* x, const float* weight,
                   const float* bias, Scratch& scratch, float* y) {
  const bool accumulate = bias != nullptr;
  if (accumulate) FillRows(s.rows, s.outputs, bias, y);
  if (IsSkinnyForward(s)) {
    SkinnyForward(s.rows, s.inputs, s.outputs, x, weight, accumulate, y,
                  scratch.Floats(s.inputs * kSkinnyRows));
  } else {
    Gemm(s.rows, s.outputs, s.inputs, {x, s.inputs},
         {weight, s.inputs, /*transposed=*/true}, accumulate, y, s.outputs);
  }
}

void LinearBackwardInput(const LinearShape& s, const float* dy,
                         const float* weight, bool accumulate, float* dx) {
  if (IsSkinnyBackwardInput(s)) {
    SkinnyBackwardInput(s.rows, s.inputs, s.outputs, dy, weight, accumulate,
                        dx);
  } else {
    Gemm(s.rows, s.inputs, s.outputs, {dy, s.outputs}, {weight, s.inputs},
         accumulate, dx, s.inputs);
  }
}

void LinearBackwardWeight(const LinearShape& s, const float* x, const float* dy,
                          bool accumulate, float* dweight, float* dbias) {
  Gemm(s.outputs, s.inputs, s.rows, {dy, s.outputs, /*transposed=*/true},
       {x, s.inputs}, accumulate, dweight, s.inputs);
  if (dbias != nullptr) ColumnSums(s.rows, s.outputs, dy, dbias);
}

}  // namespace tributary::cpu
