// Uses one block per row.
#include <algorithm>
#include <climits>
#include <cmath>
#include <utility>

#include "common/base/status_macros.h"
#include "common/cuda/launch.h"
#include "worker/device/cuda/cuda_copies.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/kernels/instructions.h"
#include "worker/device/cuda/kernels/map.h"
#include "worker/device/cuda/kernels/reduction.h"
#include "worker/device/cuda/kernels/scratch.h"

namespace tributary::cuda {
namespace {

// Results of a row on the GPU.
struct RowLoss {
  double loss;
  int32_t correct, counted;  // 0 or 1.
};

// Few large thread blocks: the rows in use at one time fit into the L2 cache,
// which then still holds a long row when it is read a second time.
constexpr int kMaximumThreads = 1024;

// A row of the logits and the row of their gradients.
template <typename T>
struct Row {
  const T* in;
  T* out;  // May be null, may be `in`.
  unsigned count;
  bool aligned;  // Groups of neighbours can be loaded and stored at once.
};

// The elements that a thread processes at a time: those at `first`, first +
// stride, ... Elements beyond the end of the row are -infinity.
template <typename T>
struct Part {
  unsigned first, stride;
  float values[kGroup<T>];
};

// The softmax of a part of a row, computed in one pass (Milakov and Gimelshein,
// "Online normalizer calculation for softmax", 2018). Has no constructor
// because it is placed in shared memory.
struct SoftmaxPart {
  float maximum;  // -infinity for no elements.
  float sum;      // Sum of exp(x - maximum).
  int place;      // Position of the first maximum.
};

// exp(x), for gradients of type T.
template <typename T>
__device__ inline float Exponential(float x) {
  constexpr float kLog2E = 1.44269504f;
  return sizeof(T) < sizeof(float) ? Exp2(x * kLog2E) : expf(x);
}

template <typename T>
__device__ inline void Include(const Part<T>& group, SoftmaxPart& part) {
  float maximum = group.values[0];
#pragma unroll
  for (int n = 1; n < kGroup<T>; ++n) {
    maximum = fmaxf(maximum, group.values[n]);  // Ignores NaN.
  }
  if (maximum > part.maximum) {
    part.sum *= Exponential<T>(part.maximum - maximum);
    part.maximum = maximum;
#pragma unroll
    for (int n = kGroup<T> - 1; n >= 0; --n) {
      if (group.values[n] == maximum) {
        part.place = static_cast<int>(group.first + n * group.stride);
      }
    }
  }
  // Without a maximum so far, all elements are -infinity or NaN, and their
  // exponentials 0 or NaN.
  const float reference = part.maximum == -INFINITY ? 0.0f : part.maximum;
#pragma unroll
  for (int n = 0; n < kGroup<T>; ++n) {
    part.sum += Exponential<T>(group.values[n] - reference);
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

template <typename T>
__device__ inline Part<T> LoadNeighbours(const Row<T>& row, unsigned first) {
  const Group<T> loaded = LoadGroup(row.in + first);
  Part<T> part = {first, 1, {}};
#pragma unroll
  for (int n = 0; n < kGroup<T>; ++n) part.values[n] = float{loaded.values[n]};
  return part;
}

// Calls function(group) for each group of the row that belongs to the thread,
// in order. The function may overwrite the group's elements.
template <typename T, typename Function>
__device__ inline void ForEachPart(const Row<T>& row,
                                   const Function& function) {
  if (row.aligned) {
    const unsigned step = blockDim.x * kGroup<T>;
    for (unsigned first = threadIdx.x * kGroup<T>; first < row.count;
         first += 2 * step) {
      // Two loads are in flight at a time.
      Part<T> part = LoadNeighbours(row, first);
      Part<T> next;
      const bool both = first + step < row.count;
      if (both) next = LoadNeighbours(row, first + step);
      function(part);
      if (both) function(next);
    }
    return;
  }
  for (unsigned first = threadIdx.x; first < row.count;
       first += blockDim.x * kGroup<T>) {
    Part<T> part = {first, blockDim.x, {}};
#pragma unroll
    for (int n = 0; n < kGroup<T>; ++n) {
      const unsigned place = first + n * blockDim.x;
      part.values[n] = place < row.count ? float{row.in[place]} : -INFINITY;
    }
    function(part);
  }
}

// Stores the gradients of a part of a row.
template <typename T>
__device__ inline void Store(const Part<T>& part, const Row<T>& row) {
  if (row.aligned) {
    Group<T> stored;
#pragma unroll
    for (int n = 0; n < kGroup<T>; ++n) stored.values[n] = part.values[n];
    StoreGroup(stored, row.out + part.first);
    return;
  }
#pragma unroll
  for (int n = 0; n < kGroup<T>; ++n) {
    const unsigned place = part.first + n * part.stride;
    if (place < row.count) row.out[place] = part.values[n];
  }
}

// logits, dlogits (may be null, may be logits): [blocks, classes]; labels,
// losses: [blocks]. `aligned`: all rows can be loaded and stored in groups of
// kGroup elements. `targets`: number of classes over which the smoothing's
// uniform distribution extends.
template <typename T, bool kSmoothed>
__global__ void __launch_bounds__(kMaximumThreads)
    SoftmaxCrossEntropyKernel(int64_t classes, bool aligned, const T* logits,
                              const int32_t* labels, T* dlogits,
                              float smoothing, int64_t targets,
                              RowLoss* losses) {
  __shared__ SoftmaxPart shared[kWarp];
  __shared__ double shared_sums[kWarp];
  const int64_t first = blockIdx.x * classes;
  // 32 bits suffice for the places in a row, and save registers.
  const Row<T> row = {logits + first,
                      dlogits == nullptr ? nullptr : dlogits + first,
                      static_cast<unsigned>(classes), aligned};
  const int32_t label = labels[blockIdx.x];
  if (label < 0) {
    for (unsigned c = threadIdx.x; row.out != nullptr && c < row.count;
         c += blockDim.x) {
      row.out[c] = 0.0f;
    }
    if (threadIdx.x == 0) losses[blockIdx.x] = {0.0, 0, 0};
    return;
  }
  // Read before any thread writes: BlockReduce contains barriers.
  const float at_label = row.in[label];
  SoftmaxPart part = {-INFINITY, 0.0f, INT_MAX};
  ForEachPart(row, [&](const Part<T>& group) { Include(group, part); });
  part = BlockReduce(
      part,
      [](const SoftmaxPart& a, const SoftmaxPart& b) { return Merge(a, b); },
      shared);
  // The mean of the logits under the target's distribution.
  double target = at_label;
  if (kSmoothed) {
    double sum = 0;
    ForEachPart(row, [&](const Part<T>& group) {
#pragma unroll
      for (int n = 0; n < kGroup<T>; ++n) {
        if (group.first + n * group.stride < targets) sum += group.values[n];
      }
    });
    sum = BlockReduce(
        sum, [](double a, double b) { return a + b; }, shared_sums);
    target += smoothing * (sum / static_cast<double>(targets) - target);
  }
  if (threadIdx.x == 0) {
    losses[blockIdx.x] = {
        log(static_cast<double>(part.sum)) - (target - part.maximum),
        part.place == label ? 1 : 0, 1};
  }
  if (row.out == nullptr) return;
  const float inverse = 1.0f / part.sum;
  const float at_each = smoothing / static_cast<float>(targets);
  const float at_label_alone = 1.0f - smoothing;
  ForEachPart(row, [&](Part<T>& group) {
#pragma unroll
    for (int n = 0; n < kGroup<T>; ++n) {
      const unsigned place = group.first + n * group.stride;
      float& value = group.values[n];
      value = Exponential<T>(value - part.maximum) * inverse;
      if (kSmoothed && place < targets) value -= at_each;
      if (place == static_cast<unsigned>(label)) value -= at_label_alone;
    }
    Store(group, row);
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

// Computes the loss of each row on the GPU and copies the losses to the host,
// which adds them in the order of the rows. T is what Real stands for.
template <typename T>
class CudaLossOps final : public LossOps {
 public:
  CudaLossOps(CudaContext* context, std::unique_ptr<CudaEvent> copied)
      : context_(context),
        copied_(std::move(copied)),
        device_(&context->Current(), context->growths_counter()),
        host_(&context->Current(), context->growths_counter(),
              Scratch::Place::kPinnedHost) {}

  void BeginSoftmaxCrossEntropy(
      const SoftmaxCrossEntropyArguments& args) override {
    const T* const logits = As<T>(args.logits);
    T* const dlogits = As<T>(args.dlogits);
    const bool aligned = args.classes % kGroup<T> == 0 &&
                         IsAligned<Group<T>>(logits) &&
                         IsAligned<Group<T>>(dlogits);
    Launch(context_->Current(), "SoftmaxCrossEntropy", args.rows,
           dim3(ThreadsFor(args.classes)),
           args.smoothing > 0 ? &SoftmaxCrossEntropyKernel<T, true>
                              : &SoftmaxCrossEntropyKernel<T, false>,
           args.classes, aligned, logits, args.labels, dlogits, args.smoothing,
           args.classes - args.padding, RowLosses(args.rows));
    Collect(args.rows);
  }
  void BeginMeanSquaredError(const MeanSquaredErrorArguments& args) override {
    Launch(context_->Current(), "MeanSquaredError", args.rows,
           dim3(ThreadsFor(args.width)), &MeanSquaredErrorKernel<T>, args.width,
           As<T>(args.x), args.target, As<T>(args.dx), RowLosses(args.rows));
    Collect(args.rows);
  }
  void BeginBinaryCrossEntropy(
      const BinaryCrossEntropyArguments& args) override {
    const T* const logits = As<T>(args.logits);
    const int32_t* const labels = args.labels;
    T* const dlogits = As<T>(args.dlogits);
    RowLoss* const losses = RowLosses(args.rows);
    // A row has one logit, so a thread computes a row.
    ForEach(context_->Current(), "BinaryCrossEntropy", args.rows,
            [=] __device__(int64_t r) {
              const int32_t label = labels[r];
              if (label < 0) {
                losses[r] = {0.0, 0, 0};
                if (dlogits != nullptr) dlogits[r] = 0.0f;
                return;
              }
              const float x = logits[r];
              const double wide = x;
              losses[r] = {(x < 0.0f ? 0.0 : wide) - wide * label +
                               log1p(exp(-fabs(wide))),
                           (x > 0.0f) == (label > 0) ? 1 : 0, 1};
              if (dlogits != nullptr) {
                dlogits[r] =
                    1.0f / (1.0f + expf(-x)) - static_cast<float>(label);
              }
            });
    Collect(args.rows);
  }
  absl::StatusOr<Loss> Await() override {
    const Stream& stream = context_->Current();
    TRIBUTARY_RETURN_IF_ERROR(copied_->Wait());
    TRIBUTARY_RETURN_IF_ERROR(stream.status());
    Loss total;
    for (int64_t r = 0; r < rows_; ++r) {
      if (losses_[r].counted == 0) continue;
      total.sum += losses_[r].loss;
      total.correct += losses_[r].correct;
      ++total.counted;
    }
    return total;
  }

 private:
  // Returns GPU memory for the losses of `rows` rows.
  RowLoss* RowLosses(int64_t rows) {
    context_->Current();  // Memory is allocated on the current GPU.
    return static_cast<RowLoss*>(
        device_.Bytes(static_cast<size_t>(rows) * sizeof(RowLoss)));
  }
  // Queues the copy of the losses to the host.
  void Collect(int64_t rows) {
    Stream& stream = context_->Current();
    const size_t bytes = static_cast<size_t>(rows) * sizeof(RowLoss);
    void* const host = host_.Bytes(bytes);
    const void* const device = device_.Bytes(bytes);
    stream.Enqueue("copying losses", [&](cudaStream_t queue) {
      return cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost,
                             queue);
    });
    losses_ = static_cast<const RowLoss*>(host);
    rows_ = rows;
    copied_->RecordOn(stream);
  }

  CudaContext* const context_;
  const std::unique_ptr<CudaEvent> copied_;
  int64_t rows_ = 0;
  const RowLoss* losses_ = nullptr;  // Losses of the rows, in host_.
  Scratch device_;
  Scratch host_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LossOps>> CreateLossOps(Precision precision,
                                                       CudaContext* context) {
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<CudaEvent> copied,
                             CudaEvent::Create(context->ordinal()));
  if (precision == Precision::kBfloat16) {
    return std::make_unique<CudaLossOps<Bfloat16>>(context, std::move(copied));
  }
  return std::make_unique<CudaLossOps<float>>(context, std::move(copied));
}

}  // namespace tributary::cuda
