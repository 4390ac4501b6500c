// Uses one block per row.
#include <algorithm>
#include <climits>
#include <cmath>

#include "common/cuda/launch.h"
#include "worker/device/cuda/kernels/loss.h"
#include "worker/device/cuda/kernels/reduction.h"

namespace tributary::cuda {

// Results of a row on the GPU.
struct RowLoss {
  double loss;
  int32_t correct, counted;  // 0 or 1.
};

namespace {

constexpr int kMaximumThreads = 1024;
constexpr int kSmoothedThreads = 512;

// The softmax of a part of a row, computed in one pass (Milakov and Gimelshein,
// "Online normalizer calculation for softmax", 2018). Has no constructor
// because it is placed in shared memory.
struct SoftmaxPart {
  float maximum;  // -infinity for no elements.
  float sum;      // Sum of exp(x - maximum).
  int place;      // Position of the first maximum.
};

__device__ inline void Include(float x, int place, SoftmaxPart& part) {
  if (x > part.maximum) {
    part.sum = part.sum * expf(part.maximum - x) + 1.0f;
    part.maximum = x;
    part.place = place;
  } else if (x != -INFINITY) {
    // NaN also takes this branch and makes the sum NaN. The exponential of
    // -infinity is 0, which could not be computed without a maximum so far.
    part.sum += expf(x - part.maximum);
  }
}

// Returns the part's sum relative to `maximum`, which is at least the part's
// own.
__device__ inline float SumRelativeTo(float maximum, const SoftmaxPart& part) {
  // Equality also covers two infinite values, whose difference is NaN.
  return part.maximum == maximum ? part.sum
                                 : part.sum * expf(part.maximum - maximum);
}

__device__ inline SoftmaxPart Merge(const SoftmaxPart& a,
                                    const SoftmaxPart& b) {
  const bool first =
      a.maximum > b.maximum || (a.maximum == b.maximum && a.place < b.place);
  // No reference to one of the two: nvcc would put both into local memory.
  const float maximum = first ? a.maximum : b.maximum;
  return {maximum, SumRelativeTo(maximum, a) + SumRelativeTo(maximum, b),
          first ? a.place : b.place};
}

__device__ inline SoftmaxPart ShuffleDown(const SoftmaxPart& part,
                                          int distance) {
  return {__shfl_down_sync(kAllLanes, part.maximum, distance),
          __shfl_down_sync(kAllLanes, part.sum, distance),
          __shfl_down_sync(kAllLanes, part.place, distance)};
}

// Number of loads that a thread issues at once. A row may start at any element,
// so elements are loaded individually.
constexpr int kBatch = 4;

// Calls function(position, value) for each element of a row, fewer than 2^31,
// that belongs to the thread, in order. The function may overwrite the element.
template <typename T, typename Function>
__device__ inline void ForEachOfRow(const T* row, int64_t count,
                                    const Function& function) {
  // 32 bits suffice for the places, and save the registers that would be
  // spilled.
  const auto end = static_cast<unsigned>(count);
  for (unsigned first = threadIdx.x; first < end;
       first += kBatch * blockDim.x) {
    float values[kBatch];
#pragma unroll
    for (int n = 0; n < kBatch; ++n) {
      const unsigned place = first + n * blockDim.x;
      values[n] = place < end ? float{row[place]} : 0.0f;
    }
#pragma unroll
    for (int n = 0; n < kBatch; ++n) {
      const unsigned place = first + n * blockDim.x;
      if (place < end) function(place, values[n]);
    }
  }
}

// logits, dlogits (may be null, may be logits): [blocks, classes]; labels,
// losses: [blocks]. `targets`: number of classes over which the smoothing's
// uniform distribution extends.
//
// A template of kSmoothed, because the sum of the logits needs more registers
// than kMaximumThreads leaves to each thread.
template <typename T, bool kSmoothed>
__global__ void __launch_bounds__(kSmoothed ? kSmoothedThreads
                                            : kMaximumThreads)
    SoftmaxCrossEntropyKernel(int64_t classes, const T* logits,
                              const int32_t* labels, T* dlogits,
                              float smoothing, int64_t targets,
                              RowLoss* losses) {
  __shared__ SoftmaxPart shared[kWarp];
  __shared__ double shared_sums[kWarp];
  const int64_t row = blockIdx.x;
  const T* in = logits + row * classes;
  T* out = dlogits == nullptr ? nullptr : dlogits + row * classes;
  const int32_t label = labels[row];
  if (label < 0) {
    if (out != nullptr) {
      for (int64_t c = threadIdx.x; c < classes; c += blockDim.x) out[c] = 0.0f;
    }
    if (threadIdx.x == 0) losses[row] = {0.0, 0, 0};
    return;
  }
  // Read before any thread writes: BlockReduce contains barriers.
  const float at_label = in[label];
  SoftmaxPart part = {-INFINITY, 0.0f, INT_MAX};
  ForEachOfRow(in, classes, [&](int64_t c, float x) {
    Include(x, static_cast<int>(c), part);
  });
  part = BlockReduce(
      part,
      [](const SoftmaxPart& a, const SoftmaxPart& b) { return Merge(a, b); },
      shared);
  // The mean of the logits under the target's distribution.
  double target = at_label;
  if (kSmoothed) {
    double sum = 0;
    ForEachOfRow(in, targets, [&](int64_t, float x) { sum += x; });
    sum = BlockReduce(
        sum, [](double a, double b) { return a + b; }, shared_sums);
    target += smoothing * (sum / static_cast<double>(targets) - target);
  }
  if (threadIdx.x == 0) {
    losses[row] = {log(static_cast<double>(part.sum)) - (target - part.maximum),
                   part.place == label ? 1 : 0, 1};
  }
  if (out == nullptr) return;
  const float inverse = 1.0f / part.sum;
  const float at_each = smoothing / static_cast<float>(targets);
  const float at_label_alone = 1.0f - smoothing;
  ForEachOfRow(in, classes, [&](int64_t c, float x) {
    float gradient = expf(x - part.maximum) * inverse;
    if (kSmoothed && c < targets) gradient -= at_each;
    out[c] = c == label ? gradient - at_label_alone : gradient;
  });
}

// x, target, dx (may be null, may be x): [blocks, width]; losses: [blocks].
template <typename T>
__global__ void __launch_bounds__(kMaximumThreads)
    MeanSquaredErrorKernel(int64_t width, const T* x, const float* target,
                           T* dx, RowLoss* losses) {
  __shared__ double shared[kWarp];
  const int64_t first = blockIdx.x * width;
  const float factor = 2.0f / static_cast<float>(width);
  double sum = 0;
  for (int64_t c = threadIdx.x; c < width; c += blockDim.x) {
    const float value = x[first + c], goal = target[first + c];
    const double difference = static_cast<double>(value) - goal;
    sum += difference * difference;
    if (dx != nullptr) dx[first + c] = factor * (value - goal);
  }
  sum = BlockReduce(
      sum, [](double a, double b) { return a + b; }, shared);
  if (threadIdx.x == 0) {
    losses[blockIdx.x] = {sum / static_cast<double>(width), 0, 1};
  }
}

// Bounds the number of threads by the width of a row; more would only lengthen
// the reduction.
int ThreadsFor(int64_t width) {
  if (width <= 128) return kWarp;
  return width <= 4096 ? kBlockThreads : kMaximumThreads;
}

}  // namespace

RowLoss* LossRunner::RowLosses(int64_t rows) {
  return static_cast<RowLoss*>(
      device_.Bytes(static_cast<size_t>(rows) * sizeof(RowLoss)));
}

void LossRunner::Collect(Stream& stream, int64_t rows) {
  const size_t bytes = static_cast<size_t>(rows) * sizeof(RowLoss);
  void* const host = host_.Bytes(bytes);
  const void* const device = device_.Bytes(bytes);
  stream.Enqueue("copying losses", [&](cudaStream_t queue) {
    return cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, queue);
  });
  losses_ = static_cast<const RowLoss*>(host);
  rows_ = rows;
}

Loss LossRunner::Sum() const {
  Loss total;
  for (int64_t r = 0; r < rows_; ++r) {
    if (losses_[r].counted == 0) continue;
    total.sum += losses_[r].loss;
    total.correct += losses_[r].correct;
    ++total.counted;
  }
  return total;
}

template <typename T>
void LossRunner::SoftmaxCrossEntropy(Stream& stream, int64_t rows,
                                     int64_t classes, const T* logits,
                                     const int32_t* labels, T* dlogits,
                                     float smoothing, int64_t padding) {
  const bool smoothed = smoothing > 0;
  const int threads = smoothed ? std::min(ThreadsFor(classes), kSmoothedThreads)
                               : ThreadsFor(classes);
  Launch(stream, "SoftmaxCrossEntropy", rows, dim3(threads),
         smoothed ? &SoftmaxCrossEntropyKernel<T, true>
                  : &SoftmaxCrossEntropyKernel<T, false>,
         classes, logits, labels, dlogits, smoothing, classes - padding,
         RowLosses(rows));
  Collect(stream, rows);
}

template <typename T>
void LossRunner::MeanSquaredError(Stream& stream, int64_t rows, int64_t width,
                                  const T* x, const float* target, T* dx) {
  Launch(stream, "MeanSquaredError", rows, dim3(ThreadsFor(width)),
         &MeanSquaredErrorKernel<T>, width, x, target, dx, RowLosses(rows));
  Collect(stream, rows);
}

#define TRIBUTARY_INSTANTIATE(T)                                              \
  template void LossRunner::SoftmaxCrossEntropy(Stream&, int64_t, int64_t,    \
                                                const T*, const int32_t*, T*, \
                                                float, int64_t);              \
  template void LossRunner::MeanSquaredError(Stream&, int64_t, int64_t,       \
                                             const T*, const float*, T*);
TRIBUTARY_INSTANTIATE(float)
TRIBUTARY_INSTANTIATE(Bfloat16)
#undef TRIBUTARY_INSTANTIATE

}  // namespace tributary::cuda
