// Images of digits, as a seven-segment display shows them, shifted and with
// noise.
#ifndef EXAMPLES_CPP_LIBTORCH_DIGITS_H_
#define EXAMPLES_CPP_LIBTORCH_DIGITS_H_

#include <torch/types.h>

#include <cstdint>

#include "absl/types/span.h"

inline constexpr int kSide = 12;  // Pixels.

struct Digits {
  torch::Tensor images;  // [samples, 1, kSide, kSide]
  torch::Tensor labels;  // [samples], int64: 0 to 9.
};

// Return the training images with these indexes, or the held-out images
// [begin, end). Every worker gets the same images, because they depend on the
// index only. A real program would read them from files.
Digits TrainingDigits(absl::Span<const int64_t> indexes);
Digits HeldOutDigits(int64_t begin, int64_t end);

#endif  // EXAMPLES_CPP_LIBTORCH_DIGITS_H_
