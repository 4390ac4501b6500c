// The input of models that read the features of JobSpec.sparse.
#ifndef TRIBUTARY_WORKER_MODELS_FEATURES_FEATURE_INPUT_H_
#define TRIBUTARY_WORKER_MODELS_FEATURES_FEATURE_INPUT_H_

#include <cstdint>
#include <initializer_list>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/nn/graph.h"
#include "worker/nn/layers/interaction/columns.h"

namespace tributary {

// The columns of the network's input: the numbers of a sample, then the vectors
// of its features. Immutable.
class FeatureInput {
 public:
  using Pieces = std::vector<Columns::Piece>;

  // Returns InvalidArgument, naming the field, if the data are not rows, or the
  // model cannot read these features.
  static absl::StatusOr<FeatureInput> Create(const ModelSpec& spec,
                                             const DataInfo& info);

  int64_t numbers() const { return numbers_; }
  const std::vector<int64_t>& dims() const { return dims_; }
  int64_t features() const { return static_cast<int64_t>(dims_.size()); }

  // Returns a graph without layers whose input this is.
  Graph NewGraph() const;

  // Return the columns of the numbers, and, of the vectors of features [begin,
  // end): all elements, the first element of each vector, or all elements but
  // the first. Without a range, of all features.
  Pieces Numbers() const;
  Pieces Vectors() const { return {{/*input=*/0, numbers_, vectors()}}; }
  Pieces Firsts() const { return Of(0, features(), Part::kFirst); }
  Pieces Rests() const { return Rests(0, features()); }
  Pieces Rests(int64_t begin, int64_t end) const {
    return Of(begin, end, Part::kRest);
  }

 private:
  enum class Part { kFirst, kRest };

  // Returns the number of elements of all vectors.
  int64_t vectors() const;
  Pieces Of(int64_t begin, int64_t end, Part part) const;

  int64_t numbers_ = 0;
  std::vector<int64_t> dims_;
};

// Adds a layer that concatenates these columns of the network's input. There
// must be at least one.
ValueId AddColumns(absl::string_view name,
                   std::initializer_list<FeatureInput::Pieces> parts,
                   Graph* graph);
// Adds a layer that concatenates two values.
ValueId AddConcatenation(absl::string_view name, ValueId first, ValueId second,
                         Graph* graph);
// Adds a layer that adds two values of equal size.
ValueId AddSum(absl::string_view name, ValueId first, ValueId second,
               Graph* graph);
// Adds a layer that adds the elements of a value. With `bias`, also adds a
// parameter "<name>.bias", initially 0.
ValueId AddSumOfElements(absl::string_view name, ValueId value, bool bias,
                         Graph* graph);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_FEATURES_FEATURE_INPUT_H_
