// Computes each head in blocks of queries, so that the scores of a block stay
// in the cache. Skips keys beyond the last query of a tile.
#include "worker/device/cpu/kernels/attention.h"

#include <algorithm>
#include <cmath>

#include "common/numerics/simd.h"
#include "worker/device/cpu/kernels/elementwise.h"
#include "worker/device/cpu/kernels/reductions.h"
#include "worker/device/cpu/products/tile_gemm.h"

namespace tributary::cpu {
namespace {

using simd::kLanes;

// Number of queries in a block, a multiple of kTileRows and kLanes.
constexpr int64_t kBlock = 64;

int64_t RoundUp(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// One head of one sequence. T: time, the number of positions that exist; D:
// head_size. q, k, v: [T, D], `stride` elements between rows; y, dy: [T, D],
// `y_stride` elements between rows.
struct Head {
  Head(const AttentionShape& s, int64_t b, int64_t h, const int32_t* lengths)
      : causal(s.causal),
        time(lengths == nullptr ? s.time : lengths[b]),
        all(s.time),
        size(s.head_size),
        y_stride(s.heads * s.head_size),
        stride(3 * y_stride),
        q(b * all * stride + h * size),
        k(q + y_stride),
        v(k + y_stride),
        y(b * all * y_stride + h * size),
        first_row((b * s.heads + h) * all) {}

  // Returns how many keys a query sees: the keys before this number.
  int64_t KeysOf(int64_t query) const { return causal ? query + 1 : time; }

  bool causal;
  int64_t time, all, size, y_stride, stride;  // `all` is AttentionShape::time.
  // Offsets of the first elements in qkv (dqkv) and y (dy).
  int64_t q, k, v, y;
  int64_t first_row;  // Offset in [batch, heads, time].
};

// Temporary memory of one operation. P: scores, then probabilities, [kBlock,
// T]. `row` below is T rounded up to whole vectors, so that loops need no
// tails.
struct Buffers {
  Buffers(const AttentionShape& s, Scratch& scratch) : row(RoundUp(s.time)) {
    const int64_t transposed = row * s.head_size, block = row * kBlock;
    k = scratch.Floats(2 * transposed + 3 * block + 2 * row);
    v = k + transposed;
    p = v + transposed;
    dp = p + block;
    dropped = dp + block;
    factors = dropped + block;
    inverse = factors + row;
  }

  int64_t row;
  float *k, *v;              // K^T / sqrt(D) and V^T: [D, row].
  float *p, *dp, *dropped;   // [kBlock, row].
  float *factors, *inverse;  // [row].
};

struct Dropping {
  const RandomStream& stream;
  float rate;
  int64_t first_row;  // Offset in [batch, heads, time] of the first sequence.
};

// to[d, t] = factor from[t, d]; zero from `time` to `row`.
TRIBUTARY_MULTIVERSION
void Transpose(int64_t time, int64_t size, int64_t row, int64_t stride,
               float factor, const float* from, float* to) {
  for (int64_t t = 0; t < time; t += kLanes) {
    const int64_t count = std::min<int64_t>(kLanes, time - t);
    for (int64_t d = 0; d < size; ++d) {
      float* out = to + d * row + t;
      const float* in = from + t * stride + d;
      for (int64_t j = 0; j < count; ++j) out[j] = factor * in[j * stride];
      for (int64_t j = count; j < kLanes; ++j) out[j] = 0;
    }
  }
}

// In the following functions, row i of a block sees keys [0, keys + i * step):
// `step` is 1 if attention is causal, otherwise 0.

// For rows i of a block: p[i, j] becomes exp(p[i, j] - maximum), 0 for keys
// that the row does not see within the last vector; inverse[i] is the
// reciprocal of the row's sum, logarithmic_sums[i] the logarithm of the sum of
// exp(p).
TRIBUTARY_MULTIVERSION
void Exponentials(int64_t rows, int64_t keys, int64_t step, int64_t row,
                  float* p, float* inverse, float* logarithmic_sums) {
  for (int64_t i = 0; i < rows; ++i) {
    float* scores = p + i * row;
    const int64_t count = keys + i * step;
    const int64_t padded = (count + kLanes - 1) / kLanes * kLanes;
    const float maximum = RowMaximum(count, scores);
    for (int64_t j = 0; j < padded; ++j) scores[j] = Exp(scores[j] - maximum);
    for (int64_t j = count; j < padded; ++j) scores[j] = 0;
    const float sum = RowSum(padded, scores);
    inverse[i] = 1.0f / sum;
    logarithmic_sums[i] = maximum + std::log(sum);
  }
}

// Like Exponentials, from logarithmic_sums: p[i, j] becomes the probability.
TRIBUTARY_MULTIVERSION
void Probabilities(int64_t rows, int64_t keys, int64_t step, int64_t row,
                   const float* logarithmic_sums, float* p) {
  for (int64_t i = 0; i < rows; ++i) {
    float* scores = p + i * row;
    const int64_t count = keys + i * step;
    const int64_t padded = (count + kLanes - 1) / kLanes * kLanes;
    const float logarithm = logarithmic_sums[i];
    for (int64_t j = 0; j < padded; ++j) scores[j] = Exp(scores[j] - logarithm);
    for (int64_t j = count; j < padded; ++j) scores[j] = 0;
  }
}

// y[i, d] *= factors[i].
TRIBUTARY_MULTIVERSION
void ScaleRows(int64_t rows, int64_t size, int64_t stride, const float* factors,
               float* y) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t d = 0; d < size; ++d) y[i * stride + d] *= factors[i];
  }
}

// to[j] = from[j] factors[j].
TRIBUTARY_MULTIVERSION
void Multiply(int64_t count, const float* factors, const float* from,
              float* to) {
  for (int64_t j = 0; j < count; ++j) to[j] = from[j] * factors[j];
}

// ds[i, j] = p[i, j] (dp[i, j] - sum over d of y[i, d] dy[i, d]) scale.
// Overwrites dp.
TRIBUTARY_MULTIVERSION
void SoftmaxBackward(int64_t rows, int64_t keys, int64_t step, int64_t row,
                     int64_t size, const float* y, const float* dy,
                     int64_t y_stride, float scale, const float* p, float* dp) {
  for (int64_t i = 0; i < rows; ++i) {
    const float dot = RowDot(size, y + i * y_stride, dy + i * y_stride);
    const int64_t padded = (keys + i * step + kLanes - 1) / kLanes * kLanes;
    const float* p_row = p + i * row;
    float* gradient = dp + i * row;
    for (int64_t j = 0; j < padded; ++j) {
      gradient[j] = p_row[j] * (gradient[j] - dot) * scale;
    }
  }
}

float ScoreScale(const Head& head) {
  return 1.0f / std::sqrt(static_cast<float>(head.size));
}

// C[rows, keys] = A[rows, D] times K^T or V^T, for the keys that rows see.
void Scores(const Head& head, int64_t first, int64_t rows, const float* a,
            int64_t a_stride, const float* transposed, int64_t row, float* c) {
  TileProduct product;
  product.m = rows;
  product.n = row;
  product.k = head.size;
  product.a = a;
  product.a_row_stride = a_stride;
  product.b = transposed;
  product.b_stride = row;
  product.c = c;
  product.c_stride = row;
  product.triangle = head.causal ? Triangle::kLowerC : Triangle::kNone;
  product.diagonal = first;
  TileGemm(product);
}

// C[rows, D] = P[rows, keys] B[keys, D], P lower triangular if causal.
void Combine(const Head& head, int64_t first, int64_t rows, const float* p,
             int64_t row, const float* b, float* c, int64_t c_stride) {
  TileProduct product;
  product.m = rows;
  product.n = head.size;
  product.k = head.KeysOf(first + rows - 1);
  product.a = p;
  product.a_row_stride = row;
  product.b = b;
  product.b_stride = head.stride;
  product.c = c;
  product.c_stride = c_stride;
  product.triangle = head.causal ? Triangle::kLowerA : Triangle::kNone;
  product.diagonal = first;
  TileGemm(product);
}

// C[keys, D] = or += P^T[keys, rows] B[rows, D].
void Scatter(const Head& head, int64_t first, int64_t rows, const float* p,
             int64_t row, const float* b, int64_t b_stride, bool accumulate,
             float* c) {
  TileProduct product;
  product.m = head.KeysOf(first + rows - 1);
  product.n = head.size;
  product.k = rows;
  product.a = p;
  product.a_row_stride = 1;
  product.a_column_stride = row;
  product.b = b;
  product.b_stride = b_stride;
  product.c = c;
  product.c_stride = head.stride;
  product.accumulate = accumulate;
  product.triangle = head.causal ? Triangle::kUpperA : Triangle::kNone;
  product.diagonal = first;
  TileGemm(product);
}

// factors[j] of query i, for the keys that it sees.
void DropFactors(const Head& head, const Dropping& dropping, int64_t i,
                 float* factors) {
  DropoutFactors(head.KeysOf(i), dropping.stream,
                 (dropping.first_row + head.first_row + i) * head.all,
                 dropping.rate, factors);
}

void HeadForward(const Head& head, const float* qkv, const Dropping& dropping,
                 const Buffers& buffers, float* y, float* logarithmic_sums) {
  const int64_t row = buffers.row, step = head.causal ? 1 : 0;
  Transpose(head.time, head.size, row, head.stride, ScoreScale(head),
            qkv + head.k, buffers.k);
  for (int64_t first = 0; first < head.time; first += kBlock) {
    const int64_t rows = std::min(kBlock, head.time - first);
    float* out = y + head.y + first * head.y_stride;
    Scores(head, first, rows, qkv + head.q + first * head.stride, head.stride,
           buffers.k, row, buffers.p);
    Exponentials(rows, head.KeysOf(first), step, row, buffers.p,
                 buffers.inverse, logarithmic_sums + head.first_row + first);
    for (int64_t i = 0; dropping.rate > 0 && i < rows; ++i) {
      DropFactors(head, dropping, first + i, buffers.factors);
      float* p = buffers.p + i * row;
      Multiply(head.KeysOf(first + i), buffers.factors, p, p);
    }
    Combine(head, first, rows, buffers.p, row, qkv + head.v, out,
            head.y_stride);
    ScaleRows(rows, head.size, head.y_stride, buffers.inverse, out);
  }
}

// Applies dropout: writes p to buffers.dropped and updates the gradient in
// place.
void DropBlock(const Head& head, const Dropping& dropping, int64_t first,
               int64_t rows, const Buffers& buffers) {
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t count = head.KeysOf(first + i), offset = i * buffers.row;
    DropFactors(head, dropping, first + i, buffers.factors);
    float* dropped = buffers.dropped + offset;
    Multiply(count, buffers.factors, buffers.p + offset, dropped);
    std::fill(dropped + count, dropped + RoundUp(count), 0.0f);
    Multiply(count, buffers.factors, buffers.dp + offset, buffers.dp + offset);
  }
}

void HeadBackward(const Head& head, const float* qkv, const float* y,
                  const float* logarithmic_sums, const float* dy,
                  const Dropping& dropping, const Buffers& buffers,
                  float* dqkv) {
  const int64_t row = buffers.row, stride = head.stride;
  const int64_t step = head.causal ? 1 : 0;
  Transpose(head.time, head.size, row, stride, ScoreScale(head), qkv + head.k,
            buffers.k);
  Transpose(head.time, head.size, row, stride, 1.0f, qkv + head.v, buffers.v);
  // The last block covers all keys: it sets dk and dv, and the others add to
  // them.
  const int64_t last = (head.time - 1) / kBlock * kBlock;
  for (int64_t first = last; first >= 0; first -= kBlock) {
    const int64_t rows = std::min(kBlock, head.time - first);
    const bool accumulate = first != last;
    const float* q = qkv + head.q + first * stride;
    const int64_t out = head.y + first * head.y_stride;
    Scores(head, first, rows, q, stride, buffers.k, row, buffers.p);
    Probabilities(rows, head.KeysOf(first), step, row,
                  logarithmic_sums + head.first_row + first, buffers.p);
    Scores(head, first, rows, dy + out, head.y_stride, buffers.v, row,
           buffers.dp);
    if (dropping.rate > 0) DropBlock(head, dropping, first, rows, buffers);
    Scatter(head, first, rows, dropping.rate > 0 ? buffers.dropped : buffers.p,
            row, dy + out, head.y_stride, accumulate, dqkv + head.v);
    SoftmaxBackward(rows, head.KeysOf(first), step, row, head.size, y + out,
                    dy + out, head.y_stride, ScoreScale(head), buffers.p,
                    buffers.dp);
    Combine(head, first, rows, buffers.dp, row, qkv + head.k,
            dqkv + head.q + first * stride, stride);
    Scatter(head, first, rows, buffers.dp, row, q, stride, accumulate,
            dqkv + head.k);
  }
}

// Sets the positions of sequence b that do not exist to 0. rows: [batch, time,
// width].
void ZeroRest(const AttentionShape& s, int64_t b, const int32_t* lengths,
              int64_t width, float* rows) {
  if (lengths == nullptr) return;
  std::fill(rows + (b * s.time + lengths[b]) * width,
            rows + (b + 1) * s.time * width, 0.0f);
}

}  // namespace

void AttentionForward(const AttentionShape& s, int64_t first_sequence,
                      const float* qkv, const RandomStream& stream, float rate,
                      const int32_t* lengths, Scratch& scratch, float* y,
                      float* logarithmic_sums) {
  const Buffers buffers(s, scratch);
  const Dropping dropping = {stream, rate, first_sequence * s.heads * s.time};
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      HeadForward(Head(s, b, h, lengths), qkv, dropping, buffers, y,
                  logarithmic_sums);
    }
    ZeroRest(s, b, lengths, s.heads * s.head_size, y);
  }
}

void AttentionBackward(const AttentionShape& s, int64_t first_sequence,
                       const float* qkv, const float* y,
                       const float* logarithmic_sums, const float* dy,
                       const RandomStream& stream, float rate,
                       const int32_t* lengths, Scratch& scratch, float* dqkv) {
  const Buffers buffers(s, scratch);
  const Dropping dropping = {stream, rate, first_sequence * s.heads * s.time};
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      HeadBackward(Head(s, b, h, lengths), qkv, y, logarithmic_sums, dy,
                   dropping, buffers, dqkv);
    }
    ZeroRest(s, b, lengths, 3 * s.heads * s.head_size, dqkv);
  }
}

}  // namespace tributary::cpu
