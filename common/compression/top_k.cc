#include "common/compression/top_k.h"

#include <emmintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/flush_denormals.h"
#include "common/simd.h"

namespace tributary {
namespace {

// More would make the threshold more exact and take longer. With 4,096 the
// number of elements that reach a threshold meant for 1 % of them has a
// standard deviation of a sixth of that number.
constexpr int64_t kSample = 4096;
// How many such deviations more are aimed at, so that too few are very rare,
// and how many more than that are looked at.
constexpr double kMargin = 2.5;

// Magnitudes are compared as integers: the bits of a float without its sign
// ascend with its magnitude, and those of NaN are above all others.
constexpr int32_t kLeastNan = 0x7f800001;

TRIBUTARY_INLINE int32_t Magnitude(float value) {
  int32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits & 0x7fffffff;
}

struct Threshold {
  // At least that of the smallest number but 0.
  int32_t magnitude = 1;
  // How many elements are likely not to be below it, at most. Many more are
  // there only if most are equal.
  int64_t elements = 0;
};

// The magnitude that `wanted` elements are likely to reach, and not many more.
Threshold EstimateThreshold(const float* values, int64_t count,
                            int64_t wanted) {
  const int64_t stride = std::max<int64_t>(1, count / kSample);
  std::vector<int32_t> sample;
  sample.reserve(count / stride);
  // One from each stretch of `stride`, at a place that changes: a fixed one
  // would fall on the same columns of every matrix.
  uint32_t random = 1;
  for (int64_t begin = 0; begin + stride <= count; begin += stride) {
    random = random * 1664525u + 1013904223u;
    sample.push_back(Magnitude(values[begin + (random >> 8) % stride]));
  }
  const double size = static_cast<double>(sample.size());
  const double expected = static_cast<double>(wanted) * size / count;
  const double margin = stride == 1 ? 0 : kMargin * std::sqrt(expected);
  const double rank = std::min(std::ceil(expected + margin), size);
  const int64_t place = static_cast<int64_t>(rank) - 1;
  std::nth_element(sample.begin(), sample.begin() + place, sample.end(),
                   std::greater<int32_t>());
  const double most = (rank + kMargin * std::sqrt(rank)) * count / size;
  return {std::clamp(sample[place], int32_t{1}, kLeastNan),
          static_cast<int64_t>(most)};
}

constexpr int64_t kBlock = 16;

// Bit i: the magnitude of values[i] is at least `threshold`, which is above 0.
uint32_t BlockAtLeast(const float* values, int32_t threshold) {
  const __m128i magnitude = _mm_set1_epi32(0x7fffffff);
  const __m128i below = _mm_set1_epi32(threshold - 1);
  const auto four = [&](int64_t i) {
    const __m128i bits =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(values + i));
    return _mm_cmpgt_epi32(_mm_and_si128(bits, magnitude), below);
  };
  return static_cast<uint32_t>(_mm_movemask_epi8(_mm_packs_epi16(
      _mm_packs_epi32(four(0), four(4)), _mm_packs_epi32(four(8), four(12)))));
}

// Writes the places of the elements whose magnitude is at least `threshold` to
// `places`, which has room for `room` + kBlock, until `room` are found.
__attribute__((noinline)) int64_t Collect(const float* values, int64_t count,
                                          int32_t threshold, int64_t room,
                                          uint32_t* places) {
  int64_t found = 0;
  int64_t begin = 0;
  for (; begin + kBlock <= count && found < room; begin += kBlock) {
    uint32_t bits = BlockAtLeast(values + begin, threshold);
    for (; bits != 0; bits &= bits - 1) {
      places[found++] = static_cast<uint32_t>(begin + __builtin_ctz(bits));
    }
  }
  if (found < room) {
    for (; begin < count; ++begin) {
      places[found] = static_cast<uint32_t>(begin);
      found += Magnitude(values[begin]) >= threshold;
    }
  }
  return found;
}

std::vector<uint32_t> PlacesAbove(const float* values, int64_t count,
                                  int32_t threshold, int64_t room) {
  std::vector<uint32_t> places(room + kBlock);
  places.resize(Collect(values, count, threshold, room, places.data()));
  return places;
}

// In ascending order: the `wanted` largest and, likely, a few more.
std::vector<uint32_t> Candidates(const float* values, int64_t count,
                                 int64_t wanted) {
  const Threshold threshold = EstimateThreshold(values, count, wanted);
  const int64_t room = threshold.elements;
  std::vector<uint32_t> places =
      PlacesAbove(values, count, threshold.magnitude, room);
  if (static_cast<int64_t>(places.size()) < room) return places;
  // So many are equal that the first ones may have kept larger ones out.
  const std::vector<uint32_t> larger =
      PlacesAbove(values, count, threshold.magnitude + 1, room);
  std::vector<uint32_t> both;
  both.reserve(places.size() + larger.size());
  std::set_union(places.begin(), places.end(), larger.begin(), larger.end(),
                 std::back_inserter(both));
  return both;
}

// Keeps the `wanted` of the `places` with the largest magnitudes, in order.
void KeepLargest(const float* values, int64_t wanted,
                 std::vector<uint32_t>* places) {
  if (static_cast<int64_t>(places->size()) <= wanted) return;
  std::vector<int32_t> magnitudes;
  magnitudes.reserve(places->size());
  for (const uint32_t place : *places) {
    magnitudes.push_back(Magnitude(values[place]));
  }
  std::nth_element(magnitudes.begin(), magnitudes.begin() + (wanted - 1),
                   magnitudes.end(), std::greater<int32_t>());
  const int32_t least = magnitudes[wanted - 1];
  int64_t equal =
      wanted - std::count_if(magnitudes.begin(), magnitudes.begin() + wanted,
                             [least](int32_t m) { return m > least; });
  size_t kept = 0;
  for (const uint32_t place : *places) {
    const int32_t magnitude = Magnitude(values[place]);
    if (magnitude < least) continue;
    if (magnitude == least && equal-- <= 0) continue;
    (*places)[kept++] = place;
  }
  places->resize(kept);
}

// A payload's halves; they may lie at any address.
struct View {
  explicit View(absl::string_view payload)
      : count(static_cast<int64_t>(payload.size() / 8)),
        places(payload.data()),
        values(payload.data() + 4 * count) {}

  uint32_t place(int64_t i) const {
    uint32_t place;
    std::memcpy(&place, places + 4 * i, sizeof(place));
    return place;
  }
  float value(int64_t i) const {
    float value;
    std::memcpy(&value, values + 4 * i, sizeof(value));
    return value;
  }
  // The first of the entries whose place is at least `least`.
  int64_t Find(int64_t least) const {
    int64_t begin = 0, end = count;
    while (begin < end) {
      const int64_t middle = (begin + end) / 2;
      if (place(middle) < least) {
        begin = middle + 1;
      } else {
        end = middle;
      }
    }
    return begin;
  }

  const int64_t count;
  const char* const places;
  const char* const values;
};

__attribute__((noinline)) void AddEach(const View& view, float* values) {
  for (int64_t i = 0; i < view.count; ++i) {
    values[view.place(i)] += view.value(i);
  }
}

}  // namespace

int64_t TopKCount(double fraction, int64_t count) {
  const int64_t rounded = std::llround(fraction * static_cast<double>(count));
  return std::clamp<int64_t>(rounded, std::min<int64_t>(count, 1), count);
}

std::string EncodeTopK(double fraction, float* values, int64_t count) {
  const int64_t wanted = TopKCount(fraction, count);
  if (wanted == 0) return std::string();
  std::vector<uint32_t> places = Candidates(values, count, wanted);
  KeepLargest(values, wanted, &places);
  std::string payload(8 * places.size(), '\0');
  char* to = &payload[0];
  std::memcpy(to, places.data(), 4 * places.size());
  to += 4 * places.size();
  for (const uint32_t place : places) {
    std::memcpy(to, &values[place], 4);
    values[place] = 0;
    to += 4;
  }
  return payload;
}

absl::Status CheckTopK(absl::string_view payload, int64_t count) {
  const View view(payload);
  if (payload.size() % 8 != 0 || view.count > count) {
    return absl::InvalidArgumentError(
        absl::StrCat("top-k payload of ", payload.size(),
                     " bytes, expected a multiple of 8, at most ", 8 * count));
  }
  int64_t least = 0;
  for (int64_t i = 0; i < view.count; ++i) {
    const int64_t place = view.place(i);
    if (place < least || place >= count) {
      return absl::InvalidArgumentError(
          absl::StrCat("top-k payload: place ", place, " of entry ", i,
                       " is not between ", least, " and ", count - 1));
    }
    least = place + 1;
  }
  return absl::OkStatus();
}

void DecodeTopK(absl::string_view payload, int64_t begin, int64_t count,
                float* out) {
  const View view(payload);
  std::memset(out, 0, count * sizeof(float));
  for (int64_t i = view.Find(begin); i < view.count; ++i) {
    const int64_t place = int64_t{view.place(i)} - begin;
    if (place >= count) break;
    out[place] = view.value(i);
  }
}

void AddTopK(absl::string_view payload, float* values) {
  const FlushDenormals flush;
  AddEach(View(payload), values);
}

void CopyTopK(absl::string_view payload, const float* from, float* to) {
  const View view(payload);
  for (int64_t i = 0; i < view.count; ++i) {
    to[view.place(i)] = from[view.place(i)];
  }
}

}  // namespace tributary
