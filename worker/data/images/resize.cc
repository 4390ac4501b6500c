#include "worker/data/images/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace tributary {
namespace {

constexpr int kFractionBits = 22;
constexpr int32_t kHalf = 1 << (kFractionBits - 1);

// The input pixels of each output pixel along one axis, and their weights.
struct Filter {
  struct Span {
    int64_t first = 0;
    int64_t count = 0;
  };
  std::vector<Span> spans;
  int64_t stride = 0;            // Weights reserved for each output pixel.
  std::vector<int32_t> weights;  // [spans, stride], sum about 2^22.
};

double Triangle(double x) { return std::max(1 - std::abs(x), 0.0); }

Filter MakeFilter(int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double support = std::max(scale, 1.0);  // Half the filter's width.
  Filter filter;
  filter.stride = static_cast<int64_t>(std::ceil(support)) * 2 + 1;
  filter.spans.resize(static_cast<size_t>(to));
  filter.weights.resize(static_cast<size_t>(to * filter.stride));
  std::vector<double> exact(static_cast<size_t>(filter.stride));
  for (int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const auto first =
        std::max<int64_t>(static_cast<int64_t>(center - support + 0.5), 0);
    const auto end =
        std::min<int64_t>(static_cast<int64_t>(center + support + 0.5), from);
    double sum = 0;
    for (int64_t k = 0; k < end - first; ++k) {
      const double distance =
          (static_cast<double>(k + first) - center + 0.5) * (1 / support);
      sum += exact[static_cast<size_t>(k)] = Triangle(distance);
    }
    filter.spans[static_cast<size_t>(i)] = {first, end - first};
    for (int64_t k = 0; k < end - first; ++k) {
      filter.weights[static_cast<size_t>(i * filter.stride + k)] =
          static_cast<int32_t>(0.5 + exact[static_cast<size_t>(k)] / sum *
                                         (1 << kFractionBits));
    }
  }
  return filter;
}

uint8_t Rounded(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
}

// Scales one row of `kChannels` channels.
template <int kChannels>
void ScaleRow(const uint8_t* from, const Filter& filter, uint8_t* to) {
  const int32_t* weights = filter.weights.data();
  for (const Filter::Span& span : filter.spans) {
    int32_t sums[kChannels];
    std::fill_n(sums, kChannels, kHalf);
    const uint8_t* pixel = from + span.first * kChannels;
    for (int64_t k = 0; k < span.count; ++k, pixel += kChannels) {
      for (int c = 0; c < kChannels; ++c) sums[c] += pixel[c] * weights[k];
    }
    for (int c = 0; c < kChannels; ++c) *to++ = Rounded(sums[c]);
    weights += filter.stride;
  }
}

// Scales the columns of `rows` rows of `bytes` bytes, row by row, so that the
// compiler can vectorize.
void ScaleColumns(const uint8_t* from, int64_t bytes, const Filter& filter,
                  uint8_t* to) {
  std::vector<int32_t> sums(static_cast<size_t>(bytes));
  const int32_t* weights = filter.weights.data();
  for (const Filter::Span& span : filter.spans) {
    std::fill(sums.begin(), sums.end(), kHalf);
    for (int64_t k = 0; k < span.count; ++k) {
      const uint8_t* row = from + (span.first + k) * bytes;
      const int32_t weight = weights[k];
      int32_t* const sum = sums.data();
      for (int64_t i = 0; i < bytes; ++i) sum[i] += row[i] * weight;
    }
    for (int64_t i = 0; i < bytes; ++i) {
      to[i] = Rounded(sums[static_cast<size_t>(i)]);
    }
    to += bytes;
    weights += filter.stride;
  }
}

}  // namespace

Picture CropAndResize(const Picture& picture, const PictureRectangle& from,
                      int64_t height, int64_t width) {
  const int64_t channels = picture.channels;
  Picture rows;
  rows.height = from.height;
  rows.width = width;
  rows.channels = channels;
  rows.pixels.resize(static_cast<size_t>(from.height * width * channels));
  const Filter filter =
      from.width == width ? Filter() : MakeFilter(from.width, width);
  for (int64_t y = 0; y < from.height; ++y) {
    const uint8_t* const row =
        picture.pixels.data() +
        ((from.top + y) * picture.width + from.left) * channels;
    uint8_t* const to = rows.pixels.data() + y * width * channels;
    if (from.width == width) {
      memcpy(to, row, static_cast<size_t>(width * channels));
    } else if (channels == 3) {
      ScaleRow<3>(row, filter, to);
    } else {
      ScaleRow<1>(row, filter, to);
    }
  }
  if (from.height == height) return rows;
  Picture scaled;
  scaled.height = height;
  scaled.width = width;
  scaled.channels = channels;
  scaled.pixels.resize(static_cast<size_t>(height * width * channels));
  ScaleColumns(rows.pixels.data(), width * channels,
               MakeFilter(from.height, height), scaled.pixels.data());
  return scaled;
}

}  // namespace tributary
