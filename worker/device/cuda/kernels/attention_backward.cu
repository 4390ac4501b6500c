// With P the probabilities, f their dropout factors and D[i] = dy[i] y[i]:
//   dv[j] = sum over i of P[i, j] f[i, j] dy[i]
//   dS[i, j] = P[i, j] (f[i, j] dy[i] v[j] - D[i]) / sqrt(head_size)
//   dq[i] = sum over j of dS[i, j] k[j],  dk[j] = sum over i of dS[i, j] q[i]
// Two kernels compute the sums over queries and over keys, and each recomputes
// P. Every block therefore owns its outputs, and no atomics are needed.
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

// Number of blocks that an SM must be able to run at once. Two limit a thread
// to 128 registers, of which nvcc would spill some in float32.
template <typename T>
constexpr int kBlocksAtOnce = std::is_same_v<T, float> ? 1 : 2;

template <typename T>
struct BackwardInputs {
  AttentionShape shape;
  const int32_t* lengths;  // Null if all positions exist.
  const T* qkv;
  const T* dy;
  const float* sums;  // Logarithms of the sums, [batch, heads, time].
  const float* dots;  // D, [batch, heads, time].
  AttentionDropout dropout;
  float scale;  // 1 / sqrt(head_size).
};

// dots[b, h, t] = y[b, t, h, :] dy[b, t, h, :], computed by one warp each.
template <typename T>
__global__ void DotsKernel(AttentionShape s, const T* y, const T* dy,
                           float* dots) {
  const int64_t row =
      static_cast<int64_t>(blockIdx.x) * (kBlockThreads / kWarp) +
      threadIdx.x / kWarp;  // Row of [batch, time, heads].
  if (row >= s.batch * s.time * s.heads) return;
  const int lane = threadIdx.x % kWarp;
  float sum = 0;
  for (int64_t d = lane; d < s.head_size; d += kWarp) {
    sum += float{y[row * s.head_size + d]} * float{dy[row * s.head_size + d]};
  }
  sum = SumOfLanes(sum);
  const int64_t head = row % s.heads, time = row / s.heads % s.time;
  const int64_t batch = row / s.heads / s.time;
  if (lane == 0) dots[(batch * s.heads + head) * s.time + time] = sum;
}

// Logarithm of a row's sum, and D. Zero beyond the last row.
struct RowValues {
  float sum, dot;
};
template <typename T>
__device__ inline RowValues RowValuesOf(const BackwardInputs<T>& in,
                                        const BlockPlace& place, int query) {
  if (query >= in.shape.time) return {0.0f, 0.0f};
  const int64_t row =
      (place.batch * in.shape.heads + place.head) * in.shape.time + query;
  return {in.sums[row], in.dots[row]};
}

template <typename T>
__device__ inline float Probability(const BackwardInputs<T>& in, int length,
                                    int query, int key, float score,
                                    float sum) {
  // A key that a query sees is in range, so only queries need a check.
  return key < KeysOf(in.shape, length, query) && query < length
             ? expf(score * in.scale - sum)
             : 0.0f;
}

// Computes dk and dv of a tile of keys, kTile columns of them. Scores are
// transposed here: rows are keys, columns are queries.
template <typename T>
__global__ void __launch_bounds__(kTileThreads, kBlocksAtOnce<T>)
    KeyGradientsKernel(BackwardInputs<T> in, T* dqkv) {
  __shared__ TileProducts<T> products;
  const AttentionShape& s = in.shape;
  const BlockPlace place = PlaceOf(s, blockIdx.x);
  const HeadMatrix<T> q = PartOf(s, place, in.qkv, 0),
                      k = PartOf(s, place, in.qkv, 1),
                      v = PartOf(s, place, in.qkv, 2),
                      dy = OutputOf(s, place, in.dy);
  const int first_key = place.tile * kTile;
  const int length = LengthOf(s, place, in.lengths);
  const AttentionDropout dropout = Based(in.dropout);
  const float keep_scale = 1.0f / (1.0f - dropout.rate);

  float dk[4][4] = {}, dv[4][4] = {};
  for (int tile = s.causal ? place.tile : 0; tile < TilesOf(s); ++tile) {
    const int first_query = tile * kTile;
    float p[4][4] = {}, ds[4][4] = {};
    const unsigned kept = KeptTile(
        s, place, dropout, first_query + 4 * Across(), first_key + 4 * Down());
    float dots[4];
    products.AddInner(k, first_key, q, first_query, p);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int query = first_query + 4 * Across() + j;
      const RowValues row = RowValuesOf(in, place, query);
      dots[j] = row.dot;
      for (int i = 0; i < 4; ++i) {
        p[i][j] = Probability(in, length, query, first_key + 4 * Down() + i,
                              p[i][j], row.sum);
      }
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float dropped[4];
      for (int j = 0; j < 4; ++j) {
        dropped[j] = kept >> (4 * j + i) & 1 ? p[i][j] * keep_scale : 0.0f;
      }
      products.StoreWeights(i, dropped);
    }
    products.AddWeighted(dy, first_query, place.first_column, dv);

    // The barriers of AddInner also end the use of the weights.
    products.AddInner(v, first_key, dy, first_query, ds);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      for (int j = 0; j < 4; ++j) {
        const float dp = kept >> (4 * j + i) & 1 ? ds[i][j] * keep_scale : 0.0f;
        ds[i][j] = p[i][j] * (dp - dots[j]) * in.scale;
      }
      products.StoreWeights(i, ds[i]);
    }
    products.AddWeighted(q, first_query, place.first_column, dk);
  }
  StoreRows(dk, first_key, place.first_column, s.time, s.head_size, k.stride,
            dqkv + PartOffset(s, place, 1));
  StoreRows(dv, first_key, place.first_column, s.time, s.head_size, v.stride,
            dqkv + PartOffset(s, place, 2));
}

// Computes dq of a tile of queries, kTile columns of it.
template <typename T>
__global__ void __launch_bounds__(kTileThreads, kBlocksAtOnce<T>)
    QueryGradientsKernel(BackwardInputs<T> in, T* dqkv) {
  __shared__ TileProducts<T> products;
  const AttentionShape& s = in.shape;
  BlockPlace place = PlaceOf(s, blockIdx.x);
  place.tile = TilesOf(s) - 1 - place.tile;  // Tiles with the most keys first.
  const HeadMatrix<T> q = PartOf(s, place, in.qkv, 0),
                      k = PartOf(s, place, in.qkv, 1),
                      v = PartOf(s, place, in.qkv, 2),
                      dy = OutputOf(s, place, in.dy);
  const int first_query = place.tile * kTile;
  const int length = LengthOf(s, place, in.lengths);
  const int key_tiles =
      s.causal ? place.tile + 1 : static_cast<int>(CeilDivide(length, kTile));
  const AttentionDropout dropout = Based(in.dropout);
  const float keep_scale = 1.0f / (1.0f - dropout.rate);

  float dq[4][4] = {};
  for (int tile = 0; tile < key_tiles; ++tile) {
    const int first_key = tile * kTile;
    float p[4][4] = {}, ds[4][4] = {};
    const unsigned kept = KeptTile(s, place, dropout, first_query + 4 * Down(),
                                   first_key + 4 * Across());
    products.AddInner(q, first_query, k, first_key, p);
    products.AddInner(dy, first_query, v, first_key, ds);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int query = first_query + 4 * Down() + i;
      const RowValues row = RowValuesOf(in, place, query);
      for (int j = 0; j < 4; ++j) {
        const float probability = Probability(
            in, length, query, first_key + 4 * Across() + j, p[i][j], row.sum);
        const float dp = kept >> (4 * i + j) & 1 ? ds[i][j] * keep_scale : 0.0f;
        ds[i][j] = probability * (dp - row.dot) * in.scale;
      }
      products.StoreWeights(i, ds[i]);
    }
    products.AddWeighted(k, first_key, place.first_column, dq);
  }
  StoreRows(dq, first_query, place.first_column, s.time, s.head_size, q.stride,
            dqkv + PartOffset(s, place, 0));
}

}  // namespace

template <typename T>
void AttentionBackward(Stream& stream, Scratch& scratch,
                       const AttentionShape& shape, const int32_t* lengths,
                       const T* qkv, const T* y, const float* logarithmic_sums,
                       const T* dy, const AttentionDropout& dropout, T* dqkv) {
  if constexpr (std::is_same_v<T, Bfloat16>) {
    if (shape.causal &&
        FragmentAttentionBackward(stream, scratch, shape, qkv, y,
                                  logarithmic_sums, dy, dropout, dqkv)) {
      return;
    }
  }
  const int64_t rows = shape.batch * shape.time * shape.heads;
  float* const dots = scratch.Floats(rows);
  Launch(stream, "AttentionBackward", CeilDivide(rows, kBlockThreads / kWarp),
         kBlockThreads, &DotsKernel<T>, shape, y, dy, dots);
  BackwardInputs<T> in;
  in.shape = shape;
  in.lengths = lengths;
  in.qkv = qkv;
  in.dy = dy;
  in.sums = logarithmic_sums;
  in.dots = dots;
  in.dropout = dropout;
  in.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_size));
  Launch(stream, "AttentionBackward", BlocksOf(shape), dim3(kTileThreads),
         &KeyGradientsKernel<T>, in, dqkv);
  Launch(stream, "AttentionBackward", BlocksOf(shape), dim3(kTileThreads),
         &QueryGradientsKernel<T>, in, dqkv);
}

#define TRIBUTARY_INSTANTIATE(T)                                          \
  template void AttentionBackward(                                        \
      Stream&, Scratch&, const AttentionShape&, const int32_t*, const T*, \
      const T*, const float*, const T*, const AttentionDropout&, T*);
TRIBUTARY_INSTANTIATE(float)
TRIBUTARY_INSTANTIATE(Bfloat16)
#undef TRIBUTARY_INSTANTIATE

}  // namespace tributary::cuda
