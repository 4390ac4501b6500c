#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_POPULATION_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_POPULATION_H_

#include <cstdint>
#include <vector>

#include "common/numerics/philox.h"
#include "deploy/tools/tune/search/search_space.h"
#include "deploy/tools/tune/search/study.h"
#include "proto/search.pb.h"

namespace tributary {

// A member of a generation after the first one.
struct Descendant {
  int64_t parent = -1;  // The trial from whose checkpoint it continues.
  SearchPoint point;
};

// The steps that a trial, or those that it continues, was trained with the same
// values.
struct LineagePart {
  int64_t first_step = 1;
  int64_t last_step = 0;
  SearchPoint point;
};

// Returns the trials of a generation, by member. All must have been proposed.
std::vector<int64_t> GenerationOf(const Study& study, int64_t generation);

// Returns true if the study may take a trial of a user: a population takes only
// those of its first generation.
bool TakesQueued(const Study& study);

// Returns true if a segment may later begin with the checkpoint of the trial,
// which must be paused.
bool MayBeContinued(const Study& study, int64_t trial);

// Returns how the values of a trial have come about, in the order of steps: one
// part, unless the trial belongs to a population.
std::vector<LineagePart> LineageOf(const Study& study, int64_t trial);

// Population-based training (Jaderberg et al., 2017): how a generation follows
// from the one before it. A member continues itself, with the same values,
// unless it is one of the worst or has failed. Then it continues a trial that
// is chosen from the best ones at random, with values near those of that trial.
//
// Each member is a function of the search, of the results of the whole
// generation before it, and of the numbers of its generation and its place in
// it, so it does not depend on when results arrive. Immutable; thread-safe.
class Population {
 public:
  // `space` must outlive this object. `search` must have population_based.
  Population(const SearchSpec& search, const SearchSpace* space);

  // Returns the member that `study` proposes next. The study must be able to
  // propose, and must have proposed the first generation.
  Descendant Next(const Study& study) const;

 private:
  // Returns a point near `point`, whose parameters are changed at random.
  SearchPoint Explore(const SearchPoint& point, int64_t generation,
                      int64_t member) const;
  // Returns a value of parameter `i` near `value`.
  double Perturb(int i, double value, const PhiloxBlock& random) const;

  const SearchSpace* space_;
  const SchedulerSpec::PopulationBased settings_;
  const uint64_t seed_;
  std::vector<double> factors_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_POPULATION_H_
