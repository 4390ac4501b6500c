#include "digits.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "tributary/worker.h"

namespace {

// The segments of the display that each digit lights.
constexpr const char* kLit[] = {"abcdef",  "bc",    "abged",  "abgcd",
                                "fgbc",    "afgcd", "afgedc", "abc",
                                "abcdefg", "abcdfg"};

// The display has 7 rows and 4 columns.
struct Segment {
  int top, left, height, width;
};
constexpr Segment kSegments[] = {
    {0, 0, 1, 4}, {0, 3, 4, 1}, {3, 3, 4, 1}, {6, 0, 1, 4},
    {3, 0, 4, 1}, {0, 0, 4, 1}, {3, 0, 1, 4},
};

// Draws image number `index` and returns its digit.
int Draw(uint32_t purpose, int64_t index, float* pixels) {
  tributary::Random random(/*seed=*/2024, purpose, static_cast<uint32_t>(index),
                           /*b=*/0);
  const int digit = static_cast<int>(10 * random.Uniform());
  const int top = static_cast<int>(5 * random.Uniform());
  const int left = static_cast<int>(5 * random.Uniform());
  std::generate_n(pixels, kSide * kSide,
                  [&] { return random.Uniform() - 0.5f; });
  for (const char* name = kLit[digit]; *name != 0; ++name) {
    const Segment& segment = kSegments[*name - 'a'];
    for (int i = 0; i < segment.height * segment.width; ++i) {
      const int row = top + segment.top + i / segment.width;
      const int column = left + segment.left + i % segment.width;
      pixels[row * kSide + column] += 1;
    }
  }
  return digit;
}

Digits DrawAll(uint32_t purpose, absl::Span<const int64_t> indexes) {
  const auto samples = static_cast<int64_t>(indexes.size());
  Digits digits = {torch::empty({samples, 1, kSide, kSide}),
                   torch::empty({samples}, torch::kInt64)};
  auto* pixels = digits.images.data_ptr<float>();
  auto* label = digits.labels.data_ptr<int64_t>();
  for (const int64_t index : indexes) {
    *label++ = Draw(purpose, index, pixels);
    pixels += kSide * kSide;
  }
  return digits;
}

}  // namespace

Digits TrainingDigits(absl::Span<const int64_t> indexes) {
  return DrawAll(/*purpose=*/100, indexes);
}

Digits HeldOutDigits(int64_t begin, int64_t end) {
  std::vector<int64_t> indexes(end - begin);
  std::iota(indexes.begin(), indexes.end(), begin);
  return DrawAll(/*purpose=*/101, indexes);
}
