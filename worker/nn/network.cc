#include "worker/nn/network.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_cat.h"
#include "common/philox.h"
#include "common/status_macros.h"
#include "worker/nn/initializer.h"
#include "worker/nn/loss.h"

namespace tributary {
namespace {

// Numbers of dropout streams per leaf. More layers than this would share them
// with the next leaf.
constexpr int kStreamsPerLeaf = 4096;

}  // namespace

absl::StatusOr<std::unique_ptr<Network>> Network::Create(Graph graph,
                                                         int64_t max_samples,
                                                         Device* device,
                                                         WeightCopies* copies) {
  TRIBUTARY_RETURN_IF_ERROR(graph.status());
  if (graph.nodes().size() > kStreamsPerLeaf) {
    return absl::InvalidArgumentError(
        absl::StrCat("the network has ", graph.nodes().size(),
                     " layers; at most ", kStreamsPerLeaf, " work"));
  }
  ParameterTable table = graph.table();
  table.set_chunk_elements(int64_t{1} << 20);  // Offsets do not depend on it.
  TRIBUTARY_ASSIGN_OR_RETURN(ArenaLayout layout, ArenaLayout::Create(table));
  TRIBUTARY_ASSIGN_OR_RETURN(NetworkPlan plan,
                             PlanNetwork(graph, max_samples, *device));
  TRIBUTARY_ASSIGN_OR_RETURN(Device::Memory memory,
                             device->Allocate(static_cast<size_t>(plan.bytes)));
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<DeviceInputs> inputs,
                             DeviceInputs::Create(graph, max_samples, device));
  std::unique_ptr<WeightCopies> own_copies;
  if (copies == nullptr) {
    own_copies = std::make_unique<WeightCopies>();
    copies = own_copies.get();
  }
  TRIBUTARY_RETURN_IF_ERROR(copies->Prepare(graph, layout, device));
  return std::unique_ptr<Network>(new Network(
      std::move(graph), max_samples, device, std::move(layout), std::move(plan),
      std::move(memory), std::move(inputs), std::move(own_copies), copies));
}

Network::Network(Graph graph, int64_t max_samples, Device* device,
                 ArenaLayout layout, NetworkPlan plan, Device::Memory memory,
                 std::unique_ptr<DeviceInputs> inputs,
                 std::unique_ptr<WeightCopies> own_copies, WeightCopies* copies)
    : graph_(std::move(graph)),
      max_samples_(max_samples),
      device_(device),
      layout_(std::move(layout)),
      plan_(std::move(plan)),
      memory_(std::move(memory)),
      inputs_(std::move(inputs)),
      own_copies_(std::move(own_copies)),
      copies_(copies) {
  FindRanges();
}

void Network::FindRanges() {
  const std::vector<Parameter>& parameters = layout_.parameters();
  for (const Graph::Node& node : graph_.nodes()) {
    std::vector<Range>& ranges = weights_needed_.emplace_back();
    for (size_t i = 0; i < node.parameters.size(); ++i) {
      const Parameter& parameter = parameters[node.parameters[i]];
      const int64_t end = parameter.offset + parameter.size;
      if (i > 0 && node.parameters[i] == node.parameters[i - 1] + 1) {
        ranges.back().end = end;
      } else {
        ranges.push_back({parameter.offset, end});
      }
    }
  }
  for (size_t i = 0; i < parameters.size(); ++i) {
    const int64_t begin = parameters[i].offset + parameters[i].size;
    const int64_t end = i + 1 < parameters.size() ? parameters[i + 1].offset
                                                  : layout_.arena_elements();
    if (begin < end) gaps_.push_back({begin, end});
  }
}

void Network::Initialize(uint64_t seed, const ArenaLayout& layout,
                         float* weights) const {
  std::fill(weights, weights + layout.arena_elements(), 0.0f);
  for (size_t i = 0; i < layout.parameters().size(); ++i) {
    const Parameter& parameter = layout.parameters()[i];
    InitializeValues(graph_.initializers()[i],
                     RandomStream{seed, RandomPurpose::kInitialization, 0,
                                  static_cast<uint32_t>(i)},
                     parameter.size, weights + parameter.offset);
  }
}

void Network::Prefetch(const LeafInput& leaf) {
  if (inputs_ != nullptr) inputs_->Bring(leaf);
}

absl::StatusOr<LossSums> Network::ForwardBackward(
    const LeafInput& leaf, uint64_t seed, int64_t step, int leaf_number,
    const float* weights, float* gradients, StepObserver* observer) {
  if (leaf.samples == 0) {
    // Needs no weights, but gradients must not be out before the step can
    // begin.
    if (observer != nullptr &&
        !observer->WeightsNeeded(0, layout_.arena_elements())) {
      return absl::AbortedError("the leaf was given up");
    }
    device_->Zero(gradients, layout_.arena_elements());
    if (observer != nullptr) observer->GradientsReady(0);
    return LossSums();
  }
  BeginCall();
  CopyIn(leaf);
  for (const Range& gap : gaps_) {
    device_->Zero(gradients + gap.begin, gap.end - gap.begin);
  }

  LayerCall call = CallOf(leaf.samples, /*training=*/true);
  const auto stream_of = [&](int node) {
    return RandomStream{
        seed, RandomPurpose::kDropout, static_cast<uint32_t>(step),
        static_cast<uint32_t>(leaf_number) * kStreamsPerLeaf + node};
  };
  const int count = static_cast<int>(graph_.nodes().size());
  for (int i = 0; i < count; ++i) {
    if (!WaitForWeights(i, observer)) {
      return absl::AbortedError("the leaf was given up");
    }
    call.stream = stream_of(i);
    Forward(i, call, weights);
  }
  if (observer != nullptr && inputs_ != nullptr) observer->DeviceBusy();
  const LossSums sums =
      Loss(leaf.samples, plan_.loss_input, RealAt(plan_.loss_gradient));
  if (observer != nullptr) observer->ForwardDone();
  call.weight = sums.weight;
  for (int i = count - 1; i >= 0; --i) {
    call.stream = stream_of(i);
    if (plan_.nodes[i].backward) Backward(i, call, weights, gradients);
    const int ready = plan_.nodes[i].ready_parameter;
    if (ready >= 0 && observer != nullptr) {
      observer->GradientsReady(layout_.parameters()[ready].offset);
    }
  }
  return sums;
}

LossSums Network::Evaluate(const LeafInput& leaf, const float* weights) {
  if (leaf.samples == 0) return LossSums();
  BeginCall();
  CopyIn(leaf);
  const LayerCall call = CallOf(leaf.samples, /*training=*/false);
  for (size_t i = 0; i < graph_.nodes().size(); ++i) Forward(i, call, weights);
  return Loss(leaf.samples, plan_.evaluation_loss_input,
              /*gradient=*/nullptr);
}

const Real* Network::Predict(int64_t samples, const void* input,
                             const float* weights) {
  BeginCall();
  CopyIn({samples, input});
  const LayerCall call = CallOf(samples, /*training=*/false);
  for (size_t i = 0; i < graph_.nodes().size(); ++i) Forward(i, call, weights);
  return RealAt(plan_.evaluation_loss_input);
}

void* Network::At(int64_t place) const {
  return place < 0 ? nullptr : static_cast<char*>(memory_.get()) + place;
}

void Network::BeginCall() const {
  if (own_copies_ != nullptr) own_copies_->Renew();
}

void Network::CopyIn(const LeafInput& leaf) {
  if (inputs_ != nullptr) {
    if (!leaf.prefetched) inputs_->Bring(leaf);
    TakePrefetched(leaf);
    return;
  }
  const int64_t elements = leaf.samples * graph_.values()[0];
  device_->CopyFromHost(At(plan_.input), leaf.input,
                        static_cast<size_t>(elements) * sizeof(float));
  if (plan_.input_value != plan_.input) {
    device_->Round(elements, static_cast<const float*>(At(plan_.input)),
                   RealAt(plan_.input_value));
  }
  if (leaf.target == nullptr) return;
  device_->CopyFromHost(
      At(plan_.target), leaf.target,
      static_cast<size_t>(leaf.samples * graph_.loss().TargetElements()) *
          sizeof(float));
}

void Network::TakePrefetched(const LeafInput& leaf) {
  // Copying knows no types: an element of the host's is one or two Reals.
  const int64_t reals = int64_t{sizeof(float)} / device_->real_bytes();
  const int64_t elements = leaf.samples * graph_.values()[0];
  inputs_->Await();
  if (plan_.input_value != plan_.input) {
    device_->Round(elements, static_cast<const float*>(inputs_->input()),
                   RealAt(plan_.input_value));
  } else {
    device_->Copy(reals * elements, static_cast<const Real*>(inputs_->input()),
                  RealAt(plan_.input));
  }
  // Where there is none, it copies what nobody reads.
  device_->Copy(reals * leaf.samples * graph_.loss().TargetElements(),
                static_cast<const Real*>(inputs_->target()),
                RealAt(plan_.target));
  inputs_->Release();
}

LayerCall Network::CallOf(int64_t samples, bool training) const {
  LayerCall call;
  call.device = device_;
  call.samples = samples;
  call.training = training;
  return call;
}

LayerTensors Network::TensorsOf(int node, bool training,
                                const float* weights) const {
  const NetworkPlan::Node& planned = plan_.nodes[node];
  LayerTensors tensors;
  for (int i = 0; i < kMaxLayerInputs; ++i) {
    tensors.inputs[i] =
        RealAt(training ? planned.inputs[i] : planned.evaluation_inputs[i]);
  }
  tensors.output = RealAt(planned.output);
  tensors.saved = static_cast<float*>(At(planned.saved));
  const Graph::Node& layer = graph_.nodes()[node];
  const std::vector<int>& parameters = layer.parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    tensors.weights[i] = weights + layout_.parameters()[parameters[i]].offset;
  }
  if (layer.spec.product_weight) {
    tensors.product_weight =
        copies_->Get(device_, parameters[0], tensors.weights[0]);
  }
  return tensors;
}

bool Network::WaitForWeights(int node, StepObserver* observer) const {
  if (observer == nullptr) return true;
  for (const Range& range : weights_needed_[node]) {
    if (!observer->WeightsNeeded(range.begin, range.end)) return false;
  }
  return true;
}

void Network::Forward(int node, const LayerCall& call,
                      const float* weights) const {
  const Graph::Node& layer = graph_.nodes()[node];
  if (!call.training && layer.spec.identity_in_evaluation) return;
  layer.layer->Forward(call, TensorsOf(node, call.training, weights));
}

void Network::Backward(int node, const LayerCall& call, const float* weights,
                       float* gradients) const {
  const Graph::Node& layer = graph_.nodes()[node];
  const NetworkPlan::Node& planned = plan_.nodes[node];
  LayerTensors tensors = TensorsOf(node, /*training=*/true, weights);
  tensors.output_gradient = RealAt(planned.output_gradient);
  tensors.accumulate = planned.accumulate;
  tensors.accumulate_weight = planned.accumulate_weight;
  for (int i = 0; i < kMaxLayerInputs; ++i) {
    tensors.input_gradients[i] =
        RealAt(planned.scratch[i] >= 0 ? planned.scratch[i]
                                       : planned.input_gradients[i]);
  }
  for (size_t i = 0; i < layer.parameters.size(); ++i) {
    tensors.weight_gradients[i] =
        gradients + layout_.parameters()[layer.parameters[i]].offset;
  }
  layer.layer->Backward(call, tensors);
  for (size_t i = 0; i < layer.inputs.size(); ++i) {
    if (planned.scratch[i] < 0) continue;
    device_->Add(call.samples * layer.spec.inputs[i],
                 RealAt(planned.scratch[i]),
                 RealAt(planned.input_gradients[i]));
  }
}

LossSums Network::Loss(int64_t samples, int64_t place, Real* gradient) const {
  const Device::Loss loss =
      ComputeLoss(device_, graph_.loss(), samples, RealAt(place),
                  At(plan_.target), gradient);
  return {loss.sum, loss.correct, loss.counted};
}

}  // namespace tributary
