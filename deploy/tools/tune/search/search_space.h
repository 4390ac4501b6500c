#ifndef TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_SEARCH_SPACE_H_
#define TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_SEARCH_SPACE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "proto/search.pb.h"

namespace tributary {

// The values of one trial, one for each parameter of the space: the number, the
// integer, or the index of the choice. nullopt: the parameter's condition is
// not satisfied.
using SearchPoint = std::vector<absl::optional<double>>;

// Returns the position in [0, 1), for SearchSpace::ValueAt, of 64 random bits.
double PositionOf(uint32_t high, uint32_t low);

// The parameters of a search, and what their values mean. Immutable.
class SearchSpace {
 public:
  // `search` must be valid.
  explicit SearchSpace(const SearchSpec& search)
      : parameters_(search.parameter().begin(), search.parameter().end()) {}

  int size() const { return static_cast<int>(parameters_.size()); }
  const SearchParameterSpec& parameter(int i) const { return parameters_[i]; }
  // Returns the number of the parameter with this path; -1 if there is none.
  int Find(absl::string_view path) const;

  // Returns true if the condition of parameter `i` is satisfied by the values
  // of the parameters before it, which `point` has.
  bool IsActive(int i, const SearchPoint& point) const;
  // Returns the value of parameter `i` for `position` in [0, 1), which divides
  // the range, or its logarithms, evenly.
  double ValueAt(int i, double position) const;
  // Returns the value of parameter `i`, which must not be a choice, that is
  // nearest to `value`.
  double Nearest(int i, double value) const;
  // Returns the values of parameter `i` in a grid, ascending.
  std::vector<double> GridValues(int i) const;

  // Returns the value as in `path=value` of `tributary train --set`.
  std::string ValueText(int i, double value) const;
  // Returns the active parameters as path=value.
  std::vector<std::string> Sets(const SearchPoint& point) const;
  // Returns the value that `text` means. Returns InvalidArgument, naming the
  // parameter, if it is not a value of the parameter.
  absl::StatusOr<double> ParseValue(int i, absl::string_view text) const;

  // Returns true if `value` is a value of parameter `i`.
  bool Contains(int i, double value) const;
  // Returns true if exactly the active parameters have a value, and all values
  // belong to their ranges.
  bool Contains(const SearchPoint& point) const;

 private:
  std::vector<SearchParameterSpec> parameters_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_TUNE_SEARCH_SEARCH_SPACE_H_
