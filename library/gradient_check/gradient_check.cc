#include "tributary/gradient_check.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/parameters/arena_layout.h"
#include "library/gradient_check/check_inputs.h"
#include "library/gradient_check/finite_differences.h"
#include "library/gradient_check/layer_check.h"
#include "worker/nn/network.h"

namespace tributary {
namespace {

int64_t ClassesOf(const LossSpec& loss, const GradientCheckOptions& options) {
  switch (loss.kind) {
    case LossSpec::Kind::kSoftmaxCrossEntropy:
      return loss.width - loss.padding;
    case LossSpec::Kind::kBinaryCrossEntropy:
      return 2;
    default:
      return options.classes;
  }
}

// The targets of a batch, of either type.
struct CheckTargets {
  std::vector<int32_t> labels;
  std::vector<float> values;

  const void* data() const {
    return labels.empty() ? static_cast<const void*>(values.data())
                          : static_cast<const void*>(labels.data());
  }
};

CheckTargets MakeTargets(const LossSpec& loss,
                         const GradientCheckOptions& options) {
  CheckTargets targets;
  const int64_t size = options.samples * loss.TargetElements();
  if (loss.HasLabels()) {
    targets.labels = UniformIntegers(options.seed, kTargetStream, size,
                                     ClassesOf(loss, options));
  } else {
    targets.values = UniformNumbers(options.seed, kTargetStream, size, 1);
  }
  return targets;
}

}  // namespace

absl::Status CheckGradients(const Layer& layer,
                            const GradientCheckOptions& options) {
  return LayerCheck(layer, options).Run();
}

absl::Status CheckGradients(Graph graph, const GradientCheckOptions& options) {
  TRIBUTARY_RETURN_IF_ERROR(CheckOptions(options));
  const std::unique_ptr<Device> device = CreateCpuDevice();
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<Network> network,
      Network::Create(std::move(graph), options.samples, device.get()));
  const Graph& built = network->graph();
  const bool tokens =
      std::any_of(built.nodes().begin(), built.nodes().end(),
                  [](const Graph::Node& node) { return node.spec.tokens; });
  if (tokens && options.tokens < 1) return MissingTokens();
  const int64_t size = options.samples * built.values()[built.input()];
  const std::vector<float> features =
      UniformNumbers(options.seed, kInputStream, size, options.input_range);
  const std::vector<int32_t> token_ids = UniformIntegers(
      options.seed, kInputStream, size, std::max<int64_t>(options.tokens, 1));
  const CheckTargets targets = MakeTargets(built.loss(), options);
  MicroBatchInput batch;
  batch.samples = options.samples;
  batch.input = tokens ? static_cast<const void*>(token_ids.data())
                       : static_cast<const void*>(features.data());
  batch.target = targets.data();

  ParameterTable table = built.table();
  table.set_chunk_elements(int64_t{1} << 20);  // Offsets do not depend on it.
  TRIBUTARY_ASSIGN_OR_RETURN(const ArenaLayout layout,
                             ArenaLayout::Create(table));
  std::vector<float> weights(static_cast<size_t>(layout.arena_elements()));
  std::vector<float> gradients(weights.size());
  network->Initialize(options.seed, layout, weights.data());
  for (size_t i = 0; i < layout.parameters().size(); ++i) {
    const Parameter& parameter = layout.parameters()[i];
    if (parameter.group == STATISTICS) continue;
    Disturb(options.seed, kWeightStream + static_cast<uint32_t>(i),
            parameter.size, &weights[parameter.offset]);
  }
  absl::Status status;
  const auto compute = [&](float* out) {
    GradientSink gradients(out);
    const absl::StatusOr<LossSums> sums = network->ForwardBackward(
        batch, options.seed, /*step=*/0, /*micro_batch_number=*/0,
        weights.data(), &gradients, /*observer=*/nullptr);
    status.Update(sums.status());
    return std::vector<double>{sums.ok() ? sums->loss : 0};
  };
  compute(gradients.data());
  std::vector<float> unused(weights.size());
  const FiniteDifferences differences([&] { return compute(unused.data()); },
                                      {1}, options.tolerance, options.elements);
  for (size_t i = 0; i < layout.parameters().size(); ++i) {
    const Parameter& parameter = layout.parameters()[i];
    if (parameter.group == STATISTICS ||
        built.frozen().count(static_cast<int>(i)) > 0) {
      continue;
    }
    TRIBUTARY_RETURN_IF_ERROR(status);
    TRIBUTARY_RETURN_IF_ERROR(differences.Compare(
        absl::StrCat("the parameter ", parameter.name), &ElementName,
        parameter.size, &gradients[parameter.offset],
        &weights[parameter.offset]));
  }
  return status;
}

absl::Status CheckGradients(const LossSpec& loss,
                            const GradientCheckOptions& options) {
  TRIBUTARY_RETURN_IF_ERROR(CheckOptions(options));
  // A graph checks the sizes.
  const int64_t width = loss.rows * loss.width;
  Graph graph(width);
  graph.SetLoss(loss, graph.input());
  TRIBUTARY_RETURN_IF_ERROR(graph.status());
  const std::unique_ptr<Device> device = CreateCpuDevice();
  const CheckTargets targets = MakeTargets(loss, options);
  std::vector<float> x = UniformNumbers(
      options.seed, kInputStream, options.samples * width, options.input_range);
  std::vector<float> gradient(x.size(), kUnwritten);
  const auto compute = [&](float* out) {
    const absl::StatusOr<Loss> result =
        ComputeLoss(device.get(), loss, options.samples, AsReals(x.data()),
                    targets.data(), AsReals(out));
    return std::vector<double>{result.ok() ? result->sum : 0};
  };
  compute(gradient.data());
  return FiniteDifferences([&] { return compute(nullptr); }, {1},
                           options.tolerance, options.elements)
      .Compare("the predictions", ElementsOfSamples(width),
               static_cast<int64_t>(x.size()), gradient.data(), x.data());
}

}  // namespace tributary
