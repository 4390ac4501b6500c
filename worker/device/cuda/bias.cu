#include "worker/device/cuda/bias.h"
#include "worker/device/cuda/column_sums.h"
#include "worker/device/cuda/launch.h"
#include "worker/device/cuda/reduction.h"

namespace tributary::cuda {
namespace {

// sums[row] = sum over c of x[row, c]; x: [blocks, width].
__global__ void RowSumsKernel(int64_t width, const float* x, float* sums) {
  __shared__ float shared[kWarp];
  const float* row = x + blockIdx.x * width;
  float sum = 0;
  for (int64_t c = threadIdx.x; c < width; c += blockDim.x) sum += row[c];
  sum = BlockReduce(
      sum, [](float a, float b) { return a + b; }, shared);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

}  // namespace

void AddToRows(Stream& stream, int64_t rows, int64_t width, const float* bias,
               float* y) {
  ForEachInRows(
      stream, "AddToRows", rows, width,
      [=] __device__(int64_t r, int64_t c) { y[r * width + c] += bias[c]; });
}

void ColumnSums(Stream& stream, Scratch& scratch, int64_t rows, int64_t width,
                const float* x, float* sums) {
  SumColumns<1>(stream, "ColumnSums", scratch, rows, width,
                [=] __device__(int64_t r, int64_t c, float(&sum)[1]) {
                  sum[0] += x[r * width + c];
                },
                {{sums}});
}

void AddToPlanes(Stream& stream, int64_t batch, int64_t channels, int64_t plane,
                 const float* bias, float* y) {
  ForEachInRows(stream, "AddToPlanes", batch * channels, plane,
                [=] __device__(int64_t row, int64_t p) {
                  y[row * plane + p] += bias[row % channels];
                });
}

void ChannelSums(Stream& stream, Scratch& scratch, int64_t batch,
                 int64_t channels, int64_t plane, const float* x, float* sums) {
  float* const plane_sums = scratch.Floats(batch * channels);
  const int threads = plane < kBlockThreads ? kWarp : kBlockThreads;
  Launch(stream, "ChannelSums", batch * channels, dim3(threads), &RowSumsKernel,
         plane, x, plane_sums);
  ForEach(stream, "ChannelSums", channels, [=] __device__(int64_t c) {
    float sum = 0;
    for (int64_t b = 0; b < batch; ++b) sum += plane_sums[b * channels + c];
    sums[c] = sum;
  });
}

}  // namespace tributary::cuda
