#include "common/codec/top_k.h"

#include <emmintrin.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/numerics/flush_denormals.h"
#include "common/numerics/simd.h"
#include "common/text/counted.h"

#define TRIBUTARY_FORCE_INLINE __attribute__((always_inline))
// Not inlined, so that the compiler does not move arithmetic out of the scope
// of FlushDenormals.
#define TRIBUTARY_KERNEL TRIBUTARY_MULTIVERSION __attribute__((noinline))

namespace tributary {
namespace {

// Size of the sample that estimates the threshold. A larger one makes the
// threshold more accurate but costs one or two cache misses per element. With
// 2,048, the number of elements that reach a threshold meant for 1 % of them
// has a standard deviation of a fifth to a fourth of that number.
constexpr int64_t kSample = 2048;
// Number of standard deviations by which the target exceeds the wanted number,
// so that too few elements are very rare. The limit of the search exceeds the
// target by as many again.
constexpr double kMargin = 2.5;

// Compares magnitudes as integers: the bits of a float without its sign ascend
// with its magnitude, and those of NaN exceed all others.
constexpr int32_t kLeastNan = 0x7f800001;

TRIBUTARY_INLINE int32_t Magnitude(float value) {
  int32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits & 0x7fffffff;
}

// A Source computes the elements to encode in one pass that touches as little
// memory as possible. Four(i) computes elements [i, i + 4) and One(i) one, each
// element once. Before and After return an element before or after it was
// computed. Again returns a source for a second pass over the same elements.

// Elements values[i], already computed.
struct Formed {
  const float* values;

  TRIBUTARY_FORCE_INLINE __m128 Four(int64_t i) const {
    return _mm_loadu_ps(values + i);
  }
  TRIBUTARY_FORCE_INLINE float One(int64_t i) const { return values[i]; }
  TRIBUTARY_FORCE_INLINE float After(int64_t i) const { return values[i]; }
};

// Elements residual[i] += gradient[i].
struct AddedToResidual {
  const float* gradient;
  float* residual;

  TRIBUTARY_FORCE_INLINE __m128 Four(int64_t i) const {
    const __m128 sum =
        _mm_add_ps(_mm_loadu_ps(residual + i), _mm_loadu_ps(gradient + i));
    _mm_storeu_ps(residual + i, sum);
    return sum;
  }
  TRIBUTARY_FORCE_INLINE float One(int64_t i) const {
    residual[i] += gradient[i];
    return residual[i];
  }
  TRIBUTARY_FORCE_INLINE float Before(int64_t i) const {
    return residual[i] + gradient[i];
  }
  TRIBUTARY_FORCE_INLINE float After(int64_t i) const { return residual[i]; }
  Formed Again() const { return {residual}; }
};

// Elements to[i] - from[i], which are not stored.
struct Difference {
  const float* from;
  const float* to;

  TRIBUTARY_FORCE_INLINE __m128 Four(int64_t i) const {
    return _mm_sub_ps(_mm_loadu_ps(to + i), _mm_loadu_ps(from + i));
  }
  TRIBUTARY_FORCE_INLINE float One(int64_t i) const { return to[i] - from[i]; }
  TRIBUTARY_FORCE_INLINE float Before(int64_t i) const { return One(i); }
  TRIBUTARY_FORCE_INLINE float After(int64_t i) const { return One(i); }
  const Difference& Again() const { return *this; }
};

// Returns the `rank`-th largest of `magnitudes`, counted from 1, and changes
// their order.
//
// First counts them in a thousand buckets, so that it compares only the
// elements of one bucket: every other comparison of a sort is mispredicted.
int32_t NthLargest(int64_t rank, std::vector<int32_t>* magnitudes) {
  constexpr int kClassBits = 10;
  int32_t base = magnitudes->front();
  int32_t largest = base;
  for (const int32_t m : *magnitudes) {
    base = std::min(base, m);
    largest = std::max(largest, m);
  }
  const auto range = static_cast<uint32_t>(largest - base);
  int shift = 0;
  while (range >> shift >> kClassBits != 0) ++shift;
  int32_t sizes[1 << kClassBits] = {};
  for (const int32_t m : *magnitudes) ++sizes[(m - base) >> shift];
  int32_t number = (1 << kClassBits) - 1;
  for (; rank > sizes[number]; --number) rank -= sizes[number];
  const auto end =
      std::remove_if(magnitudes->begin(), magnitudes->end(),
                     [=](int32_t m) { return (m - base) >> shift != number; });
  const auto place = magnitudes->begin() + (rank - 1);
  std::nth_element(magnitudes->begin(), place, end, std::greater<int32_t>());
  return *place;
}

struct Threshold {
  // At least the magnitude of the smallest nonzero number.
  int32_t magnitude = 1;
  // The likely upper bound of the number of elements that reach `magnitude`.
  // Far more reach it only if most elements are equal.
  int64_t elements = 0;
};

// Estimates the magnitude that at least `wanted` elements, and not many more,
// reach.
template <typename Source>
__attribute__((noinline)) Threshold EstimateThreshold(const Source& source,
                                                      int64_t count,
                                                      int64_t wanted) {
  const uint32_t stride =
      static_cast<uint32_t>(std::max<int64_t>(1, count / kSample));
  std::vector<int32_t> sample;
  sample.reserve(count / stride);
  // Samples one element per `stride`, at a varying position: a fixed one would
  // select the same columns of every matrix.
  uint32_t random = 1;
  for (int64_t begin = 0; begin + stride <= count; begin += stride) {
    random = random * 1664525u + 1013904223u;
    sample.push_back(Magnitude(source.Before(begin + (random >> 8) % stride)));
  }
  const double size = static_cast<double>(sample.size());
  const double expected = static_cast<double>(wanted) * size / count;
  const double margin = stride == 1 ? 0 : kMargin * std::sqrt(expected);
  const double rank = std::min(std::ceil(expected + margin), size);
  const double most = (rank + kMargin * std::sqrt(rank)) * count / size;
  return {std::clamp(NthLargest(static_cast<int64_t>(rank), &sample),
                     int32_t{1}, kLeastNan),
          static_cast<int64_t>(most)};
}

// Number of elements whose comparisons form one word of bits.
constexpr int64_t kBlock = 64;
// Places are written in groups of this size, regardless of how many are valid.
// The number of wanted elements among 64 varies between none, one and two,
// which no branch predictor can predict.
constexpr int kAtOnce = 4;

// Returns the bits of 16 comparisons: bit i is set if the magnitude of element
// begin + i is above `below`.
template <typename Source>
TRIBUTARY_INLINE uint64_t SixteenAbove(const Source& source, int64_t begin,
                                       __m128i below) {
  const __m128i magnitude = _mm_set1_epi32(0x7fffffff);
  __m128i above[4];
  for (int i = 0; i < 4; ++i) {
    const __m128i bits = _mm_castps_si128(source.Four(begin + 4 * i));
    above[i] = _mm_cmpgt_epi32(_mm_and_si128(bits, magnitude), below);
  }
  return static_cast<uint32_t>(
      _mm_movemask_epi8(_mm_packs_epi16(_mm_packs_epi32(above[0], above[1]),
                                        _mm_packs_epi32(above[2], above[3]))));
}

struct Element {
  uint32_t place;
  float value;
};

// Returns the number of elements that Collect may write when it collects
// `room`.
constexpr int64_t Capacity(int64_t room) { return room + kBlock + kAtOnce; }

// Computes all elements. Writes those whose magnitude is at least
// threshold.magnitude to `found`, in ascending order, until there are
// threshold.elements or slightly more. Returns their number.
template <typename Source>
TRIBUTARY_INLINE int64_t Collect(const Source& source, int64_t count,
                                 Threshold threshold, Element* found) {
  const int64_t room = threshold.elements;
  const __m128i below = _mm_set1_epi32(threshold.magnitude - 1);
  int64_t size = 0;
  int64_t begin = 0;
  for (; begin + kBlock <= count && size < room; begin += kBlock) {
    uint64_t bits = 0;
    for (int i = 0; i < kBlock; i += 16) {
      bits |= SixteenAbove(source, begin + i, below) << i;
    }
    const int hits = __builtin_popcountll(bits);
    Element* to = found + size;
    Element* const end = to + hits;
    do {
      for (int i = 0; i < kAtOnce; ++i) {
        const int64_t place =
            begin + __builtin_ctzll(bits | uint64_t{1} << (kBlock - 1));
        *to++ = {static_cast<uint32_t>(place), source.After(place)};
        bits &= bits - 1;
      }
    } while (to < end);
    size += hits;
  }
  for (; begin + 4 <= count && size >= room; begin += 4) source.Four(begin);
  for (; begin < count; ++begin) {
    const float value = source.One(begin);
    if (size >= room || Magnitude(value) < threshold.magnitude) continue;
    found[size++] = {static_cast<uint32_t>(begin), value};
  }
  return size;
}

TRIBUTARY_KERNEL int64_t CollectFrom(AddedToResidual source, int64_t count,
                                     Threshold threshold, Element* found) {
  return Collect(source, count, threshold, found);
}

TRIBUTARY_KERNEL int64_t CollectFrom(Difference source, int64_t count,
                                     Threshold threshold, Element* found) {
  return Collect(source, count, threshold, found);
}

TRIBUTARY_KERNEL int64_t CollectFrom(Formed source, int64_t count,
                                     Threshold threshold, Element* found) {
  return Collect(source, count, threshold, found);
}

// Keeps the `wanted` of the `count` elements with the largest magnitudes, in
// order. Returns the number of elements left.
int64_t KeepLargest(int64_t wanted, int64_t count, Element* elements) {
  if (count <= wanted) return count;
  std::vector<int32_t> magnitudes(count);
  for (int64_t i = 0; i < count; ++i) {
    magnitudes[i] = Magnitude(elements[i].value);
  }
  const int32_t least = NthLargest(wanted, &magnitudes);
  int64_t equal = wanted;
  for (int64_t i = 0; i < count; ++i) {
    equal -= Magnitude(elements[i].value) > least;
  }
  int64_t kept = 0;
  for (int64_t i = 0; i < count; ++i) {
    const Element element = elements[i];
    const int32_t magnitude = Magnitude(element.value);
    const bool tie = magnitude == least && equal > 0;
    // Replaces a branch, which would be mispredicted.
    elements[kept] = element;
    equal -= tie;
    kept += magnitude > least || tie;
  }
  return kept;
}

// Computes all elements and returns the `wanted` largest. The result is valid
// until the next call on this thread.
template <typename Source>
absl::Span<const Element> Choose(const Source& source, int64_t count,
                                 int64_t wanted) {
  static thread_local std::vector<Element> elements;
  Threshold threshold = EstimateThreshold(source, count, wanted);
  const int64_t room = threshold.elements;
  if (static_cast<int64_t>(elements.size()) < Capacity(room)) {
    elements.resize(Capacity(room));
  }
  int64_t found = CollectFrom(source, count, threshold, elements.data());
  if (found >= room) {
    // So many magnitudes are equal that the first ones may have displaced
    // larger ones.
    ++threshold.magnitude;
    std::vector<Element> larger(Capacity(room));
    larger.resize(CollectFrom(source.Again(), count, threshold, larger.data()));
    std::vector<Element> both;
    std::set_union(
        elements.begin(), elements.begin() + found, larger.begin(),
        larger.end(), std::back_inserter(both),
        [](const Element& a, const Element& b) { return a.place < b.place; });
    found = static_cast<int64_t>(both.size());
    elements = std::move(both);
  }
  return {elements.data(),
          static_cast<size_t>(KeepLargest(wanted, found, elements.data()))};
}

std::string Payload(absl::Span<const Element> elements) {
  std::string payload(8 * elements.size(), '\0');
  char* places = &payload[0];
  char* values = places + 4 * elements.size();
  for (const Element& element : elements) {
    std::memcpy(places, &element.place, 4);
    std::memcpy(values, &element.value, 4);
    places += 4;
    values += 4;
  }
  return payload;
}

// The two halves of a payload, which may be unaligned.
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
  // Returns the first of the entries whose place is at least `least`. Avoids
  // branches, half of which would be mispredicted.
  int64_t Find(int64_t least) const {
    int64_t begin = 0;
    for (int64_t rest = count; rest > 0;) {
      const int64_t half = (rest + 1) / 2;
      begin += place(begin + half - 1) < least ? half : 0;
      rest -= half;
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

__attribute__((noinline)) void AddPart(const View& view, int64_t begin,
                                       int64_t count, float* sum) {
  for (int64_t i = view.Find(begin); i < view.count; ++i) {
    const int64_t place = int64_t{view.place(i)} - begin;
    if (place >= count) break;
    sum[place] += view.value(i);
  }
}

}  // namespace

int64_t TopKCount(double fraction, int64_t count) {
  const int64_t rounded = std::llround(fraction * static_cast<double>(count));
  return std::clamp<int64_t>(rounded, std::min<int64_t>(count, 1), count);
}

std::string EncodeTopK(double fraction, const float* gradient, float* residual,
                       int64_t count) {
  const FlushDenormals flush;
  const int64_t wanted = TopKCount(fraction, count);
  if (wanted == 0) return std::string();
  const absl::Span<const Element> chosen =
      Choose(AddedToResidual{gradient, residual}, count, wanted);
  for (const Element& element : chosen) residual[element.place] = 0;
  return Payload(chosen);
}

std::string EncodeTopKDifference(double fraction, const float* from,
                                 const float* to, int64_t count) {
  const FlushDenormals flush;
  const int64_t wanted = TopKCount(fraction, count);
  if (wanted == 0) return std::string();
  return Payload(Choose(Difference{from, to}, count, wanted));
}

absl::Status CheckTopK(absl::string_view payload, int64_t count) {
  const View view(payload);
  if (payload.size() % 8 != 0 || view.count > count) {
    return absl::InvalidArgumentError(
        absl::StrCat("top-k payload of ", Counted(payload.size(), "byte"),
                     ", expected a multiple of 8, at most ", 8 * count));
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

void AddTopKPart(absl::string_view payload, int64_t begin, int64_t count,
                 float* sum) {
  const FlushDenormals flush;
  AddPart(View(payload), begin, count, sum);
}

void CopyTopK(absl::string_view payload, const float* from, float* to) {
  const View view(payload);
  for (int64_t i = 0; i < view.count; ++i) {
    to[view.place(i)] = from[view.place(i)];
  }
}

}  // namespace tributary
