#include "worker/device/cpu/attention.h"

#include <cmath>

#include "common/simd.h"
#include "worker/device/cpu/elementwise.h"
#include "worker/device/cpu/gemm.h"
#include "worker/device/cpu/reductions.h"

namespace tributary::cpu {
namespace {

// One head of one sequence. T: time, D: head_size; q, k, v: [T, D] with
// `stride` elements from row to row.
struct Head {
  int64_t time, size, stride;
  const float *q, *k, *v;
};

Head HeadAt(const AttentionShape& s, const float* qkv, int64_t b, int64_t h) {
  const int64_t width = s.heads * s.head_size;
  const float* q = qkv + b * s.time * 3 * width + h * s.head_size;
  return {s.time, s.head_size, 3 * width, q, q + width, q + 2 * width};
}

// p[i, j] = exp(p[i, j] scale - logarithmic_sums[i]) for j <= i, 0 beyond;
// logarithmic_sums are computed first with `compute_sums`.
TRIBUTARY_MULTIVERSION
void CausalSoftmax(int64_t time, float scale, bool compute_sums, float* p,
                   float* logarithmic_sums) {
  for (int64_t i = 0; i < time; ++i) {
    float* row = p + i * time;
    for (int64_t j = 0; j <= i; ++j) row[j] *= scale;
    if (compute_sums) {
      const float maximum = RowMaximum(i + 1, row);
      const float sum = RowExp(i + 1, maximum, row, row);
      const float inverse = 1.0f / sum;
      for (int64_t j = 0; j <= i; ++j) row[j] *= inverse;
      logarithmic_sums[i] = maximum + std::log(sum);
    } else {
      for (int64_t j = 0; j <= i; ++j)
        row[j] = Exp(row[j] - logarithmic_sums[i]);
    }
    for (int64_t j = i + 1; j < time; ++j) row[j] = 0;
  }
}

// ds[i, j] = p[i, j] (dp[i, j] - sum over d of y[i, d] dy[i, d]) scale.
TRIBUTARY_MULTIVERSION
void SoftmaxBackward(const Head& head, const float* y, const float* dy,
                     int64_t y_stride, float scale, const float* p, float* dp) {
  for (int64_t i = 0; i < head.time; ++i) {
    const float dot = RowDot(head.size, y + i * y_stride, dy + i * y_stride);
    const float* p_row = p + i * head.time;
    float* row = dp + i * head.time;
    for (int64_t j = 0; j < head.time; ++j) {
      row[j] = p_row[j] * (row[j] - dot) * scale;
    }
  }
}

float ScoreScale(const AttentionShape& s) {
  return 1.0f / std::sqrt(static_cast<float>(s.head_size));
}

}  // namespace

void AttentionForward(const AttentionShape& s, const float* qkv,
                      const RandomStream& stream, float rate, Scratch& scratch,
                      float* y, float* logarithmic_sums) {
  const int64_t time = s.time, width = s.heads * s.head_size;
  float* p = scratch.Floats(time * time);
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const Head head = HeadAt(s, qkv, b, h);
      const int64_t row = (b * s.heads + h) * time;
      Gemm(time, time, s.head_size, {head.q, head.stride},
           {head.k, head.stride, true}, false, p, time);
      CausalSoftmax(time, ScoreScale(s), true, p, logarithmic_sums + row);
      if (rate > 0) {
        Dropout(time * time, stream, row * time, rate, p, p);
      }
      Gemm(time, s.head_size, time, {p, time}, {head.v, head.stride}, false,
           y + b * time * width + h * s.head_size, width);
    }
  }
}

void AttentionBackward(const AttentionShape& s, const float* qkv,
                       const float* y, const float* logarithmic_sums,
                       const float* dy, const RandomStream& stream, float rate,
                       Scratch& scratch, float* dqkv) {
  const int64_t time = s.time, width = s.heads * s.head_size;
  float* p = scratch.Floats(3 * time * time);
  float* dp = p + time * time;
  float* dropped = dp + time * time;
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = 0; h < s.heads; ++h) {
      const Head head = HeadAt(s, qkv, b, h);
      const int64_t row = (b * s.heads + h) * time;
      const int64_t offset = b * time * width + h * s.head_size;
      float* dq = dqkv + (head.q - qkv);
      Gemm(time, time, s.head_size, {head.q, head.stride},
           {head.k, head.stride, true}, false, p, time);
      CausalSoftmax(time, ScoreScale(s), false, p,
                    const_cast<float*>(logarithmic_sums) + row);
      Gemm(time, time, s.head_size, {dy + offset, width},
           {head.v, head.stride, true}, false, dp, time);
      const float* used = p;
      if (rate > 0) {
        Dropout(time * time, stream, row * time, rate, p, dropped);
        Dropout(time * time, stream, row * time, rate, dp, dp);
        used = dropped;
      }
      Gemm(time, s.head_size, time, {used, time, true}, {dy + offset, width},
           false, dq + 2 * width, head.stride);
      SoftmaxBackward(head, y + offset, dy + offset, width, ScoreScale(s), p,
                      dp);
      Gemm(time, s.head_size, time, {dp, time}, {head.k, head.stride}, false,
           dq, head.stride);
      Gemm(time, s.head_size, time, {dp, time, true}, {head.q, head.stride},
           false, dq + width, head.stride);
    }
  }
}

}  // namespace tributary::cpu
