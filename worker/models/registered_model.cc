#include "worker/models/registered_model.h"

#include <cstdint>
#include <functional>
#include <numeric>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/text/counted.h"
#include "common/text/nearest.h"
#include "worker/data/data_registry.h"

namespace tributary {
namespace {

template <typename... What>
absl::Status RefuseModel(const ExternalModelSpec& spec, const What&... what) {
  return absl::InvalidArgumentError(
      absl::StrCat("model.external: \"", spec.name(), "\" ", what...));
}

// Checks that the data have the targets that the loss compares with.
absl::Status CheckTargets(const ExternalModelSpec& spec, const LossSpec& loss,
                          const DataInfo& info) {
  if (!loss.HasLabels()) {
    if (info.classes == 0) return absl::OkStatus();
    return RefuseModel(spec, "predicts numbers, but the data have ",
                       Counted(info.classes, "class", "classes"),
                       "; use a loss of labels, such as "
                       "LossSpec::SoftmaxCrossEntropy");
  }
  if (info.classes < 1) {
    return RefuseModel(
        spec,
        "predicts classes, but the data have numbers to predict; use "
        "a loss of values, such as LossSpec::MeanSquaredError");
  }
  if (loss.kind == LossSpec::Kind::kBinaryCrossEntropy && info.classes != 2) {
    return RefuseModel(
        spec,
        "minimizes binary cross-entropy, which needs data with 2 "
        "classes, but the data have ",
        info.classes);
  }
  const int64_t predicted = loss.width - loss.padding;
  if (loss.kind == LossSpec::Kind::kSoftmaxCrossEntropy &&
      predicted < info.classes) {
    return RefuseModel(spec, "predicts ",
                       Counted(predicted, "class", "classes"),
                       ", but the data have ", info.classes);
  }
  return absl::OkStatus();
}

// Checks the sizes that would otherwise fail in the first step.
absl::Status CheckFitsData(const ExternalModelSpec& spec, const Graph& graph,
                           const DataInfo& info) {
  TRIBUTARY_RETURN_IF_ERROR(FromFactory(graph.status()));
  const int64_t elements =
      std::accumulate(info.sample_shape.begin(), info.sample_shape.end(),
                      int64_t{1}, std::multiplies<int64_t>());
  const int64_t vectors = std::accumulate(info.vector_dims.begin(),
                                          info.vector_dims.end(), int64_t{0});
  if (graph.vector_elements() != vectors) {
    return RefuseModel(
        spec, "takes ", graph.vector_elements(),
        " elements of vectors per sample, but those of the features of sparse "
        "have ",
        vectors, "; pass this number to the constructor of Graph");
  }
  const int64_t numbers = graph.values()[graph.input()] - vectors;
  if (numbers != elements) {
    return RefuseModel(
        spec, "takes ", numbers,
        " numbers per sample, but a sample of the data has the shape "
        "[",
        absl::StrJoin(info.sample_shape, ", "), "], which is ", elements);
  }
  if (graph.loss_input() < 0) {
    return RefuseModel(spec, "has no loss; call Graph::SetLoss");
  }
  return CheckTargets(spec, graph.loss(), info);
}

}  // namespace

absl::StatusOr<Graph> BuildRegisteredModel(const ExternalModelSpec& spec,
                                           const DataInfo& info,
                                           const ModelRegistry& registered) {
  const ModelFactory* const factory = registered.Find(spec.name());
  if (factory == nullptr) {
    const std::string near = DidYouMean(spec.name(), registered.names());
    return absl::InvalidArgumentError(absl::StrCat(
        "model.external: this program has no model \"", spec.name(), "\"",
        near.empty() ? "; use the program that registers it "
                       "(tributary::Main), or pass --worker-command COMMAND, "
                       "which starts a worker that computes it"
                     : near));
  }
  if (*factory == nullptr) {
    return RefuseModel(spec,
                       "was registered by the program with a null factory");
  }
  if (info.kind == DataInfo::Kind::kIndexes) {
    return RefuseModel(spec,
                       "computes from samples, not from their indexes; set "
                       "data.external.name, or data of another kind");
  }
  Config config("model.external.config", spec.config());
  absl::StatusOr<Graph> graph = (*factory)(&config, info);
  TRIBUTARY_RETURN_IF_ERROR(config.status());
  TRIBUTARY_RETURN_IF_ERROR(FromFactory(graph.status()));
  TRIBUTARY_RETURN_IF_ERROR(config.CheckAllRead());
  TRIBUTARY_RETURN_IF_ERROR(CheckFitsData(spec, *graph, info));
  return graph;
}

}  // namespace tributary
