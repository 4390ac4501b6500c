// The formulas of attention_backward.cu. The first kernel owns rows of dq and
// passes over keys; the second owns rows of dk and dv and passes over queries.
// Each recomputes P, so no atomics are needed.
#include <algorithm>
#include <cmath>

#include "common/cuda/launch.h"
#include "worker/device/cuda/kernels/attention_bfloat16.h"
#include "worker/device/cuda/kernels/attention_fragments.h"

namespace tributary::cuda {
namespace {

struct Gradients {
  AttentionShape shape;
  int64_t heads_at_once;
  const Bfloat16* qkv;
  const Bfloat16* y;
  const Bfloat16* dy;
  const float* sums;  // Logarithms of the sums, [batch, heads, time].
  float* dots;        // D, [batch, heads, time].
  float* sums2;       // The sums' logarithms to base 2, [batch, heads, time].
  AttentionDropout dropout;
  float scale;  // 1 / sqrt(head_size).
  Bfloat16* dqkv;
};

// Replaces scores, not yet scaled, by probabilities, P[m][n][e] = 2^(scale
// score - sum2(m, n, e)), and by 0 where later(m, n, e); `scale` includes
// log2(e).
template <int kM, int kN, typename Sum, typename Later>
__device__ inline void Probabilities(float scale, const Sum& sum2, bool masked,
                                     const Later& later,
                                     float (&scores)[kM][kN][4]) {
  if (masked) {
#pragma unroll
    for (int m = 0; m < kM; ++m) {
#pragma unroll
      for (int n = 0; n < kN; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          if (later(m, n, e)) scores[m][n][e] = -INFINITY;
        }
      }
    }
  }
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int n = 0; n < kN; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        scores[m][n][e] = Exp2(scores[m][n][e] * scale - sum2(m, n, e));
      }
    }
  }
}

// ---- dq.

template <int kSize>
struct QuerySizes {
  static constexpr int kM = kSize <= 64 ? 2 : 1;
  static constexpr int kWarpQueries = 16 * kM;
  static constexpr int kQueries = kFragmentWarps * kWarpQueries;
  static constexpr int kKeys = kSize <= 64 ? 64 : 32;
  // Keys whose scores are in registers at a time.
  static constexpr int kKeysAtOnce = kSize == 64 ? 16 : 32;
};

// Values of the rows of each part: [m][0] of row g, [m][1] of row g + 8.
template <int kM>
struct RowConstants {
  float dot[kM][2], sum2[kM][2];
};

// Returns D and the sums of a warp's rows, and stores them for the second
// kernel. Zero beyond the last row.
template <int kSize, int kM>
__device__ inline RowConstants<kM> ComputeConstants(
    const Gradients& in, const BlockPlace& place, int first_query,
    const RowFragments<kSize> (&dy)[kM]) {
  const AttentionShape& s = in.shape;
  const HeadMatrix<Bfloat16> y = OutputOf(s, place, in.y);
  RowConstants<kM> rows;
#pragma unroll
  for (int m = 0; m < kM; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = first_query + 16 * m + FragmentRow() + 8 * half;
      const bool inside = query < s.time;
      float dot = 0, sum = 0;
      const int64_t row = (place.batch * s.heads + place.head) * s.time + query;
      if (inside) {
        const Bfloat16* const at =
            y.data + static_cast<int64_t>(query) * y.stride + FragmentColumn();
#pragma unroll
        for (int k = 0; k < kSize / 16; ++k) {
#pragma unroll
          for (int i = 0; i < 2; ++i) {
            const uint32_t a = LoadWord(at + 16 * k + 8 * i);
            const uint32_t b = dy[m][k][2 * i + half];
            dot += LowOf(a) * LowOf(b);
            dot += HighOf(a) * HighOf(b);
          }
        }
        sum = in.sums[row] * kLog2E;
      }
      dot = SumOfLanes(dot, 4);
      if (inside && FragmentColumn() == 0) {
        in.dots[row] = dot;
        in.sums2[row] = sum;
      }
      rows.dot[m][half] = dot;
      rows.sum2[m][half] = sum;
    }
  }
  return rows;
}

// Replaces dp, the products dy[i] v[j], by P (f dp - D). dq and dk are scaled
// in the end.
template <int kSize, bool kDropout, int kM, int kN>
__device__ inline void ScoreGradients(const Gradients& in,
                                      const BlockPlace& place, int query,
                                      int key, const RowConstants<kM>& rows,
                                      const float (&p)[kM][kN][4],
                                      float (&dp)[kM][kN][4]) {
  const float keep_scale = 1.0f / (1.0f - in.dropout.rate);
#pragma unroll
  for (int m = 0; m < kM; ++m) {
    Kept kept = {};
    if constexpr (kDropout) {
      kept = KeptByQuery<kN>(
          in.dropout, ProbabilityNumber(in.shape, place, query + 16 * m, key),
          in.shape.time);
    }
#pragma unroll
    for (int n = 0; n < kN; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        float product = dp[m][n][e];
        if (kDropout) product = IsKept(kept, n, e) ? product * keep_scale : 0;
        dp[m][n][e] = p[m][n][e] * (product - rows.dot[m][e / 2]);
      }
    }
  }
}

template <int kSize, bool kDropout>
__global__ void __launch_bounds__(kFragmentThreads, 2)
    FragmentQueryGradientsKernel(Gradients in) {
  using Of = QuerySizes<kSize>;
  constexpr int kM = Of::kM, kQueries = Of::kQueries, kKeys = Of::kKeys;
  constexpr int kN = Of::kKeysAtOnce / 8;
  __shared__ TilePairs<kSize, kKeys> shared;
  static_assert(2 * kQueries <= 4 * kKeys, "queries pass through the tiles");

  const AttentionShape& s = in.shape;
  const int64_t query_tiles = CeilDivide(s.time, kQueries);
  BlockPlace place =
      FragmentPlaceOf(s, query_tiles, in.heads_at_once, blockIdx.x);
  place.tile = query_tiles - 1 - place.tile;  // Tiles with the most keys first.
  const int block_query = static_cast<int>(place.tile) * kQueries;
  const int warp_query = block_query + WarpInBlock() * Of::kWarpQueries;
  if constexpr (kDropout) in.dropout = Based(in.dropout);

  RowFragments<kSize> q[kM], dy[kM];
  const SharedAddress queries = shared.Matrix(0, 0);
  const SharedAddress gradients = queries + kQueries * kSize * 2;
  CopyRows<kSize, kQueries>(PartOf(s, place, in.qkv, 0), block_query, queries);
  CopyRows<kSize, kQueries>(OutputOf(s, place, in.dy), block_query, gradients);
  WaitForCopies();
  __syncthreads();
  LoadWarpRows<kSize>(queries, q);
  LoadWarpRows<kSize>(gradients, dy);
  __syncthreads();
  const RowConstants<kM> rows =
      ComputeConstants<kSize>(in, place, warp_query, dy);

  float dq[kM][kSize / 8][4] = {};
  const HeadMatrix<Bfloat16> k = PartOf(s, place, in.qkv, 1),
                             v = PartOf(s, place, in.qkv, 2);
  const int keys = std::min(block_query + kQueries, static_cast<int>(s.time));
  const int tiles = static_cast<int>(CeilDivide(keys, kKeys));
  const auto copy_tile = [&](int tile) {
    CopyRows<kSize, kKeys>(k, tile * kKeys, shared.Matrix(tile, 0));
    CopyRows<kSize, kKeys>(v, tile * kKeys, shared.Matrix(tile, 1));
  };
  ForEachTile(0, tiles, copy_tile, [&](int tile) {
#pragma unroll 1
    for (int part = 0; part < kKeys / Of::kKeysAtOnce; ++part) {
      const int first_key = tile * kKeys + part * Of::kKeysAtOnce;
      const int offset = part * Of::kKeysAtOnce * kSize * 2;
      if (first_key >= warp_query + Of::kWarpQueries) break;

      float p[kM][kN][4] = {}, ds[kM][kN][4] = {};
      AddInner<kSize>(q, shared.Matrix(tile, 0) + offset, p);
      AddInner<kSize>(dy, shared.Matrix(tile, 1) + offset, ds);
      // From the lane's first key to its first query.
      const int distance =
          warp_query - first_key + FragmentRow() - FragmentColumn();
      Probabilities(
          in.scale * kLog2E,
          [&](int m, int, int e) { return rows.sum2[m][e / 2]; },
          /*masked=*/first_key + Of::kKeysAtOnce > warp_query,
          [&](int m, int n, int e) {
            return 8 * n + e % 2 > distance + 16 * m + e / 2 * 8;
          },
          p);
      ScoreGradients<kSize, kDropout>(in, place, warp_query, first_key, rows, p,
                                      ds);
      AddWeighted<kSize>(ds, shared.Matrix(tile, 0) + offset, dq);
    }
  });
#pragma unroll
  for (int m = 0; m < kM; ++m) {
    const float factors[2] = {in.scale, in.scale};
    StoreFragments<kSize>(dq[m], factors, warp_query + 16 * m, s.time, k.stride,
                          in.dqkv + PartOffset(s, place, 0));
  }
}

// ---- dk and dv. Scores are transposed: rows are keys, columns are queries.

template <int kSize>
struct KeySizes {
  static constexpr int kKeys = 16 * kFragmentWarps;
  static constexpr int kQueries = kSize <= 64 ? 64 : 16;
};

// What a tile of queries has beside q and dy, of two tiles.
template <int kQueries>
struct alignas(16) TileConstants {
  float dot[2][kQueries], sum2[2][kQueries];
};

template <int kQueries>
__device__ inline void CopyConstants(const Gradients& in,
                                     const BlockPlace& place, int first_query,
                                     int tile, TileConstants<kQueries>& to) {
  const int thread = threadIdx.x;
  if (thread >= 2 * kQueries) return;
  const int column = thread % kQueries;
  const bool is_dot = thread < kQueries;
  const float* const from = is_dot ? in.dots : in.sums2;
  const int64_t head = place.batch * in.shape.heads + place.head;
  const int query = first_query + column;
  const bool inside = query < in.shape.time;
  CopyAsync<4>(SharedAddressOf(is_dot ? &to.dot[tile % 2][column]
                                      : &to.sum2[tile % 2][column]),
               inside ? from + head * in.shape.time + query : from, inside);
}

// dv += P f dy, without the factor of the probabilities that are kept.
template <int kSize, bool kDropout, int kN>
__device__ inline void AddValueGradients(const Kept& kept,
                                         const float (&p)[1][kN][4],
                                         SharedAddress dy,
                                         float (&dv)[1][kSize / 8][4]) {
  if constexpr (kDropout) {
    float dropped[1][kN][4];
#pragma unroll
    for (int n = 0; n < kN; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) dropped[0][n][e] = p[0][n][e];
    }
    ZeroDropped(kept, dropped[0]);
    AddWeighted<kSize>(dropped, dy, dv);
  } else {
    AddWeighted<kSize>(p, dy, dv);
  }
}

template <int kSize, bool kDropout>
__global__ void __launch_bounds__(kFragmentThreads, 2)
    FragmentKeyGradientsKernel(Gradients in) {
  constexpr int kKeys = KeySizes<kSize>::kKeys;
  constexpr int kQueries = KeySizes<kSize>::kQueries;
  constexpr int kN = kQueries / 8;
  __shared__ TilePairs<kSize, (kQueries > kKeys / 2 ? kQueries : kKeys / 2)>
      shared;  // The keys and values pass through the tiles.
  __shared__ TileConstants<kQueries> constants;

  const AttentionShape& s = in.shape;
  // The first tile has the most queries.
  const BlockPlace place = FragmentPlaceOf(s, CeilDivide(s.time, kKeys),
                                           in.heads_at_once, blockIdx.x);
  const int block_key = static_cast<int>(place.tile) * kKeys;
  const int warp_key = block_key + WarpInBlock() * 16;
  if constexpr (kDropout) in.dropout = Based(in.dropout);
  const float keep_scale = 1.0f / (1.0f - in.dropout.rate);

  RowFragments<kSize> k[1], v[1];
  const SharedAddress keys = shared.Matrix(0, 0);
  const SharedAddress values = keys + kKeys * kSize * 2;
  CopyRows<kSize, kKeys>(PartOf(s, place, in.qkv, 1), block_key, keys);
  CopyRows<kSize, kKeys>(PartOf(s, place, in.qkv, 2), block_key, values);
  WaitForCopies();
  __syncthreads();
  LoadWarpRows<kSize>(keys, k);
  LoadWarpRows<kSize>(values, v);
  __syncthreads();

  float dk[1][kSize / 8][4] = {}, dv[1][kSize / 8][4] = {};
  const HeadMatrix<Bfloat16> q = PartOf(s, place, in.qkv, 0),
                             dy = OutputOf(s, place, in.dy);
  const auto copy_tile = [&](int tile) {
    const int first_query = tile * kQueries;
    CopyRows<kSize, kQueries>(q, first_query, shared.Matrix(tile, 0));
    CopyRows<kSize, kQueries>(dy, first_query, shared.Matrix(tile, 1));
    CopyConstants(in, place, first_query, tile, constants);
  };
  const int tiles = static_cast<int>(CeilDivide(s.time, kQueries));
  const int first_tile = block_key / kQueries;
  ForEachTile(first_tile, tiles, copy_tile, [&](int tile) {
    const int first_query = tile * kQueries;
    if (first_query + kQueries <= warp_key) return;
    // Queries after the last are zero in q and dy, and so add nothing.
    float p[1][kN][4] = {}, ds[1][kN][4] = {};
    AddInner<kSize>(k, shared.Matrix(tile, 0), p);
    // From the lane's first key to its first query.
    const int distance =
        first_query - warp_key + FragmentColumn() - FragmentRow();
    Probabilities(
        in.scale * kLog2E,
        [&](int, int n, int e) {
          return constants.sum2[tile % 2][8 * n + FragmentColumn() + e % 2];
        },
        /*masked=*/first_query < warp_key + 15,
        [&](int, int n, int e) { return e / 2 * 8 > distance + 8 * n + e % 2; },
        p);

    Kept kept = {};
    if constexpr (kDropout) {
      kept = KeptByKey<kN>(in.dropout,
                           ProbabilityNumber(s, place, first_query, warp_key),
                           s.time);
    }
    AddValueGradients<kSize, kDropout>(kept, p, shared.Matrix(tile, 1), dv);

    AddInner<kSize>(v, shared.Matrix(tile, 1), ds);
#pragma unroll
    for (int n = 0; n < kN; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const float dot =
            constants.dot[tile % 2][8 * n + FragmentColumn() + e % 2];
        float product = ds[0][n][e];
        if (kDropout) product = IsKept(kept, n, e) ? product * keep_scale : 0;
        ds[0][n][e] = p[0][n][e] * (product - dot);
      }
    }
    AddWeighted<kSize>(ds, shared.Matrix(tile, 0), dk);
  });
  const float dk_factors[2] = {in.scale, in.scale};
  const float dv_factors[2] = {keep_scale, keep_scale};
  StoreFragments<kSize>(dk[0], dk_factors, warp_key, s.time, q.stride,
                        in.dqkv + PartOffset(s, place, 1));
  StoreFragments<kSize>(dv[0], dv_factors, warp_key, s.time, q.stride,
                        in.dqkv + PartOffset(s, place, 2));
}

template <int kSize>
void LaunchBackward(Stream& stream, const Gradients& in) {
  const bool drops = in.dropout.rate > 0;
  const int64_t heads = in.shape.batch * in.shape.heads;
  Launch(stream, "AttentionBackward",
         heads * CeilDivide(in.shape.time, QuerySizes<kSize>::kQueries),
         dim3(kFragmentThreads),
         drops ? &FragmentQueryGradientsKernel<kSize, true>
               : &FragmentQueryGradientsKernel<kSize, false>,
         in);
  Launch(stream, "AttentionBackward",
         heads * CeilDivide(in.shape.time, KeySizes<kSize>::kKeys),
         dim3(kFragmentThreads),
         drops ? &FragmentKeyGradientsKernel<kSize, true>
               : &FragmentKeyGradientsKernel<kSize, false>,
         in);
}

}  // namespace

bool FragmentAttentionBackward(Stream& stream, Scratch& scratch,
                               const AttentionShape& shape, const Bfloat16* qkv,
                               const Bfloat16* y, const float* logarithmic_sums,
                               const Bfloat16* dy,
                               const AttentionDropout& dropout,
                               Bfloat16* dqkv) {
  if (!SupportsFragments(shape, {qkv, y, dy, dqkv})) return false;
  const int64_t rows = shape.batch * shape.time * shape.heads;
  Gradients in;
  in.shape = shape;
  in.heads_at_once = HeadsAtOnce(shape);
  in.qkv = qkv;
  in.y = y;
  in.dy = dy;
  in.sums = logarithmic_sums;
  in.dots = scratch.Floats(2 * rows);
  in.sums2 = in.dots + rows;
  in.dropout = dropout;
  in.scale = 1.0f / std::sqrt(static_cast<float>(shape.head_size));
  in.dqkv = dqkv;
  const auto launch = shape.head_size == 32   ? &LaunchBackward<32>
                      : shape.head_size == 64 ? &LaunchBackward<64>
                                              : &LaunchBackward<128>;
  launch(stream, in);
  return true;
}

}  // namespace tributary::cuda
