#include "worker/device/cpu/kernels/decode_attention.h"

#include <algorithm>
#include <cmath>

#include "common/numerics/simd.h"
#include "worker/device/cpu/kernels/elementwise.h"
#include "worker/device/cpu/kernels/reductions.h"
#include "worker/device/cpu/products/tile_gemm.h"

namespace tributary::cpu {
namespace {

using simd::kLanes;

// Number of queries whose scores are in memory at a time.
constexpr int64_t kQueries = 64;

int64_t RoundUp(int64_t n) { return (n + kLanes - 1) / kLanes * kLanes; }

// The part of one head. `keys` is K^T / sqrt(D), [D, row]; `values` is [.., D].
struct Head {
  int64_t size;      // D
  int64_t row;       // Elements between two rows of `keys`.
  int64_t stride;    // Elements between two positions of qkv.
  int64_t y_stride;  // Elements between two positions of y.
  const float* q;    // Of the first new position.
  const float* k;
  const float* v;
  float* keys;
  float* values;
  float* y;
};

TRIBUTARY_MULTIVERSION
void Append(const Head& head, int64_t past, int64_t count) {
  const float scale = 1.0f / std::sqrt(static_cast<float>(head.size));
  for (int64_t t = 0; t < count; ++t) {
    const float* k = head.k + t * head.stride;
    const float* v = head.v + t * head.stride;
    float* keys = head.keys + past + t;
    float* values = head.values + (past + t) * head.size;
    for (int64_t d = 0; d < head.size; ++d) keys[d * head.row] = scale * k[d];
    for (int64_t d = 0; d < head.size; ++d) values[d] = v[d];
  }
}

// For queries i, which see the keys up to first + i: p[i, j] becomes exp(p[i,
// j] - maximum) and, for later keys, 0. inverse[i] becomes the reciprocal of
// the sum of row i. p: [queries, padded].
TRIBUTARY_MULTIVERSION
void Exponentials(int64_t queries, int64_t first, int64_t padded, float* p,
                  float* inverse) {
  for (int64_t i = 0; i < queries; ++i) {
    float* scores = p + i * padded;
    const int64_t seen = first + i + 1;
    const float maximum = RowMaximum(seen, scores);
    const int64_t whole = (seen + kLanes - 1) / kLanes * kLanes;
    for (int64_t j = 0; j < whole; ++j) scores[j] = Exp(scores[j] - maximum);
    for (int64_t j = seen; j < padded; ++j) scores[j] = 0;
    inverse[i] = 1.0f / RowSum(whole, scores);
  }
}

TRIBUTARY_MULTIVERSION
void ScaleRows(int64_t rows, int64_t size, int64_t stride, const float* factors,
               float* y) {
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t d = 0; d < size; ++d) y[i * stride + d] *= factors[i];
  }
}

// Computes the queries `begin`, ..., `begin` + `queries` - 1 of the new
// positions; query `begin` is position `first` of the sequence.
void Attend(const Head& head, int64_t begin, int64_t first, int64_t queries,
            float* p, float* inverse) {
  const int64_t padded = RoundUp(first + queries);
  TileProduct scores;
  scores.m = queries;
  scores.n = padded;
  scores.k = head.size;
  scores.a = head.q + begin * head.stride;
  scores.a_row_stride = head.stride;
  scores.b = head.keys;
  scores.b_stride = head.row;
  scores.c = p;
  scores.c_stride = padded;
  scores.triangle = Triangle::kLowerC;
  scores.diagonal = first;
  TileGemm(scores);
  Exponentials(queries, first, padded, p, inverse);
  TileProduct sum;
  sum.m = queries;
  sum.n = head.size;
  sum.k = first + queries;
  sum.a = p;
  sum.a_row_stride = padded;
  sum.b = head.values;
  sum.b_stride = head.size;
  sum.c = head.y + begin * head.y_stride;
  sum.c_stride = head.y_stride;
  sum.triangle = Triangle::kLowerA;
  sum.diagonal = first;
  TileGemm(sum);
  ScaleRows(queries, head.size, head.y_stride, inverse, sum.c);
}

}  // namespace

int64_t AttentionCacheElements(const AttentionOps::CacheShape& shape) {
  return shape.heads * shape.head_size *
         (RoundUp(shape.capacity) + shape.capacity);
}

void DecodeAttention(const AttentionOps::CacheShape& shape, int64_t past,
                     int64_t count, const float* qkv, float* cache,
                     Scratch& scratch, float* y) {
  const int64_t size = shape.head_size, width = shape.heads * size;
  const int64_t cached = AttentionCacheElements(shape) / shape.heads;
  float* const p =
      scratch.Floats(kQueries * RoundUp(past + count) + RoundUp(kQueries));
  float* const inverse = p + kQueries * RoundUp(past + count);
  for (int64_t h = 0; h < shape.heads; ++h) {
    Head head = {};
    head.size = size;
    head.row = RoundUp(shape.capacity);
    head.stride = 3 * width;
    head.y_stride = width;
    head.q = qkv + h * size;
    head.k = head.q + width;
    head.v = head.k + width;
    head.keys = cache + h * cached;
    head.values = head.keys + size * head.row;
    head.y = y + h * size;
    Append(head, past, count);
    for (int64_t begin = 0; begin < count; begin += kQueries) {
      Attend(head, begin, past + begin, std::min(kQueries, count - begin), p,
             inverse);
    }
  }
}

}  // namespace tributary::cpu
