#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_POINT_SAMPLER_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_POINT_SAMPLER_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "deploy/tools/tune/search/search_space.h"
#include "proto/search.pb.h"

namespace tributary {

// Proposes points without the results of earlier ones: grid, random and sobol.
// Each point is a function of the search and of a number. Immutable.
class PointSampler {
 public:
  // `space` must outlive this object. Returns InvalidArgument if the grid has
  // more than 100,000 points.
  static absl::StatusOr<PointSampler> Create(const SearchSpec& search,
                                             const SearchSpace* space);

  // Returns the number of points if it is limited.
  absl::optional<int64_t> count() const;
  // Returns point number `index`, which must be below count(). The sampler must
  // not be one of Optuna.
  SearchPoint Propose(int64_t index) const;
  // Returns the point of trial `number`, with the values of `fixed`, which has
  // a member for each parameter, and random values in place of those it lacks.
  SearchPoint Complete(int64_t number, const SearchPoint& fixed) const;

 private:
  PointSampler(const SearchSpec& search, const SearchSpace* space)
      : space_(space),
        kind_(search.sampler().kind_case()),
        seed_(search.seed()) {}
  // Lists the points of the grid that begin with the first `known` values of
  // `point`. Returns false if there are too many.
  bool ListGrid(int known, SearchPoint* point);
  // Returns a number in [0, 1) for a parameter of a point.
  double Position(int64_t index, int parameter) const;

  const SearchSpace* space_;
  SamplerSpec::KindCase kind_;
  uint64_t seed_;
  std::vector<SearchPoint> grid_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_POINT_SAMPLER_H_
