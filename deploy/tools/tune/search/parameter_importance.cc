#include "deploy/tools/tune/search/parameter_importance.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>

namespace tributary {
namespace {

constexpr double kBestPart = 0.1;
constexpr int kMostCells = 50;
// A parameter that fewer trials have is not compared.
constexpr size_t kFewestTrials = 2;
// Keeps the quotient of two densities finite.
constexpr double kLeastDensity = 1e-12;
// The weight of a wide density, in observations, so that values that no trial
// has are possible.
constexpr double kPriorWeight = 1;

// The cells into which the range of a parameter is divided.
struct Grid {
  int cells = 1;
  bool is_choice = false;
  bool log = false;
  double low = 0, high = 0;  // Of the range; logarithms if `log`.

  int CellOf(double value) const {
    if (is_choice) return static_cast<int>(value);
    const double cell =
        ((log ? std::log(value) : value) - low) / ((high - low) / (cells - 1));
    return std::min(std::max(static_cast<int>(std::ceil(cell - 0.5)), 0),
                    cells - 1);
  }
};

// The number of values low, low + step, ... up to `high`.
int64_t CountOf(double low, double high, double step) {
  // Tolerates the rounding of high - low when it is divided.
  return static_cast<int64_t>(std::floor((high - low) / step + 1e-8)) + 1;
}

Grid GridOf(const SearchParameterSpec& parameter) {
  Grid grid;
  if (parameter.has_choice()) {
    grid.is_choice = true;
    grid.cells = parameter.choice().value_size();
    return grid;
  }
  const bool integer = parameter.has_integer();
  const NumberRange& number = parameter.number();
  grid.log = integer ? parameter.integer().log() : number.log();
  grid.low =
      integer ? static_cast<double>(parameter.integer().low()) : number.low();
  grid.high =
      integer ? static_cast<double>(parameter.integer().high()) : number.high();
  const double step =
      integer ? static_cast<double>(parameter.integer().step()) : number.step();
  int64_t cells = kMostCells;
  if (grid.low == grid.high) {
    cells = 1;
  } else if (grid.log) {
    if (integer) {
      cells =
          static_cast<int64_t>(std::ceil(std::log2(grid.high - grid.low + 1))) +
          1;
    }
    grid.low = std::log(grid.low);
    grid.high = std::log(grid.high);
  } else if (step > 0) {
    cells = CountOf(grid.low, grid.high, step);
    grid.high = grid.low + static_cast<double>(cells - 1) * step;
  }
  grid.cells = static_cast<int>(std::min<int64_t>(cells, kMostCells));
  return grid;
}

// Returns the probability of a standard normal variable to be in [a, b].
double NormalMass(double a, double b) {
  // Differences of small numbers, not of numbers near 1.
  if (a > 0) return NormalMass(-b, -a);
  return 0.5 *
         (std::erfc(-b / std::sqrt(2.0)) - std::erfc(-a / std::sqrt(2.0)));
}

// Adds to each cell `weight` times the density of a normal distribution that is
// truncated to the grid and rounded to its cells.
void AddNormal(double mean, double deviation, double weight,
               std::vector<double>* density) {
  const double cells = static_cast<double>(density->size());
  const double whole =
      NormalMass((-0.5 - mean) / deviation, (cells - 0.5 - mean) / deviation);
  for (size_t i = 0; i < density->size(); ++i) {
    const double x = static_cast<double>(i);
    (*density)[i] +=
        weight *
        NormalMass((x - 0.5 - mean) / deviation, (x + 0.5 - mean) / deviation) /
        whole;
  }
}

// Returns the bandwidth for counts of observations in cells, by Scott's rule
// (Scott, 1992: Multivariate Density Estimation).
double BandwidthOf(const std::vector<int64_t>& counts) {
  std::vector<double> cells;   // Those with observations.
  std::vector<int64_t> until;  // Number of observations up to each of them.
  double sum = 0;
  int64_t total = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    total += counts[i];
    sum += static_cast<double>(counts[i]) * static_cast<double>(i);
    cells.push_back(static_cast<double>(i));
    until.push_back(total);
  }
  const double mean = sum / static_cast<double>(total);
  double squares = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double difference = static_cast<double>(i) - mean;
    squares += static_cast<double>(counts[i]) * difference * difference;
  }
  const double deviation =
      std::sqrt(squares / static_cast<double>(std::max<int64_t>(1, total - 1)));
  const auto first =
      std::lower_bound(until.begin(), until.end(), total / 4) - until.begin();
  const auto third = std::min<ptrdiff_t>(
      std::upper_bound(until.begin(), until.end(), total * 3 / 4) -
          until.begin(),
      static_cast<ptrdiff_t>(cells.size()) - 1);
  const double quartiles = cells[third] - cells[first];
  // At least 90 % of a kernel may lie in its cell.
  return std::max(0.5 / 1.64, 1.059 * std::min(quartiles / 1.34, deviation) *
                                  std::pow(static_cast<double>(total), -0.2));
}

// Returns the density of a parameter in each cell, from its values in trials.
std::vector<double> DensityOf(const Grid& grid,
                              const std::vector<double>& values) {
  std::vector<int64_t> counts(grid.cells);
  for (const double value : values) ++counts[grid.CellOf(value)];
  const auto kernels = static_cast<double>(
      std::count_if(counts.begin(), counts.end(),
                    [](int64_t count) { return count > 0; }) +
      1);  // With the prior.
  const double total = static_cast<double>(values.size()) + kPriorWeight;
  const auto cells = static_cast<double>(grid.cells);
  std::vector<double> density(grid.cells, kLeastDensity);
  const double bandwidth = grid.is_choice ? 0 : BandwidthOf(counts);
  for (int cell = 0; cell < grid.cells; ++cell) {
    if (counts[cell] == 0) continue;
    const double weight = static_cast<double>(counts[cell]) / total;
    if (!grid.is_choice) {
      AddNormal(cell, bandwidth, weight, &density);
      continue;
    }
    // A kernel has most of its weight in one cell, and the same in all others.
    const double other = kPriorWeight / kernels;
    const double whole = 1 + other * cells;
    for (double& each : density) each += weight * other / whole;
    density[cell] += weight / whole;
  }
  if (grid.is_choice) {
    for (double& each : density) each += kPriorWeight / total / cells;
  } else {
    AddNormal((cells - 1) / 2, cells, kPriorWeight / total, &density);
  }
  return density;
}

double PearsonDivergence(const std::vector<double>& best,
                         const std::vector<double>& all) {
  double sum = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const double ratio = best[i] / all[i] - 1;
    sum += all[i] * ratio * ratio;
  }
  return sum;
}

}  // namespace

std::vector<double> ParameterImportances(
    const SearchSpace& space, const std::vector<ScoredPoint>& trials) {
  std::vector<double> importances(space.size(), 0.0);
  double threshold = 0;  // The worst value of the best part.
  if (!trials.empty()) {
    std::vector<double> values;
    for (const ScoredPoint& trial : trials) values.push_back(trial.value);
    const auto last = static_cast<ptrdiff_t>(
        std::ceil(kBestPart * static_cast<double>(values.size())) - 1);
    std::nth_element(values.begin(), values.begin() + last, values.end());
    threshold = values[last];
  }
  const auto best_count = static_cast<double>(std::count_if(
      trials.begin(), trials.end(), [threshold](const ScoredPoint& trial) {
        return trial.value <= threshold;
      }));
  for (int i = 0; trials.size() > 1 && i < space.size(); ++i) {
    const Grid grid = GridOf(space.parameter(i));
    std::vector<double> all, best;
    for (const ScoredPoint& trial : trials) {
      if (!trial.point[i].has_value()) continue;
      all.push_back(*trial.point[i]);
      if (trial.value <= threshold) best.push_back(*trial.point[i]);
    }
    if (grid.cells < 2 || all.size() < kFewestTrials || best.empty()) continue;
    const double best_share = static_cast<double>(best.size()) / best_count;
    const double share =
        static_cast<double>(all.size()) / static_cast<double>(trials.size());
    importances[i] =
        best_share * best_share / share *
        PearsonDivergence(DensityOf(grid, best), DensityOf(grid, all));
  }
  const double sum =
      std::accumulate(importances.begin(), importances.end(), 0.0);
  for (double& importance : importances) {
    importance = sum > 0 ? importance / sum
                         : 1.0 / static_cast<double>(importances.size());
  }
  return importances;
}

}  // namespace tributary
