#include "deploy/tools/tune/search/population.h"

#include <algorithm>
#include <cmath>

namespace tributary {
namespace {

// What random numbers are for. The values determine the proposals of existing
// studies, so they must never change. See also point_sampler.cc.
enum class PopulationDraw : uint32_t { kDonor = 4, kPerturbation = 5 };

PhiloxBlock PopulationBlock(uint64_t seed, PopulationDraw draw,
                            int64_t generation, int64_t member, int parameter) {
  // A study has at most a million trials.
  return Philox(
      {static_cast<uint32_t>(generation), static_cast<uint32_t>(member),
       static_cast<uint32_t>(parameter), static_cast<uint32_t>(draw)},
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

// Returns the distance of neighboring values; 0 if there is none.
double DistanceOf(const SearchParameterSpec& parameter) {
  if (parameter.has_integer()) {
    return static_cast<double>(parameter.integer().step());
  }
  return parameter.number().step();
}

}  // namespace

std::vector<int64_t> GenerationOf(const Study& study, int64_t generation) {
  const int64_t size = study.plan().population;
  const auto first = study.members().begin() + generation * size;
  return std::vector<int64_t>(first, first + size);
}

bool TakesQueued(const Study& study) {
  const int64_t members = static_cast<int64_t>(study.members().size());
  return !study.closed() &&
         (study.plan().population == 0 || members < study.plan().population);
}

bool MayBeContinued(const Study& study, int64_t trial) {
  if (study.plan().population == 0) return !study.Done();
  // Until the next generation has ended.
  const int64_t next = study.trials()[trial].bracket + 1;
  const int64_t members = static_cast<int64_t>(study.members().size());
  if (members < (next + 1) * study.plan().population) return !study.Done();
  const std::vector<int64_t> generation = GenerationOf(study, next);
  return std::any_of(generation.begin(), generation.end(),
                     [&](int64_t t) { return study.NextRung(t) >= 0; });
}

std::vector<LineagePart> LineageOf(const Study& study, int64_t trial) {
  std::vector<LineagePart> lineage;
  for (; trial >= 0; trial = study.trials()[trial].parent) {
    const StudyTrial& part = study.trials()[trial];
    const int64_t first = study.plan().StepsBefore(part.bracket, 0) + 1;
    if (lineage.empty() || lineage.back().point != part.point) {
      lineage.push_back({first,
                         study.plan().brackets[part.bracket].rungs.back(),
                         part.point});
    }
    lineage.back().first_step = first;
  }
  std::reverse(lineage.begin(), lineage.end());
  return lineage;
}

Population::Population(const SearchSpec& search, const SearchSpace* space)
    : space_(space),
      settings_(search.scheduler().population_based()),
      seed_(search.seed()),
      factors_(settings_.factor().begin(), settings_.factor().end()) {
  if (factors_.empty()) factors_ = {0.8, 1.25};
}

Descendant Population::Next(const Study& study) const {
  const int64_t size = study.plan().population;
  const int64_t generation =
      static_cast<int64_t>(study.members().size()) / size;
  const int64_t member = static_cast<int64_t>(study.members().size()) % size;
  const std::vector<int64_t> before = GenerationOf(study, generation - 1);
  // The best first, those that have failed last; equal ones by member.
  std::vector<int64_t> order(size);
  for (int64_t m = 0; m < size; ++m) order[m] = m;
  const auto result = [&](int64_t m) -> const TrialResult* {
    const StudyTrial& trial = study.trials()[before[m]];
    return trial.results.empty() ? nullptr : &trial.results.back();
  };
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    const TrialResult* const of_a = result(a);
    const TrialResult* const of_b = result(b);
    if (of_a == nullptr || of_b == nullptr) return of_a != nullptr && !of_b;
    return IsBetter(*of_a, *of_b, study.plan().maximize);
  });
  const int64_t failed = std::count_if(
      order.begin(), order.end(), [&](auto m) { return result(m) == nullptr; });
  const int64_t quantile = study.plan().replaced;
  const int64_t replaced = std::max(quantile, failed);
  const int64_t donors = std::min(quantile, size - replaced);
  const int64_t place =
      std::find(order.begin(), order.end(), member) - order.begin();
  if (place < size - replaced) {
    return {before[member], study.trials()[before[member]].point};
  }
  const PhiloxBlock random =
      PopulationBlock(seed_, PopulationDraw::kDonor, generation, member, 0);
  const int64_t chosen = static_cast<int64_t>(PositionOf(random[0], random[1]) *
                                              static_cast<double>(donors));
  const int64_t donor = before[order[chosen]];
  return {donor, Explore(study.trials()[donor].point, generation, member)};
}

SearchPoint Population::Explore(const SearchPoint& point, int64_t generation,
                                int64_t member) const {
  SearchPoint explored(space_->size());
  for (int i = 0; i < space_->size(); ++i) {
    if (!space_->IsActive(i, explored)) continue;
    const PhiloxBlock random = PopulationBlock(
        seed_, PopulationDraw::kPerturbation, generation, member, i);
    // A parameter whose condition was not satisfied before has no value.
    const bool resample =
        !point[i].has_value() ||
        random[0] * 0x1p-32 < settings_.resample_probability();
    explored[i] = resample
                      ? space_->ValueAt(i, PositionOf(random[2], random[3]))
                      : Perturb(i, *point[i], random);
  }
  return explored;
}

double Population::Perturb(int i, double value,
                           const PhiloxBlock& random) const {
  const SearchParameterSpec& parameter = space_->parameter(i);
  if (parameter.has_choice()) {
    const int64_t count = parameter.choice().value_size();
    const double other = value + (random[1] % 2 == 0 ? -1 : 1);
    if (space_->Contains(i, other)) return other;
    return count > 1 ? 2 * value - other : value;
  }
  const double factor = factors_[random[1] % factors_.size()];
  const double scaled = space_->Nearest(i, value * factor);
  if (scaled != value) return scaled;
  // The factor is too near to 1 for the distance of neighboring values.
  const double step = DistanceOf(parameter);
  return space_->Nearest(i, factor > 1 ? value + step : value - step);
}

}  // namespace tributary
