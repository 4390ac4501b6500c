#include "worker/nn/network.h"

#include <algorithm>
#include <cmath>

#include "absl/cleanup/cleanup.h"
#include "common/base/crash_context.h"
#include "common/base/status_macros.h"
#include "worker/device/reals.h"
#include "worker/nn/initial_values.h"

namespace tributary {
namespace {

// Sets the histogram of the logits, and the metric "calibration": the sum of
// the predicted probabilities divided by the number of labels that are 1.
absl::Status AddScores(Device* device, const Real* logits, int64_t count,
                       const int32_t* labels, LossSums* sums) {
  std::vector<float> scores(static_cast<size_t>(count));
  TRIBUTARY_RETURN_IF_ERROR(
      CopyRealsToHost(device, logits, count, scores.data()));
  LossSums::Metric calibration;
  calibration.name = "calibration";
  for (int64_t i = 0; i < count; ++i) {
    if (labels[i] < 0) continue;
    sums->scores.Add(scores[i], labels[i]);
    calibration.sum += 1 / (1 + std::exp(-static_cast<double>(scores[i])));
    calibration.count += labels[i];
  }
  sums->metrics.push_back(std::move(calibration));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Network>> Network::Create(
    Graph graph, int64_t max_samples, Device* device, WeightCopies* copies,
    const NetworkPart& part, void* shared) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      NetworkStructure structure,
      NetworkStructure::Create(std::move(graph), max_samples, *device, part));
  std::unique_ptr<Network> network(new Network(std::move(structure), device));
  if (copies == nullptr) {
    network->own_copies_ = std::make_unique<WeightCopies>();
    copies = network->own_copies_.get();
  }
  const NetworkStructure& planned = network->structure_;
  if (part.in_flight > 0) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        network->inputs_,
        DeviceInputs::Create(planned.graph, max_samples, device));
  }
  if (shared == nullptr) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        network->own_shared_,
        device->Allocate(static_cast<size_t>(planned.plan.SharedBytes())));
    shared = network->own_shared_.get();
  }
  network->shared_ = shared;
  network->copies_ = copies;
  TRIBUTARY_RETURN_IF_ERROR(network->AddPasses(part.in_flight));
  if (part.in_flight > 0) {
    TRIBUTARY_RETURN_IF_ERROR(
        copies->Prepare(planned.graph, planned.layout, device, part));
  }
  return network;
}

absl::Status Network::AddPasses(int count) {
  while (static_cast<int>(passes_.size()) < count) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        std::unique_ptr<NetworkPass> pass,
        NetworkPass::Create(&structure_, device_, inputs_.get(), copies_,
                            shared_));
    passes_.push_back(std::move(pass));
  }
  return absl::OkStatus();
}

int64_t Network::memory_bytes() const {
  return structure_.plan.BytesOf(static_cast<int>(passes_.size())) +
         (own_copies_ == nullptr ? 0 : own_copies_->memory_bytes()) +
         DeviceInputs::BytesOf(graph(), max_samples(), *device_);
}

void Network::Initialize(uint64_t seed, const ArenaLayout& layout,
                         float* weights) const {
  WriteInitialValues(graph(), seed, layout, 0, layout.arena_elements(),
                     weights);
}

void Network::Prefetch(const MicroBatchInput& micro_batch) {
  if (inputs_ != nullptr) inputs_->Bring(micro_batch);
}

absl::StatusOr<LossSums> Network::ForwardBackward(
    const MicroBatchInput& micro_batch, uint64_t seed, int64_t step,
    int micro_batch_number, const WeightsView& weights, GradientSink* gradients,
    StepObserver* observer) {
  if (micro_batch.samples == 0) {
    // No weights are needed, but the gradients must not be sent before the step
    // can begin.
    const int64_t elements = structure_.layout.arena_elements();
    if (!weights.Await(0, elements)) {
      return absl::AbortedError("the micro-batch was given up");
    }
    device_->Zero(gradients->data(), elements);
    gradients->Ready(0);
    return LossSums();
  }
  const CrashScopeOfMicroBatch crash_scope(step, micro_batch_number);
  BeginCall();
  NetworkPass& pass = *this->pass(0);
  pass.Begin(micro_batch,
             {seed, step, micro_batch_number, &weights, gradients, observer});
  // Other users of the device expect the random base to be unset.
  const absl::Cleanup reset = [this] { device_->SetRandomBase({}); };
  const int layers = structure_.layers();
  if (!pass.Forward(0, layers)) {
    return absl::AbortedError("the micro-batch was given up");
  }
  pass.BeginLoss();
  const auto end_forward = [&]() -> absl::StatusOr<LossSums> {
    TRIBUTARY_ASSIGN_OR_RETURN(const LossSums sums, pass.AwaitLoss());
    if (observer != nullptr) observer->OnPhase(StepObserver::Phase::kBackward);
    return sums;
  };
  const auto backward = [&] {
    pass.Backward(0, layers);
    if (structure_.part.separate_weights) pass.Weights();
  };
  if (inputs_ == nullptr) {
    TRIBUTARY_ASSIGN_OR_RETURN(const LossSums sums, end_forward());
    backward();
    TRIBUTARY_RETURN_IF_ERROR(
        ReadVectorGradients(micro_batch.samples, gradients));
    return sums;
  }
  // Queue backward before waiting for the loss, which would idle the device.
  backward();
  pass.End();
  if (observer != nullptr) observer->DeviceBusy();
  TRIBUTARY_ASSIGN_OR_RETURN(const LossSums sums, end_forward());
  TRIBUTARY_RETURN_IF_ERROR(
      ReadVectorGradients(micro_batch.samples, gradients));
  return sums;
}

absl::Status Network::ReadVectorGradients(int64_t samples,
                                          GradientSink* gradients) {
  const int64_t vectors = graph().vector_elements();
  float* to = vectors > 0 ? gradients->VectorGradients() : nullptr;
  if (to == nullptr) return absl::OkStatus();
  const int64_t width = graph().values()[graph().input()];
  input_gradients_.resize(static_cast<size_t>(samples * width));
  TRIBUTARY_RETURN_IF_ERROR(CopyRealsToHost(
      device_,
      static_cast<const Real*>(pass(0)->At(structure_.plan.input_gradient)),
      samples * width, input_gradients_.data()));
  for (int64_t i = 0; i < samples; ++i, to += vectors) {
    std::copy_n(input_gradients_.data() + (i + 1) * width - vectors, vectors,
                to);
  }
  return absl::OkStatus();
}

absl::StatusOr<LossSums> Network::Evaluate(const MicroBatchInput& micro_batch,
                                           const float* weights) {
  if (micro_batch.samples == 0) return LossSums();
  BeginCall();
  pass(0)->BeginEvaluation(micro_batch);
  const Real* const logits = pass(0)->Evaluate(micro_batch.samples, weights);
  pass(0)->BeginEvaluationLoss(micro_batch.samples);
  TRIBUTARY_ASSIGN_OR_RETURN(LossSums sums, pass(0)->AwaitLoss());
  const LossSpec& loss = graph().loss();
  if (loss.kind == LossSpec::Kind::kBinaryCrossEntropy) {
    TRIBUTARY_RETURN_IF_ERROR(
        AddScores(device_, logits, micro_batch.samples * loss.rows,
                  static_cast<const int32_t*>(micro_batch.target), &sums));
  }
  return sums;
}

const Real* Network::Predict(const MicroBatchInput& micro_batch,
                             const float* weights) {
  BeginCall();
  pass(0)->BeginEvaluation(micro_batch);
  return pass(0)->Evaluate(micro_batch.samples, weights);
}

std::vector<std::string> Network::LayerNames() const {
  std::vector<std::string> names;
  for (const Graph::Node& node : graph().nodes()) names.push_back(node.name);
  return names;
}

void Network::BeginCall() const {
  if (own_copies_ != nullptr) own_copies_->Renew();
}

}  // namespace tributary
