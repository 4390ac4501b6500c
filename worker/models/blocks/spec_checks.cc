#include "worker/models/blocks/spec_checks.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "common/base/field_checks.h"
#include "common/job/job.h"
#include "worker/nn/layers/activation.h"

namespace tributary {

absl::StatusOr<LossSpec> LossFor(const ModelSpec& spec, const DataInfo& info) {
  LossSpec loss;
  if (LossOfModel(spec) == ModelSpec::BINARY_CROSS_ENTROPY) {
    if (info.classes != 2) {
      return Error("model.loss",
                   "BINARY_CROSS_ENTROPY needs data with two classes, 0 and 1");
    }
    return LossSpec::BinaryCrossEntropy();
  }
  if (spec.loss() == ModelSpec::MEAN_SQUARED_ERROR) {
    if (info.classes != 0 || info.kind != DataInfo::Kind::kRows) {
      return Error("model.loss",
                   "MEAN_SQUARED_ERROR needs rows (data.csv or "
                   "data.external) whose label is a number, not a "
                   "class");
    }
    loss.kind = LossSpec::Kind::kMeanSquaredError;
    loss.width = 1;
    return loss;
  }
  if (spec.loss() != ModelSpec::CROSS_ENTROPY) {
    return Error("model.loss", "must be CROSS_ENTROPY or MEAN_SQUARED_ERROR");
  }
  if (info.classes < 1) {
    return Error("model.loss",
                 "CROSS_ENTROPY needs data with classes; for numbers "
                 "use MEAN_SQUARED_ERROR");
  }
  loss.kind = LossSpec::Kind::kSoftmaxCrossEntropy;
  loss.width = info.classes;
  loss.smoothing = static_cast<float>(spec.label_smoothing());
  return loss;
}

ValueId AddActivation(absl::string_view name, Activation activation,
                      ValueId value, Graph* graph) {
  const int64_t size = graph->values()[value];
  if (activation == GELU) {
    return graph->Add(name, std::make_unique<Gelu>(size), {value});
  }
  return graph->Add(name, std::make_unique<Relu>(size), {value});
}

absl::string_view KindName(DataInfo::Kind kind) {
  switch (kind) {
    case DataInfo::Kind::kImages:
      return "images";
    case DataInfo::Kind::kRows:
      return "rows of numbers";
    case DataInfo::Kind::kIndexes:
      return "indexes";
    case DataInfo::Kind::kTokens:
      return "text";
    case DataInfo::Kind::kSequences:
      return "texts for model.bert";
  }
  return "unknown";
}

}  // namespace tributary
