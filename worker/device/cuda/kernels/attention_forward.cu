#include <cmath>
#include <type_traits>

#include "common/cuda/launch.h"
#include "worker/device/cuda/kernels/attention.h"
#include "worker/device/cuda/kernels/attention_bfloat16.h"
#include "worker/device/cuda/kernels/attention_tile.h"
#include "worker/device/cuda/kernels/reduction.h"
#include "worker/device/cuda/kernels/tile_products.h"

namespace tributary::cuda {
namespace {

// State for rows 4 down + i of a tile of queries, over the keys seen so far.
// The kSide threads of a row hold the same values.
struct OnlineSoftmax {
  // Maximum of the scores, and sum of exp(score - maximum).
  float maximum[4], sum[4];
};

// Replaces scores[i][j] of keys first_key + 4 across + j, not yet scaled, by
// exp(score - maximum), or by 0 for keys that the query does not see. Updates
// `softmax`, and rescales `outputs`, sums weighted by earlier exponentials, to
// the new maximum.
template <bool kCausal>
__device__ void Exponentials(int length, int first_query, int first_key,
                             float scale, float (&scores)[4][4],
                             OnlineSoftmax& softmax, float (&outputs)[4][4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const int query = first_query + 4 * Down() + i;
    const int keys = kCausal ? query + 1 : length;
    float maximum = softmax.maximum[i];
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int key = first_key + 4 * Across() + j;
      scores[i][j] = key < keys ? scores[i][j] * scale : -INFINITY;
      maximum = fmaxf(maximum, scores[i][j]);
    }
    maximum = MaximumOfLanes(maximum, kSide);
    // The first tile has a key for each query, so the maximum is finite unless
    // the scores are not. Before it the maximum is -infinity, which makes the
    // factor 0.
    const float factor = expf(softmax.maximum[i] - maximum);
    float sum = 0;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      scores[i][j] = expf(scores[i][j] - maximum);
      sum += scores[i][j];
      outputs[i][j] *= factor;
    }
    softmax.sum[i] = softmax.sum[i] * factor + SumOfLanes(sum, kSide);
    softmax.maximum[i] = maximum;
  }
}

// y and sums as in attention.h. A block computes kTile rows of y of one head,
// in a chunk of kTile columns.
//
// A template of kCausal, so that causal attention needs no registers for
// lengths.
template <typename T, bool kCausal>
__global__ void __launch_bounds__(kTileThreads, kCausal ? 2 : 1)
    ForwardKernel(AttentionShape s, const int32_t* lengths, const T* qkv,
                  AttentionDropout unbased, float scale, T* y, float* sums) {
  __shared__ TileProducts<T> products;
  BlockPlace place = PlaceOf(s, blockIdx.x);
  place.tile = TilesOf(s) - 1 - place.tile;  // Tiles with the most keys first.
  const HeadMatrix<T> q = PartOf(s, place, qkv, 0),
                      k = PartOf(s, place, qkv, 1),
                      v = PartOf(s, place, qkv, 2);
  const int first_query = place.tile * kTile;
  const int length =
      kCausal ? static_cast<int>(s.time) : LengthOf(s, place, lengths);
  const int key_tiles =
      kCausal ? place.tile + 1 : static_cast<int>(CeilDivide(length, kTile));
  const AttentionDropout dropout = Based(unbased);
  const float keep_scale = 1.0f / (1.0f - dropout.rate);

  OnlineSoftmax softmax;
  for (int i = 0; i < 4; ++i) {
    softmax.maximum[i] = -INFINITY;
    softmax.sum[i] = 0;
  }
  float outputs[4][4] = {};
  for (int tile = 0; tile < key_tiles; ++tile) {
    const int first_key = tile * kTile;
    float p[4][4] = {};
    products.AddInner(q, first_query, k, first_key, p);
    Exponentials<kCausal>(length, first_query, first_key, scale, p, softmax,
                          outputs);
    const unsigned kept = KeptTile(s, place, dropout, first_query + 4 * Down(),
                                   first_key + 4 * Across());
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) {
        p[i][j] = kept >> (4 * i + j) & 1 ? p[i][j] * keep_scale : 0.0f;
      }
      products.StoreWeights(i, p[i]);
    }
    products.AddWeighted(v, first_key, place.first_column, outputs);
  }

  for (int i = 0; i < 4; ++i) {
    const int query = first_query + 4 * Down() + i;
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      outputs[i][j] =
          kCausal || query < length ? outputs[i][j] / softmax.sum[i] : 0.0f;
    }
    if (query < s.time && place.first_column == 0 && Across() == 0) {
      sums[(place.batch * s.heads + place.head) * s.time + query] =
          softmax.maximum[i] + logf(softmax.sum[i]);
    }
  }
  StoreRows(outputs, first_query, place.first_column, s.time, s.head_size,
            s.heads * s.head_size, y + OutputOffset(s, place));
}

}  // namespace

template <typename T>
void AttentionForward(Stream& stream, const AttentionShape& shape,
                      const int32_t* lengths, const T* qkv,
                      const AttentionDropout& dropout, T* y,
                      float* logarithmic_sums) {
  if constexpr (std::is_same_v<T, Bfloat16>) {
    if (shape.causal && FragmentAttentionForward(stream, shape, qkv, dropout, y,
                                                 logarithmic_sums)) {
      return;
    }
  }
  const float scale = 1.0f / std::sqrt(static_cast<float>(shape.head_size));
  Launch(stream, "AttentionForward", BlocksOf(shape), dim3(kTileThreads),
         shape.causal ? &ForwardKernel<T, true> : &ForwardKernel<T, false>,
         shape, lengths, qkv, dropout, scale, y, logarithmic_sums);
}

#define TRIBUTARY_INSTANTIATE(T)                                 \
  template void AttentionForward(Stream&, const AttentionShape&, \
                                 const int32_t*, const T*,       \
                                 const AttentionDropout&, T*, float*);
TRIBUTARY_INSTANTIATE(float)
TRIBUTARY_INSTANTIATE(Bfloat16)
#undef TRIBUTARY_INSTANTIATE

}  // namespace tributary::cuda
