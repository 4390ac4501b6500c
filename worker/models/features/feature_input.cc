#include "worker/models/features/feature_input.h"

#include <memory>
#include <numeric>
#include <utility>

#include "common/base/field_checks.h"
#include "common/base/status_macros.h"
#include "common/job/job_model_validation.h"
#include "worker/models/blocks/spec_checks.h"
#include "worker/nn/layers/interaction/block_sum.h"
#include "worker/nn/layers/residual.h"

namespace tributary {

absl::StatusOr<FeatureInput> FeatureInput::Create(const ModelSpec& spec,
                                                  const DataInfo& info) {
  TRIBUTARY_RETURN_IF_ERROR(
      ValidateFeatures(spec, {info.vector_names, info.vector_dims}));
  if (info.kind != DataInfo::Kind::kRows) {
    return Error("model", "reads features of rows; the data are ",
                 KindName(info.kind));
  }
  FeatureInput input;
  input.numbers_ = info.sample_shape.empty() ? 0 : info.sample_shape[0];
  input.dims_ = info.vector_dims;
  return input;
}

Graph FeatureInput::NewGraph() const {
  return Graph(numbers_ + vectors(), vectors());
}

int64_t FeatureInput::vectors() const {
  return std::accumulate(dims_.begin(), dims_.end(), int64_t{0});
}

FeatureInput::Pieces FeatureInput::Numbers() const {
  if (numbers_ == 0) return {};
  return {{/*input=*/0, /*first=*/0, numbers_}};
}

FeatureInput::Pieces FeatureInput::Of(int64_t begin, int64_t end,
                                      Part part) const {
  Pieces pieces;
  int64_t place = numbers_;
  for (int64_t i = 0; i < end; place += dims_[i++]) {
    if (i < begin) continue;
    Columns::Piece piece;
    piece.first = part == Part::kRest ? place + 1 : place;
    piece.width = part == Part::kRest ? dims_[i] - 1 : 1;
    piece.stride = dims_[i];
    if (piece.width == 0) continue;
    // The vectors of neighbours of equal size make up one piece.
    if (i > begin && dims_[i] == dims_[i - 1]) {
      ++pieces.back().count;
    } else {
      pieces.push_back(piece);
    }
  }
  return pieces;
}

ValueId AddColumns(absl::string_view name,
                   std::initializer_list<FeatureInput::Pieces> parts,
                   Graph* graph) {
  FeatureInput::Pieces pieces;
  for (const FeatureInput::Pieces& part : parts) {
    pieces.insert(pieces.end(), part.begin(), part.end());
  }
  return graph->Add(name,
                    std::make_unique<Columns>(
                        std::vector<int64_t>{graph->values()[graph->input()]},
                        std::move(pieces)),
                    {graph->input()});
}

ValueId AddConcatenation(absl::string_view name, ValueId first, ValueId second,
                         Graph* graph) {
  return graph->Add(name,
                    std::make_unique<Columns>(graph->values()[first],
                                              graph->values()[second]),
                    {first, second});
}

ValueId AddSum(absl::string_view name, ValueId first, ValueId second,
               Graph* graph) {
  return graph->Add(name, std::make_unique<Residual>(graph->values()[first]),
                    {first, second});
}

ValueId AddSumOfElements(absl::string_view name, ValueId value, bool bias,
                         Graph* graph) {
  BlockSum::Options options;
  options.count = graph->values()[value];
  options.bias = bias;
  return graph->Add(name, std::make_unique<BlockSum>(options), {value});
}

}  // namespace tributary
