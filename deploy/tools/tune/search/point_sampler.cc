#include "deploy/tools/tune/search/point_sampler.h"

#include <array>

#include "common/base/field_checks.h"
#include "common/numerics/philox.h"
#include "deploy/tools/tune/search/sobol_sequence.h"

namespace tributary {
namespace {

constexpr size_t kMostGridPoints = 100000;

// What random numbers are for. The values determine the proposals of existing
// studies, so they must never change.
enum class Draw : uint32_t { kPosition = 1, kShift = 2, kCompletion = 3 };

PhiloxBlock RandomBlock(uint64_t seed, Draw draw, int parameter,
                        int64_t number) {
  return Philox(
      {static_cast<uint32_t>(number),
       static_cast<uint32_t>(static_cast<uint64_t>(number) >> 32),
       static_cast<uint32_t>(parameter), static_cast<uint32_t>(draw)},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

double RandomPosition(uint64_t seed, Draw draw, int64_t number, int parameter) {
  const PhiloxBlock block = RandomBlock(seed, draw, parameter, number);
  return PositionOf(block[0], block[1]);
}

}  // namespace

absl::StatusOr<PointSampler> PointSampler::Create(const SearchSpec& search,
                                                  const SearchSpace* space) {
  PointSampler sampler(search, space);
  SearchPoint point(space->size());
  if (search.sampler().has_grid() && !sampler.ListGrid(0, &point)) {
    return Error("sampler.grid", "has more than ", kMostGridPoints,
                 " points; use fewer values, or another sampler");
  }
  return sampler;
}

bool PointSampler::ListGrid(int known, SearchPoint* point) {
  if (known == space_->size()) {
    if (grid_.size() == kMostGridPoints) return false;
    grid_.push_back(*point);
    return true;
  }
  (*point)[known].reset();
  if (!space_->IsActive(known, *point)) return ListGrid(known + 1, point);
  for (const double value : space_->GridValues(known)) {
    (*point)[known] = value;
    if (!ListGrid(known + 1, point)) return false;
  }
  (*point)[known].reset();
  return true;
}

absl::optional<int64_t> PointSampler::count() const {
  if (kind_ != SamplerSpec::kGrid) return absl::nullopt;
  return static_cast<int64_t>(grid_.size());
}

double PointSampler::Position(int64_t index, int parameter) const {
  if (kind_ != SamplerSpec::kSobol) {
    return RandomPosition(seed_, Draw::kPosition, index, parameter);
  }
  const uint32_t shift = RandomBlock(seed_, Draw::kShift, parameter, 0)[0];
  const uint32_t coordinate =
      SobolSequence::Coordinate(static_cast<uint32_t>(index), parameter);
  // The middle of the interval, so that 0 and 1 do not occur.
  return (static_cast<double>(coordinate ^ shift) + 0.5) * 0x1p-32;
}

SearchPoint PointSampler::Propose(int64_t index) const {
  if (kind_ == SamplerSpec::kGrid) return grid_[index];
  SearchPoint point(space_->size());
  for (int i = 0; i < space_->size(); ++i) {
    if (!space_->IsActive(i, point)) continue;
    point[i] = space_->ValueAt(i, Position(index, i));
  }
  return point;
}

SearchPoint PointSampler::Complete(int64_t number,
                                   const SearchPoint& fixed) const {
  SearchPoint point(space_->size());
  for (int i = 0; i < space_->size(); ++i) {
    if (!space_->IsActive(i, point)) continue;
    point[i] = fixed[i].has_value()
                   ? *fixed[i]
                   : space_->ValueAt(i, RandomPosition(seed_, Draw::kCompletion,
                                                       number, i));
  }
  return point;
}

}  // namespace tributary
