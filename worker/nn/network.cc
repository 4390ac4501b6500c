#include "worker/nn/network.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/crash_context.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/numerics/philox.h"
#include "worker/nn/layers/initializer.h"
#include "worker/nn/layers/loss.h"

namespace tributary {
namespace {

// Number of dropout streams per micro-batch. A network with more layers would
// share streams with the next micro-batch.
constexpr int kStreamsPerMicroBatch = 4096;

// Bytes of parameters per segment. With smaller segments, large networks queue
// nearly as many captures as operations. With larger ones, less of the exchange
// of weights and gradients (a millisecond at 4 GB/s) overlaps with computation.
constexpr int64_t kSegmentBytes = int64_t{4} << 20;

// Number of kinds of micro-batches with captures: full ones, and shorter ones
// at the end of an epoch, each with up to two arrays of weights (see
// Exchange::DeviceWeights). If there are more, all captures are discarded and
// made again, which only costs time.
constexpr size_t kMaximumCaptures = 8;

// Returns the layer's random stream, excluding the device's random base.
RandomStream StreamOf(uint64_t seed, int node) {
  return {seed, RandomPurpose::kDropout, 0, static_cast<uint32_t>(node)};
}

// Runs the layer, and reports its times unless `layers` is null.
template <typename Run>
void Timed(LayerObserver* layers, int layer, bool backward, const Run& run) {
  if (layers == nullptr) {
    run();
    return;
  }
  const absl::Time begin = MonotonicNow();
  run();
  layers->OnLayer(layer, backward, begin, MonotonicNow());
}

}  // namespace

absl::StatusOr<std::unique_ptr<Network>> Network::Create(Graph graph,
                                                         int64_t max_samples,
                                                         Device* device,
                                                         WeightCopies* copies) {
  TRIBUTARY_RETURN_IF_ERROR(graph.status());
  if (graph.nodes().size() > kStreamsPerMicroBatch) {
    return absl::InvalidArgumentError(
        absl::StrCat("the network has ", graph.nodes().size(),
                     " layers; at most ", kStreamsPerMicroBatch, " work"));
  }
  ParameterTable table = graph.table();
  // Offsets do not depend on this value.
  table.set_chunk_elements(int64_t{1} << 20);
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
  CopyConstants();
  FindGaps();
  FindSegments();
  FindFrozen();
}

void Network::CopyConstants() const {
  for (size_t i = 0; i < graph_.nodes().size(); ++i) {
    const std::vector<float>& constants = graph_.nodes()[i].spec.constants;
    if (constants.empty()) continue;
    device_->CopyFromHost(At(plan_.nodes[i].constants), constants.data(),
                          constants.size() * sizeof(float));
  }
}

void Network::FindGaps() {
  const std::vector<Parameter>& parameters = layout_.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    const int64_t begin = parameters[i].offset + parameters[i].size;
    const int64_t end = i + 1 < parameters.size() ? parameters[i + 1].offset
                                                  : layout_.arena_elements();
    if (begin < end) gaps_.push_back({begin, end});
  }
}

std::vector<Network::Range> Network::WeightsOf(int begin, int end) const {
  std::set<int> needed;
  for (int i = begin; i < end; ++i) {
    needed.insert(graph_.nodes()[i].parameters.begin(),
                  graph_.nodes()[i].parameters.end());
  }
  std::vector<Range> ranges;
  int last = -1;
  for (const int number : needed) {
    const Parameter& parameter = layout_.parameters()[number];
    const int64_t stop = parameter.offset + parameter.size + parameter.padding;
    if (!ranges.empty() && number == last + 1) {
      ranges.back().end = stop;
    } else {
      ranges.push_back({parameter.offset, stop});
    }
    last = number;
  }
  return ranges;
}

void Network::FindSegments() {
  const int count = static_cast<int>(graph_.nodes().size());
  int64_t bytes = 0;
  Segment segment;
  for (int i = 0; i < count; ++i) {
    for (const int parameter : graph_.nodes()[i].parameters) {
      bytes += layout_.parameters()[parameter].size * int64_t{sizeof(float)};
    }
    // The first layer's gradients become final last.
    if (segment.ready_parameter < 0) {
      segment.ready_parameter = plan_.nodes[i].ready_parameter;
    }
    segment.end = i + 1;
    if (device_->capture() != nullptr && bytes < kSegmentBytes && i + 1 < count)
      continue;
    segment.weights = WeightsOf(segment.begin, segment.end);
    segments_.push_back(std::move(segment));
    segment = Segment{i + 1};
    bytes = 0;
  }
}

void Network::FindFrozen() {
  int final_before = static_cast<int>(layout_.parameters().size());
  for (auto segment = segments_.rbegin(); segment != segments_.rend();
       ++segment) {
    if (segment->ready_parameter < 0) continue;
    for (int i = segment->ready_parameter; i < final_before; ++i) {
      if (graph_.frozen().count(i) == 0) continue;
      const Parameter& parameter = layout_.parameters()[i];
      segment->frozen.push_back(
          {parameter.offset, parameter.offset + parameter.size});
    }
    final_before = segment->ready_parameter;
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

void Network::Prefetch(const MicroBatchInput& micro_batch) {
  if (inputs_ != nullptr) inputs_->Bring(micro_batch);
}

absl::StatusOr<LossSums> Network::ForwardBackward(
    const MicroBatchInput& micro_batch, uint64_t seed, int64_t step,
    int micro_batch_number, const float* weights, float* gradients,
    StepObserver* observer) {
  if (micro_batch.samples == 0) {
    // No weights are needed, but the gradients must not be sent before the step
    // can begin.
    if (observer != nullptr &&
        !observer->WeightsNeeded(0, layout_.arena_elements())) {
      return absl::AbortedError("the micro-batch was given up");
    }
    device_->Zero(gradients, layout_.arena_elements());
    if (observer != nullptr) observer->GradientsReady(0);
    return LossSums();
  }
  const CrashScopeOfMicroBatch crash_scope(step, micro_batch_number);
  BeginCall();
  CopyIn(micro_batch);
  for (const Range& gap : gaps_) {
    device_->Zero(gradients + gap.begin, gap.end - gap.begin);
  }
  device_->SetRandomBase(
      {static_cast<uint32_t>(step),
       static_cast<uint32_t>(micro_batch_number) * kStreamsPerMicroBatch});
  // Other users of the device expect the random base to be unset.
  const absl::Cleanup reset = [this] { device_->SetRandomBase({}); };

  Pass pass = {CallOf(micro_batch.samples, /*training=*/true), seed, weights,
               gradients, observer};
  pass.call.sample_count =
      graph_.loss().CountedRows(micro_batch.samples, micro_batch.target);
  Captures* const captures = CapturesOf(pass);
  if (captures != nullptr && captures->computed) pass.captures = captures;
  if (!QueueForward(&pass)) {
    return absl::AbortedError("the micro-batch was given up");
  }
  BeginLoss(graph_.loss(), micro_batch.samples, plan_.loss_input,
            RealAt(plan_.loss_gradient));
  const auto end_forward = [&]() -> absl::StatusOr<LossSums> {
    TRIBUTARY_ASSIGN_OR_RETURN(const LossSums sums, AwaitLoss());
    if (observer != nullptr) observer->ForwardDone();
    return sums;
  };
  if (inputs_ == nullptr) {
    TRIBUTARY_ASSIGN_OR_RETURN(const LossSums sums, end_forward());
    QueueBackward(&pass);
    return sums;
  }
  // Queue backward before waiting for the loss, which would idle the device.
  QueueBackward(&pass);
  if (captures != nullptr) captures->computed = true;
  if (observer != nullptr) observer->DeviceBusy();
  return end_forward();
}

bool Network::QueueForward(Pass* pass) {
  for (size_t s = 0; s < segments_.size(); ++s) {
    const Segment& segment = segments_[s];
    if (!WaitForWeights(segment, pass->observer)) return false;
    if (pass->captures != nullptr) PrepareWeights(segment, pass->weights);
    Run(pass->captures == nullptr ? nullptr : &pass->captures->forward[s], [&] {
      for (int i = segment.begin; i < segment.end; ++i) {
        pass->call.stream = StreamOf(pass->seed, i);
        Timed(LayersOf(*pass), i, /*backward=*/false,
              [&] { Forward(i, pass->call, pass->weights); });
      }
    });
  }
  return true;
}

void Network::QueueBackward(Pass* pass) {
  for (size_t s = segments_.size(); s-- > 0;) {
    const Segment& segment = segments_[s];
    Run(pass->captures == nullptr ? nullptr : &pass->captures->backward[s],
        [&] {
          for (int i = segment.end - 1; i >= segment.begin; --i) {
            if (!plan_.nodes[i].backward) continue;
            pass->call.stream = StreamOf(pass->seed, i);
            Timed(LayersOf(*pass), i, /*backward=*/true, [&] {
              Backward(i, pass->call, pass->weights, pass->gradients);
            });
          }
          for (const Range& range : segment.frozen) {
            device_->Zero(pass->gradients + range.begin,
                          range.end - range.begin);
          }
        });
    if (segment.ready_parameter >= 0 && pass->observer != nullptr) {
      pass->observer->GradientsReady(
          layout_.parameters()[segment.ready_parameter].offset);
    }
  }
}

Network::Captures* Network::CapturesOf(const Pass& pass) {
  if (device_->capture() == nullptr || !capture_status_.ok()) return nullptr;
  // Gradients of statistics are multiplied by the sample count, which is
  // captured.
  if (pass.call.sample_count != pass.call.samples * graph_.loss().rows) {
    return nullptr;
  }
  for (const std::unique_ptr<Captures>& captures : captures_) {
    if (captures->seed == pass.seed && captures->samples == pass.call.samples &&
        captures->weights == pass.weights &&
        captures->gradients == pass.gradients) {
      return captures.get();
    }
  }
  if (captures_.size() >= kMaximumCaptures) captures_.clear();
  auto captures = std::make_unique<Captures>();
  captures->seed = pass.seed;
  captures->samples = pass.call.samples;
  captures->weights = pass.weights;
  captures->gradients = pass.gradients;
  captures->forward.resize(segments_.size());
  captures->backward.resize(segments_.size());
  captures_.push_back(std::move(captures));
  return captures_.back().get();
}

template <typename Work>
void Network::Run(std::unique_ptr<CapturedWork>* captured, const Work& work) {
  if (captured == nullptr) {
    work();
    return;
  }
  if (*captured != nullptr && device_->capture()->Launch(**captured)) return;
  captured->reset();
  if (capture_status_.ok()) capture_status_ = device_->capture()->Begin();
  if (!capture_status_.ok()) {
    work();
    return;
  }
  work();
  absl::StatusOr<std::unique_ptr<CapturedWork>> made =
      device_->capture()->End();
  capture_status_ = made.status();
  if (made.ok() && device_->capture()->Launch(**made)) {
    *captured = *std::move(made);
  } else {
    work();
  }
}

void Network::PrepareWeights(const Segment& segment,
                             const float* weights) const {
  for (int i = segment.begin; i < segment.end; ++i) {
    TensorsOf(i, /*training=*/true, weights);
  }
}

void* Network::At(int64_t place) const {
  return place < 0 ? nullptr : static_cast<char*>(memory_.get()) + place;
}

void Network::BeginCall() const {
  if (own_copies_ != nullptr) own_copies_->Renew();
}

void Network::CopyIn(const MicroBatchInput& micro_batch) {
  if (inputs_ != nullptr) {
    if (!micro_batch.prefetched) inputs_->Bring(micro_batch);
    TakePrefetched(micro_batch);
    return;
  }
  const int64_t elements = micro_batch.samples * graph_.values()[0];
  device_->CopyFromHost(At(plan_.input), micro_batch.input,
                        static_cast<size_t>(elements) * sizeof(float));
  if (plan_.input_value != plan_.input) {
    device_->ops().elementwise->Round(
        {elements, static_cast<const float*>(At(plan_.input)),
         RealAt(plan_.input_value)});
  }
  if (micro_batch.target == nullptr) return;
  device_->CopyFromHost(At(plan_.target), micro_batch.target,
                        static_cast<size_t>(micro_batch.samples *
                                            graph_.loss().TargetElements()) *
                            sizeof(float));
}

void Network::TakePrefetched(const MicroBatchInput& micro_batch) {
  // Copy is untyped: a four-byte host element is one or two Reals.
  const int64_t reals = int64_t{sizeof(float)} / device_->real_bytes();
  const int64_t elements = micro_batch.samples * graph_.values()[0];
  inputs_->Await();
  ElementwiseOps& ops = *device_->ops().elementwise;
  if (plan_.input_value != plan_.input) {
    ops.Round({elements, static_cast<const float*>(inputs_->input()),
               RealAt(plan_.input_value)});
  } else {
    ops.Copy({reals * elements, static_cast<const Real*>(inputs_->input()),
              RealAt(plan_.input)});
  }
  // Without targets the copied bytes are unused.
  ops.Copy({reals * micro_batch.samples * graph_.loss().TargetElements(),
            static_cast<const Real*>(inputs_->target()), RealAt(plan_.target)});
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
  tensors.gelu_output = RealAt(planned.gelu_output);
  if (planned.sum >= 0) {
    const NetworkPlan::Node& sum = plan_.nodes[planned.sum];
    const auto& addends = training ? sum.inputs : sum.evaluation_inputs;
    tensors.sum = RealAt(sum.output);
    tensors.addends = {RealAt(addends[0]), RealAt(addends[1])};
  }
  tensors.constants = static_cast<const float*>(At(planned.constants));
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

bool Network::WaitForWeights(const Segment& segment,
                             StepObserver* observer) const {
  return observer == nullptr ||
         std::all_of(segment.weights.begin(), segment.weights.end(),
                     [observer](const Range& range) {
                       return observer->WeightsNeeded(range.begin, range.end);
                     });
}

void Network::Forward(int node, const LayerCall& call,
                      const float* weights) const {
  const Graph::Node& layer = graph_.nodes()[node];
  if (!call.training && layer.spec.identity_in_evaluation) return;
  if (plan_.nodes[node].forward_elsewhere) return;
  const CrashScopeOfLayer crash_scope(layer.name.c_str(), /*backward=*/false);
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
  tensors.gelu_input = RealAt(planned.gelu_input);
  for (int i = 0; i < kMaxLayerInputs; ++i) {
    tensors.input_gradients[i] =
        RealAt(planned.scratch[i] >= 0 ? planned.scratch[i]
                                       : planned.input_gradients[i]);
  }
  for (size_t i = 0; i < layer.parameters.size(); ++i) {
    tensors.weight_gradients[i] =
        gradients + layout_.parameters()[layer.parameters[i]].offset;
  }
  const CrashScopeOfLayer crash_scope(layer.name.c_str(), /*backward=*/true);
  layer.layer->Backward(call, tensors);
  for (size_t i = 0; i < layer.inputs.size(); ++i) {
    if (planned.scratch[i] < 0) continue;
    device_->ops().elementwise->Add({call.samples * layer.spec.inputs[i],
                                     RealAt(planned.scratch[i]),
                                     RealAt(planned.input_gradients[i])});
  }
}

void Network::BeginLoss(const LossSpec& loss, int64_t samples, int64_t place,
                        Real* gradient) {
  loss_.Begin(device_, loss, samples, RealAt(place), At(plan_.target),
              gradient);
}

absl::StatusOr<LossSums> Network::AwaitLoss() {
  TRIBUTARY_ASSIGN_OR_RETURN(const Loss loss, loss_.Await());
  return LossSums{loss.sum, loss.correct, loss.counted};
}

}  // namespace tributary
