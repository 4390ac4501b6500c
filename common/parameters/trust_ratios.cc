#include "common/parameters/trust_ratios.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace tributary {
namespace {

float RatioOf(const TensorSquares& squares) {
  if (!(squares.weights > 0 && squares.direction > 0)) return 1;
  const double ratio =
      std::sqrt(squares.weights) / std::sqrt(squares.direction);
  return ratio <= std::numeric_limits<float>::max() ? static_cast<float>(ratio)
                                                    : 1;
}

}  // namespace

TrustRatios::TrustRatios(const ArenaLayout& layout)
    : first_(layout.chunk_count()), parts_(layout.chunk_count()) {
  for (const Parameter& parameter : layout.parameters()) {
    if (parameter.group != DECAY) continue;
    const int64_t last = parameter.offset + parameter.size - 1;
    for (int64_t chunk = parameter.offset / layout.chunk_elements();
         chunk <= last / layout.chunk_elements(); ++chunk) {
      if (parts_[chunk]++ == 0) first_[chunk] = count_;
    }
    ++count_;
  }
}

std::vector<float> TrustRatios::Of(
    absl::Span<const std::vector<TensorSquares>> squares) const {
  std::vector<TensorSquares> sums(count_);
  for (size_t chunk = 0; chunk < squares.size(); ++chunk) {
    for (int part = 0; part < parts_[chunk]; ++part) {
      TensorSquares& sum = sums[first_[chunk] + part];
      sum.weights += squares[chunk][part].weights;
      sum.direction += squares[chunk][part].direction;
    }
  }
  std::vector<float> ratios;
  for (const TensorSquares& sum : sums) ratios.push_back(RatioOf(sum));
  return ratios;
}

}  // namespace tributary
