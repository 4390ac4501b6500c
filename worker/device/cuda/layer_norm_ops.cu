// Uses one warp per row, so forward needs no barriers. The warp holds a row of
// suitable width in registers (LanesHoldRow); it reads others two or three
// times, from the cache.
#include <algorithm>
#include <initializer_list>

#include "common/cuda/launch.h"
#include "worker/device/cuda/cuda_ops.h"
#include "worker/device/cuda/kernels/column_sums.h"
#include "worker/device/cuda/kernels/map.h"
#include "worker/device/cuda/kernels/reduction.h"

namespace tributary::cuda {
namespace {

constexpr int kRowsPerBlock = kBlockThreads / kWarp;

__device__ inline int64_t RowOfWarp() {
  return static_cast<int64_t>(blockIdx.x) * kRowsPerBlock + threadIdx.x / kWarp;
}

// Number of elements of a row that a lane loads at once.
constexpr int kBatch = 8;

// Computes sum = x + branch for a row and returns the lane's part of the total
// of `sum`. All loads of a batch precede its stores, which may overwrite
// `branch`.
template <typename T>
__device__ inline float AddRows(int64_t width, const T* __restrict__ x,
                                const T* branch, T* sum) {
  float total = 0;
  for (int64_t first = threadIdx.x % kWarp; first < width;
       first += kBatch * kWarp) {
    T values[kBatch];
#pragma unroll
    for (int n = 0; n < kBatch; ++n) {
      const int64_t c = first + n * kWarp;
      values[n] = c < width ? float{branch[c]} + float{x[c]} : 0.0f;
    }
#pragma unroll
    for (int n = 0; n < kBatch; ++n) {
      const int64_t c = first + n * kWarp;
      if (c < width) sum[c] = values[n];
      total += values[n];
    }
  }
  return total;
}

// x, y: [rows, width]; scale, shift (or null): [width]; means, inverses:
// [rows]. None overlap, so that several loads are in flight at a time. With
// kAdds, normalizes sum = x + branch; both are [rows, width] and may overlap.
template <typename T, bool kAdds>
__global__ void ForwardKernel(int64_t rows, int64_t width,
                              const T* __restrict__ x, const T* branch, T* sum,
                              const float* __restrict__ scale,
                              const float* __restrict__ shift, float epsilon,
                              T* __restrict__ y, float* __restrict__ means,
                              float* __restrict__ inverses) {
  const int64_t row = RowOfWarp();
  if (row >= rows) return;  // The whole warp returns.
  const int lane = threadIdx.x % kWarp;
  const int64_t begin = row * width;
  // A lane reads only elements of `sum` that it has written.
  const T* const in = (kAdds ? sum : x) + begin;
  T* __restrict__ out = y + begin;

  float total = 0;
  if constexpr (kAdds) {
    total = AddRows(width, x + begin, branch + begin, sum + begin);
  } else {
#pragma unroll 4
    for (int64_t c = lane; c < width; c += kWarp) total += in[c];
  }
  const float mean = SumOfLanes(total) / static_cast<float>(width);
  float squares = 0;
#pragma unroll 4
  for (int64_t c = lane; c < width; c += kWarp) {
    const float difference = in[c] - mean;
    squares += difference * difference;
  }
  const float variance = SumOfLanes(squares) / static_cast<float>(width);
  const float inverse = 1.0f / sqrtf(variance + epsilon);
#pragma unroll 4
  for (int64_t c = lane; c < width; c += kWarp) {
    const float normalized = (in[c] - mean) * inverse;
    out[c] = normalized * scale[c] + (shift == nullptr ? 0.0f : shift[c]);
  }
  if (lane == 0) {
    means[row] = mean;
    inverses[row] = inverse;
  }
}

// What the gradients of a row depend on, besides its elements.
struct RowTerms {
  float mean, inverse;
  // Means of g = dy scale and of g n; see BackwardKernel.
  float g_mean, product_mean;
};

// Number of rows that a block processes at a time.
constexpr int kGroupRows = 2 * kRowsPerBlock;

// Partition of the rows into contiguous chunks, one for each thread block. The
// order of additions depends only on the partition.
struct RowChunks {
  // Makes at most about `blocks` chunks: as many as there are thread blocks of
  // the kernel that run at once on the largest GPUs. Each has two groups of
  // `group` rows at least, so that adding the chunks costs little.
  RowChunks(int64_t rows, int64_t blocks, int64_t group) {
    rows_per_chunk = std::max<int64_t>(
        CeilDivide(CeilDivide(rows, blocks), group) * group, 2 * group);
    chunks = std::max<int64_t>(CeilDivide(rows, rows_per_chunk), 1);
  }
  int64_t rows_per_chunk, chunks;
};

// Warp. Computes the terms of a row. `share` is 1 / width: with a division,
// nvcc would spill registers around its slow path.
template <typename T>
__device__ inline RowTerms TermsOf(int64_t width, float share,
                                   const T* __restrict__ in,
                                   const float* __restrict__ scale,
                                   const T* __restrict__ gradient, float mean,
                                   float inverse) {
  float sum = 0, product_sum = 0;
#pragma unroll 8
  for (int64_t c = threadIdx.x % kWarp; c < width; c += kWarp) {
    const float g = gradient[c] * scale[c];
    sum += g;
    product_sum += g * ((in[c] - mean) * inverse);
  }
  return {mean, inverse, SumOfLanes(sum) * share,
          SumOfLanes(product_sum) * share};
}

// With n = (x - mean) inverse and g = dy scale: dx = inverse (g - mean(g) - n
// mean(g n)). Shapes as above; dx: [rows, width]. partials[block, 0, column] is
// the sum of dy n over the block's rows, and partials[block, 1, column] the sum
// of dy.
//
// For each group of rows, the warps first compute the terms of two rows each.
// Then each thread computes the gradients of its columns, whose sums it owns,
// from elements that the cache holds. Four blocks run on an SM at once: see
// RowChunks.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads, 4)
    BackwardKernel(int64_t rows, int64_t width, float share,
                   int64_t rows_per_chunk, const T* __restrict__ x,
                   const float* __restrict__ scale,
                   const float* __restrict__ means,
                   const float* __restrict__ inverses, const T* __restrict__ dy,
                   bool accumulate, T* __restrict__ dx,
                   float* __restrict__ partials) {
  __shared__ RowTerms terms[kGroupRows];
  const int64_t begin = blockIdx.x * rows_per_chunk;
  const int64_t end =
      begin + rows_per_chunk < rows ? begin + rows_per_chunk : rows;
  float* __restrict__ scale_sums = partials + 2 * blockIdx.x * width;
  float* __restrict__ shift_sums = scale_sums + width;
  for (int64_t first = begin; first < end; first += kGroupRows) {
    const int count =
        static_cast<int>(end - first < kGroupRows ? end - first : kGroupRows);
    for (int r = threadIdx.x / kWarp; r < count; r += kRowsPerBlock) {
      const int64_t row = first + r;
      const RowTerms row_terms =
          TermsOf(width, share, x + row * width, scale, dy + row * width,
                  means[row], inverses[row]);
      if (threadIdx.x % kWarp == 0) terms[r] = row_terms;
    }
    __syncthreads();
    for (int64_t c = threadIdx.x; c < width; c += kBlockThreads) {
      const float factor = scale[c];
      float scale_sum = first == begin ? 0.0f : scale_sums[c];
      float shift_sum = first == begin ? 0.0f : shift_sums[c];
#pragma unroll 4
      for (int r = 0; r < count; ++r) {
        const RowTerms row = terms[r];
        const int64_t i = (first + r) * width + c;
        const float gradient = dy[i];
        const float normalized = (x[i] - row.mean) * row.inverse;
        const float value = row.inverse * (gradient * factor - row.g_mean -
                                           normalized * row.product_mean);
        if (dx != nullptr) dx[i] = accumulate ? float{dx[i]} + value : value;
        scale_sum += gradient * normalized;
        shift_sum += gradient;
      }
      scale_sums[c] = scale_sum;
      shift_sums[c] = shift_sum;
    }
    __syncthreads();
  }
}

// ---- Rows that a warp holds in registers.

// Number of groups that a lane holds at most: enough for rows of 1,024 bfloat16
// elements. In backward, more would need more than 128 registers for each
// thread, and fewer than two thread blocks would run on an SM at once.
constexpr int kHeldGroups = 4;
template <typename T>
inline constexpr int kHeldWidth = kHeldGroups* kWarp* kGroup<T>;

// Returns true if the lanes of a warp can hold a row, and can load and store
// rows of these matrices in groups.
template <typename T>
bool LanesHoldRow(int64_t width, std::initializer_list<const void*> matrices) {
  for (const void* matrix : matrices) {
    if (!IsAligned<Group<float>>(matrix)) return false;
  }
  return width % kGroup<T> == 0 && width <= kHeldWidth<T>;
}

// Calls function(g, column) for each group of the lane; the group's first
// element is at `column`.
template <typename T, typename Function>
__device__ inline void ForEachHeld(int width, const Function& function) {
#pragma unroll
  for (int g = 0; g < kHeldGroups; ++g) {
    const int column =
        (g * kWarp + static_cast<int>(threadIdx.x) % kWarp) * kGroup<T>;
    if (column < width) function(g, column);
  }
}

// Like ForwardKernel.
template <typename T, bool kAdds>
__global__ void __launch_bounds__(kBlockThreads)
    HeldForwardKernel(int64_t rows, int width, float share,
                      const T* __restrict__ x, const T* branch, T* sum,
                      const float* __restrict__ scale,
                      const float* __restrict__ shift, float epsilon,
                      T* __restrict__ y, float* __restrict__ means,
                      float* __restrict__ inverses) {
  const int64_t row = RowOfWarp();
  if (row >= rows) return;  // The whole warp returns.
  const int64_t begin = row * width;
  Group<T> held[kHeldGroups];
  ForEachHeld<T>(width, [&](int g, int c) {
    held[g] = LoadGroup(x + begin + c);
    if constexpr (kAdds) {
      const Group<T> added = LoadGroup(branch + begin + c);
#pragma unroll
      for (int n = 0; n < kGroup<T>; ++n) {
        held[g].values[n] = float{added.values[n]} + float{held[g].values[n]};
      }
    }
  });
  float total = 0;
  ForEachHeld<T>(width, [&](int g, int c) {
    if constexpr (kAdds) StoreGroup(held[g], sum + begin + c);
#pragma unroll
    for (int n = 0; n < kGroup<T>; ++n) total += held[g].values[n];
  });
  const float mean = SumOfLanes(total) * share;
  float squares = 0;
  ForEachHeld<T>(width, [&](int g, int) {
#pragma unroll
    for (int n = 0; n < kGroup<T>; ++n) {
      const float difference = float{held[g].values[n]} - mean;
      squares += difference * difference;
    }
  });
  const float variance = SumOfLanes(squares) * share;
  const float inverse = 1.0f / sqrtf(variance + epsilon);
  ForEachHeld<T>(width, [&](int g, int c) {
    Group<T> out;
#pragma unroll
    for (int n = 0; n < kGroup<T>; ++n) {
      const float normalized = (float{held[g].values[n]} - mean) * inverse;
      out.values[n] =
          normalized * scale[c + n] + (shift == nullptr ? 0.0f : shift[c + n]);
    }
    StoreGroup(out, y + begin + c);
  });
  if (threadIdx.x % kWarp == 0) {
    means[row] = mean;
    inverses[row] = inverse;
  }
}

// Like BackwardKernel. The warps of a thread block process rows in turn, and
// each lane sums the columns of its groups; in the end the sums of the warps
// are added in order. Two thread blocks run on an SM at once: see RowChunks.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads, 2)
    HeldBackwardKernel(int64_t rows, int width, float share,
                       int64_t rows_per_chunk, const T* __restrict__ x,
                       const float* __restrict__ scale,
                       const float* __restrict__ means,
                       const float* __restrict__ inverses,
                       const T* __restrict__ dy, bool accumulate, T* dx,
                       float* __restrict__ partials) {
  __shared__ float columns[2][kHeldWidth<T>];
  float scale_sums[kHeldGroups][kGroup<T>] = {};
  float shift_sums[kHeldGroups][kGroup<T>] = {};
  const int64_t begin = blockIdx.x * rows_per_chunk;
  const int64_t end =
      begin + rows_per_chunk < rows ? begin + rows_per_chunk : rows;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  for (int64_t row = begin + warp; row < end; row += kRowsPerBlock) {
    const int64_t first = row * width;
    Group<T> in[kHeldGroups], gradients[kHeldGroups];
    ForEachHeld<T>(width, [&](int g, int c) {
      in[g] = LoadGroup(x + first + c);
      gradients[g] = LoadGroup(dy + first + c);
    });
    const float mean = means[row], inverse = inverses[row];
    float sum = 0, product_sum = 0;
    ForEachHeld<T>(width, [&](int g, int c) {
#pragma unroll
      for (int n = 0; n < kGroup<T>; ++n) {
        const float gradient = gradients[g].values[n];
        const float normalized = (float{in[g].values[n]} - mean) * inverse;
        const float scaled = gradient * scale[c + n];
        sum += scaled;
        product_sum += scaled * normalized;
        scale_sums[g][n] += gradient * normalized;
        shift_sums[g][n] += gradient;
      }
    });
    if (dx == nullptr) continue;
    const float g_mean = SumOfLanes(sum) * share;
    const float product_mean = SumOfLanes(product_sum) * share;
    ForEachHeld<T>(width, [&](int g, int c) {
      Group<T> out = {};
      if (accumulate) out = LoadGroup(dx + first + c);
#pragma unroll
      for (int n = 0; n < kGroup<T>; ++n) {
        const float gradient = gradients[g].values[n];
        const float normalized = (float{in[g].values[n]} - mean) * inverse;
        const float value = inverse * (gradient * scale[c + n] - g_mean -
                                       normalized * product_mean);
        out.values[n] = accumulate ? float{out.values[n]} + value : value;
      }
      StoreGroup(out, dx + first + c);
    });
  }
  for (int turn = 0; turn < kRowsPerBlock; ++turn) {
    if (warp == turn) {
      ForEachHeld<T>(width, [&](int g, int c) {
#pragma unroll
        for (int n = 0; n < kGroup<T>; ++n) {
          float& scale_sum = columns[0][c + n];
          float& shift_sum = columns[1][c + n];
          scale_sum = (turn == 0 ? 0.0f : scale_sum) + scale_sums[g][n];
          shift_sum = (turn == 0 ? 0.0f : shift_sum) + shift_sums[g][n];
        }
      });
    }
    __syncthreads();
  }
  for (int c = static_cast<int>(threadIdx.x); c < width; c += kBlockThreads) {
    partials[(2 * blockIdx.x) * width + c] = columns[0][c];
    partials[(2 * blockIdx.x + 1) * width + c] = columns[1][c];
  }
}

// T is what Real stands for.
template <typename T>
class CudaLayerNormOps final : public LayerNormOps {
 public:
  explicit CudaLayerNormOps(CudaContext* context) : context_(context) {}

  void Forward(const ForwardArguments& args) override {
    Stream& stream = context_->Current();
    const int64_t width = args.width;
    const int64_t blocks = CeilDivide(args.rows, kRowsPerBlock);
    const T *const x = As<T>(args.x), *const branch = As<T>(args.branch);
    T *const sum = As<T>(args.sum), *const y = As<T>(args.y);
    if (LanesHoldRow<T>(width, {x, branch, sum, y})) {
      Launch(stream, "LayerNormForward", blocks, kBlockThreads,
             branch == nullptr ? &HeldForwardKernel<T, false>
                               : &HeldForwardKernel<T, true>,
             args.rows, static_cast<int>(width),
             1.0f / static_cast<float>(width), x, branch, sum, args.scale,
             args.shift, args.epsilon, y, args.mean, args.inverse_deviation);
      return;
    }
    Launch(
        stream, "LayerNormForward", blocks, kBlockThreads,
        branch == nullptr ? &ForwardKernel<T, false> : &ForwardKernel<T, true>,
        args.rows, width, x, branch, sum, args.scale, args.shift, args.epsilon,
        y, args.mean, args.inverse_deviation);
  }
  void Backward(const BackwardArguments& args) override {
    Stream& stream = context_->Current();
    const int64_t rows = args.rows, width = args.width;
    const T *const x = As<T>(args.x), *const dy = As<T>(args.dy);
    T* const dx = As<T>(args.dx);
    const bool held = LanesHoldRow<T>(width, {x, dy, dx});
    const RowChunks layout =
        held ? RowChunks(rows, /*blocks=*/256, /*group=*/kRowsPerBlock)
             : RowChunks(rows, /*blocks=*/512, /*group=*/kGroupRows);
    const float share = 1.0f / static_cast<float>(width);
    float* const partials =
        context_->scratch().Floats(layout.chunks * 2 * width);
    if (held) {
      Launch(stream, "LayerNormBackward", layout.chunks, kBlockThreads,
             &HeldBackwardKernel<T>, rows, static_cast<int>(width), share,
             layout.rows_per_chunk, x, args.scale, args.mean,
             args.inverse_deviation, dy, args.accumulate, dx, partials);
    } else {
      Launch(stream, "LayerNormBackward", layout.chunks, kBlockThreads,
             &BackwardKernel<T>, rows, width, share, layout.rows_per_chunk, x,
             args.scale, args.mean, args.inverse_deviation, dy, args.accumulate,
             dx, partials);
    }
    FinishSums<2>(stream, "LayerNormBackward", layout.chunks, width, partials,
                  {{args.dscale, args.dshift}});
  }

 private:
  CudaContext* const context_;
};

}  // namespace

std::unique_ptr<LayerNormOps> CreateLayerNormOps(Precision precision,
                                                 CudaContext* context) {
  return CreateOps<LayerNormOps, CudaLayerNormOps>(precision, context);
}

}  // namespace tributary::cuda
