// A block computes kQueries rows of y of one head. It passes over the keys
// once, tile by tile, and rescales its sums when a row's maximum grows.
#include <algorithm>
#include <cmath>

#include "common/cuda/launch.h"
#include "worker/device/cuda/kernels/attention_bfloat16.h"
#include "worker/device/cuda/kernels/attention_fragments.h"

namespace tributary::cuda {
namespace {

// More rows for each warp mean fewer bytes of shared memory for each product;
// larger heads leave registers for fewer rows.
template <int kSize>
struct Sizes {
  static constexpr int kM = kSize <= 64 ? 2 : 1;
  static constexpr int kWarpQueries = 16 * kM;
  static constexpr int kQueries = kFragmentWarps * kWarpQueries;
  static constexpr int kKeys = kSize <= 64 ? 64 : 32;
  static constexpr int kN = kKeys / 8;
};

// State of the rows of each part: [m][0] of row g, [m][1] of row g + 8. Scores
// are not yet scaled. Each lane has the sum over the keys that it holds.
template <int kM>
struct OnlineSoftmax {
  __device__ OnlineSoftmax() {
#pragma unroll
    for (int m = 0; m < kM; ++m) maximum[m][0] = maximum[m][1] = -INFINITY;
  }
  float maximum[kM][2], sum[kM][2] = {};
};

// Replaces scores by exp(scale (score - maximum)); `scale` includes log2(e).
// Updates `softmax`, and rescales `outputs` to the new maximum.
template <int kM, int kN, int kOutputs>
__device__ inline void Exponentials(float scale, float (&scores)[kM][kN][4],
                                    OnlineSoftmax<kM>& softmax,
                                    float (&outputs)[kM][kOutputs][4]) {
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float maximum = softmax.maximum[m][half];
#pragma unroll
      for (int n = 0; n < kN; ++n) {
        maximum = fmaxf(
            maximum, fmaxf(scores[m][n][2 * half], scores[m][n][2 * half + 1]));
      }
      maximum = MaximumOfLanes(maximum, 4);
      // The first tile has a key for each query, so the maximum is finite
      // unless the scores are not. Before it the maximum is -infinity, which
      // makes the factor 0.
      const float factor = Exp2((softmax.maximum[m][half] - maximum) * scale);
      const float offset = maximum * scale;
      float sum = softmax.sum[m][half] * factor;
#pragma unroll
      for (int n = 0; n < kN; ++n) {
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          scores[m][n][e] = Exp2(scores[m][n][e] * scale - offset);
          sum += scores[m][n][e];
        }
      }
#pragma unroll
      for (int n = 0; n < kOutputs; ++n) {
        outputs[m][n][2 * half] *= factor;
        outputs[m][n][2 * half + 1] *= factor;
      }
      softmax.sum[m][half] = sum;
      softmax.maximum[m][half] = maximum;
    }
  }
}

// Sets the scores of keys after their query to -infinity. `distance` is from
// the lane's first key to its first query.
template <int kM, int kN>
__device__ inline void MaskLaterKeys(int distance, float (&scores)[kM][kN][4]) {
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int n = 0; n < kN; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        if (8 * n + e % 2 > distance + 16 * m + e / 2 * 8) {
          scores[m][n][e] = -INFINITY;
        }
      }
    }
  }
}

template <int kSize, bool kDropout>
__global__ void __launch_bounds__(kFragmentThreads, 2)
    FragmentForwardKernel(AttentionShape s, int64_t heads_at_once,
                          const Bfloat16* qkv, AttentionDropout unbased,
                          float scale, Bfloat16* y, float* sums) {
  constexpr int kM = Sizes<kSize>::kM, kN = Sizes<kSize>::kN;
  constexpr int kQueries = Sizes<kSize>::kQueries, kKeys = Sizes<kSize>::kKeys;
  constexpr int kWarpQueries = Sizes<kSize>::kWarpQueries;
  __shared__ TilePairs<kSize, kKeys> shared;
  static_assert(kQueries <= 4 * kKeys, "the queries pass through the tiles");

  const int64_t query_tiles = CeilDivide(s.time, kQueries);
  BlockPlace place = FragmentPlaceOf(s, query_tiles, heads_at_once, blockIdx.x);
  place.tile = query_tiles - 1 - place.tile;  // Tiles with the most keys first.
  const int block_query = static_cast<int>(place.tile) * kQueries;
  const int warp_query = block_query + WarpInBlock() * kWarpQueries;
  const HeadMatrix<Bfloat16> k = PartOf(s, place, qkv, 1),
                             v = PartOf(s, place, qkv, 2);

  RowFragments<kSize> q[kM];
  CopyRows<kSize, kQueries>(PartOf(s, place, qkv, 0), block_query,
                            shared.Matrix(0, 0));
  WaitForCopies();
  __syncthreads();
  LoadWarpRows<kSize>(shared.Matrix(0, 0), q);
  __syncthreads();

  float outputs[kM][kSize / 8][4] = {};
  OnlineSoftmax<kM> softmax;
  const AttentionDropout dropout = kDropout ? Based(unbased) : unbased;

  const int keys = std::min(block_query + kQueries, static_cast<int>(s.time));
  const int tiles = static_cast<int>(CeilDivide(keys, kKeys));
  const auto copy_tile = [&](int tile) {
    CopyRows<kSize, kKeys>(k, tile * kKeys, shared.Matrix(tile, 0));
    CopyRows<kSize, kKeys>(v, tile * kKeys, shared.Matrix(tile, 1));
  };
  ForEachTile(0, tiles, copy_tile, [&](int tile) {
    const int first_key = tile * kKeys;
    if (first_key >= warp_query + kWarpQueries) return;
    float p[kM][kN][4] = {};
    AddInner<kSize>(q, shared.Matrix(tile, 0), p);
    if (first_key + kKeys > warp_query) {
      MaskLaterKeys(warp_query - first_key + FragmentRow() - FragmentColumn(),
                    p);
    }
    Exponentials(scale * kLog2E, p, softmax, outputs);
    if constexpr (kDropout) {
#pragma unroll
      for (int m = 0; m < kM; ++m) {
        const uint64_t first =
            ProbabilityNumber(s, place, warp_query + 16 * m, first_key);
        ZeroDropped(KeptByQuery<kN>(dropout, first, s.time), p[m]);
      }
    }
    AddWeighted<kSize>(p, shared.Matrix(tile, 1), outputs);
  });

  const float keep_scale = kDropout ? 1.0f / (1.0f - dropout.rate) : 1.0f;
#pragma unroll
  for (int m = 0; m < kM; ++m) {
    float factors[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float sum = SumOfLanes(softmax.sum[m][half], 4);
      factors[half] = keep_scale / sum;
      const int query = warp_query + 16 * m + FragmentRow() + 8 * half;
      if (query < s.time && FragmentColumn() == 0) {
        sums[(place.batch * s.heads + place.head) * s.time + query] =
            softmax.maximum[m][half] * scale + logf(sum);
      }
    }
    StoreFragments<kSize>(outputs[m], factors, warp_query + 16 * m, s.time,
                          s.heads * kSize, y + OutputOffset(s, place));
  }
}

template <int kSize>
void LaunchForward(Stream& stream, const AttentionShape& shape,
                   const Bfloat16* qkv, const AttentionDropout& dropout,
                   Bfloat16* y, float* sums) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(kSize));
  const int64_t blocks = shape.batch * shape.heads *
                         CeilDivide(shape.time, Sizes<kSize>::kQueries);
  Launch(stream, "AttentionForward", blocks, dim3(kFragmentThreads),
         dropout.rate > 0 ? &FragmentForwardKernel<kSize, true>
                          : &FragmentForwardKernel<kSize, false>,
         shape, HeadsAtOnce(shape), qkv, dropout, scale, y, sums);
}

}  // namespace

bool FragmentAttentionForward(Stream& stream, const AttentionShape& shape,
                              const Bfloat16* qkv,
                              const AttentionDropout& dropout, Bfloat16* y,
                              float* logarithmic_sums) {
  if (!SupportsFragments(shape, {qkv, y})) return false;
  const auto launch = shape.head_size == 32   ? &LaunchForward<32>
                      : shape.head_size == 64 ? &LaunchForward<64>
                                              : &LaunchForward<128>;
  launch(stream, shape, qkv, dropout, y, logarithmic_sums);
  return true;
}

}  // namespace tributary::cuda
