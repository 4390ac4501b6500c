#include "common/cuda/launch.h"
#include "worker/device/cuda/kernels/bias.h"
#include "worker/device/cuda/kernels/column_sums.h"
#include "worker/device/cuda/kernels/reduction.h"

namespace tributary::cuda {
namespace {

// sums[row] = sum over c of x[row, c]; x: [blocks, width].
template <typename T>
__global__ void RowSumsKernel(int64_t width, const T* x, float* sums) {
  __shared__ float shared[kWarp];
  const T* row = x + blockIdx.x * width;
  float sum = 0;
  for (int64_t c = threadIdx.x; c < width; c += blockDim.x) sum += row[c];
  sum = BlockReduce(
      sum, [](float a, float b) { return a + b; }, shared);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

}  // namespace

template <typename T>
void AddToRows(Stream& stream, int64_t rows, int64_t width, const float* x,
               const float* bias, T* y) {
  ForEachInRows(stream, "AddToRows", rows, width,
                [=] __device__(int64_t r, int64_t c) {
                  y[r * width + c] = x[r * width + c] + bias[c];
                });
}

template <typename T>
void ColumnSums(Stream& stream, Scratch& scratch, int64_t rows, int64_t width,
                const T* x, float* sums) {
  SumColumns<1>(stream, "ColumnSums", scratch, rows, width,
                [=] __device__(int64_t r, int64_t c, float(&sum)[1]) {
                  sum[0] += x[r * width + c];
                },
                {{sums}});
}

template <typename T>
void AddToPlanes(Stream& stream, int64_t batch, int64_t channels, int64_t plane,
                 const float* bias, T* y) {
  ForEachInRows(stream, "AddToPlanes", batch * channels, plane,
                [=] __device__(int64_t row, int64_t p) {
                  y[row * plane + p] =
                      float{y[row * plane + p]} + bias[row % channels];
                });
}

template <typename T>
void ChannelSums(Stream& stream, Scratch& scratch, int64_t batch,
                 int64_t channels, int64_t plane, const T* x, float* sums) {
  float* const plane_sums = scratch.Floats(batch * channels);
  const int threads = plane < kBlockThreads ? kWarp : kBlockThreads;
  Launch(stream, "ChannelSums", batch * channels, dim3(threads),
         &RowSumsKernel<T>, plane, x, plane_sums);
  ForEach(stream, "ChannelSums", channels, [=] __device__(int64_t c) {
    float sum = 0;
    for (int64_t b = 0; b < batch; ++b) sum += plane_sums[b * channels + c];
    sums[c] = sum;
  });
}

#define TRIBUTARY_INSTANTIATE(T)                                              \
  template void AddToRows(Stream&, int64_t, int64_t, const float*,            \
                          const float*, T*);                                  \
  template void ColumnSums(Stream&, Scratch&, int64_t, int64_t, const T*,     \
                           float*);                                           \
  template void AddToPlanes(Stream&, int64_t, int64_t, int64_t, const float*, \
                            T*);                                              \
  template void ChannelSums(Stream&, Scratch&, int64_t, int64_t, int64_t,     \
                            const T*, float*);
TRIBUTARY_INSTANTIATE(float)
TRIBUTARY_INSTANTIATE(Bfloat16)
#undef TRIBUTARY_INSTANTIATE

}  // namespace tributary::cuda
