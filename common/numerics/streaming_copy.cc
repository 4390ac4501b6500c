#include "common/numerics/streaming_copy.h"

#include <emmintrin.h>

#include <algorithm>
#include <cstring>

namespace tributary {
namespace {

constexpr int64_t kLine = 16;  // Number of floats in a cache line.

const float* FloatsAt(const char* place) {
  return reinterpret_cast<const float*>(place);
}

}  // namespace

void StreamingCopy(const void* from, int64_t count, float* to) {
  const char* in = static_cast<const char*>(from);
  const auto place =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) / sizeof(float));
  const int64_t head = std::min(count, (kLine - place % kLine) % kLine);
  std::memcpy(to, in, head * sizeof(float));
  int64_t i = head;
  for (; i + kLine <= count; i += kLine) {
    const char* const line = in + i * sizeof(float);
    const __m128 a = _mm_loadu_ps(FloatsAt(line));
    const __m128 b = _mm_loadu_ps(FloatsAt(line + 16));
    const __m128 c = _mm_loadu_ps(FloatsAt(line + 32));
    const __m128 d = _mm_loadu_ps(FloatsAt(line + 48));
    _mm_stream_ps(to + i, a);
    _mm_stream_ps(to + i + 4, b);
    _mm_stream_ps(to + i + 8, c);
    _mm_stream_ps(to + i + 12, d);
  }
  std::memcpy(to + i, in + i * sizeof(float), (count - i) * sizeof(float));
  // Orders the streaming stores before the stores that publish them.
  _mm_sfence();
}

}  // namespace tributary
