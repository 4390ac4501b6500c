#include "deploy/tools/tune/search/sobol_sequence.h"

#include <array>

namespace tributary {
namespace {

constexpr int kBits = 32;
constexpr int kMostDegree = 7;

// A primitive polynomial over GF(2) of this degree, whose inner coefficients
// are the bits of `inner`, and the first direction numbers, which are odd and
// below 2, 4, 8, ...
struct Direction {
  int degree;
  uint32_t inner;
  uint32_t first[kMostDegree];
};

// Dimension 0 is the van der Corput sequence and needs none.
constexpr Direction kDirections[SobolSequence::kMostDimensions - 1] = {
    {1, 0, {1}},
    {2, 1, {1, 3}},
    {3, 1, {1, 3, 1}},
    {3, 2, {1, 1, 1}},
    {4, 1, {1, 1, 3, 3}},
    {4, 4, {1, 3, 5, 13}},
    {5, 2, {1, 1, 5, 5, 17}},
    {5, 4, {1, 1, 5, 5, 5}},
    {5, 7, {1, 1, 7, 11, 19}},
    {5, 11, {1, 1, 5, 1, 1}},
    {5, 13, {1, 1, 1, 3, 11}},
    {5, 14, {1, 3, 5, 5, 31}},
    {6, 1, {1, 3, 3, 9, 7, 49}},
    {6, 13, {1, 1, 1, 15, 21, 21}},
    {6, 16, {1, 3, 1, 13, 27, 49}},
    {6, 19, {1, 1, 1, 15, 7, 5}},
    {6, 22, {1, 3, 1, 15, 13, 25}},
    {6, 25, {1, 1, 5, 5, 19, 61}},
    {7, 1, {1, 3, 7, 11, 23, 15, 103}},
    {7, 4, {1, 3, 7, 13, 13, 15, 69}},
};

using Numbers = std::array<uint32_t, kBits>;

// Returns the direction numbers of a dimension, as fractions of 2^32.
Numbers DirectionNumbers(int dimension) {
  Numbers v{};
  if (dimension == 0) {
    for (int i = 0; i < kBits; ++i) v[i] = uint32_t{1} << (kBits - 1 - i);
    return v;
  }
  const Direction& direction = kDirections[dimension - 1];
  const int degree = direction.degree;
  for (int i = 0; i < degree; ++i) {
    v[i] = direction.first[i] << (kBits - 1 - i);
  }
  for (int i = degree; i < kBits; ++i) {
    v[i] = v[i - degree] ^ (v[i - degree] >> degree);
    for (int k = 1; k < degree; ++k) {
      if ((direction.inner >> (degree - 1 - k)) & 1) v[i] ^= v[i - k];
    }
  }
  return v;
}

}  // namespace

uint32_t SobolSequence::Coordinate(uint32_t index, int dimension) {
  const Numbers v = DirectionNumbers(dimension);
  const uint32_t gray = index ^ (index >> 1);
  uint32_t sum = 0;
  for (int i = 0; i < kBits; ++i) {
    if ((gray >> i) & 1) sum ^= v[i];
  }
  return sum;
}

}  // namespace tributary
