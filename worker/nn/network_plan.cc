#include "worker/nn/network_plan.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "proto/parameter_server.pb.h"
#include "worker/nn/activation_plan.h"
#include "worker/nn/network_cuts.h"
#include "worker/nn/network_uses.h"
#include "worker/nn/plan/pass_timeline.h"
#include "worker/nn/plan/tensor_memory.h"
#include "worker/nn/plan/tensor_placement.h"

namespace tributary {
namespace {

// 16 TiB: exceeds the memory of any machine, and sums of buffer sizes do not
// overflow.
constexpr int64_t kMaxBufferElements = int64_t{1} << 42;

absl::Status OnlyHostFloats(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat(what,
                   " computes only on CPUs and in FLOAT32; start the job with "
                   "--device cpu, and leave out precision"));
}

// Plans gradients, and joins the plans of activations and gradients.
class Planner {
 public:
  Planner(const Graph& graph, int64_t max_samples, const Device& device,
          const NetworkPart& part, const PassTimeline& time)
      : graph_(graph),
        nodes_(graph.nodes()),
        count_(static_cast<int>(graph.nodes().size())),
        max_samples_(max_samples),
        device_(device),
        part_(part),
        time_(time),
        uses_(graph, part.separate_weights),
        values_(graph, uses_, time, device, max_samples, &buffers_, &plan_) {}

  absl::StatusOr<NetworkPlan> Plan();

 private:
  using Turn = ActivationPlan::Turn;

  bool IsLastPart() const { return time_.end() == count_; }
  absl::Status CheckGraph() const;
  absl::Status CheckSharedParameters() const;
  absl::Status CheckPart() const;
  absl::Status CheckValues() const;
  void PlanLossGradient();
  void PlanGradients();
  void PlanInputGradient(int node, int input);
  // Returns whether no gradient in the buffer is still needed once Backward of
  // `node` has read its output gradient: by an earlier layer, or by the weights
  // pass of any layer.
  bool NobodyElseReads(int buffer, int node) const;
  bool MayShareGradient(int node, int input) const;
  // Lets the layers adjacent to a GELU compute it.
  void FuseGelu(int node);
  // Finds which layers accumulate parameter gradients, and when these become
  // final.
  void PlanParameters();
  void PlanCrossings();

  int ProducerOf(ValueId value) const { return value - 1; }

  const Graph& graph_;
  const std::vector<Graph::Node>& nodes_;
  const int count_;
  const int64_t max_samples_;
  const Device& device_;
  const NetworkPart& part_;
  const PassTimeline& time_;
  const NetworkUses uses_;
  TensorPlacement buffers_;
  NetworkPlan plan_;
  ActivationPlan values_;

  std::vector<int> gradient_buffer_;  // By value; -1 if not assigned yet.
  // By node: true if the node computes the GELU that follows it.
  std::vector<bool> makes_gelu_;
};

absl::Status Planner::CheckGraph() const {
  TRIBUTARY_RETURN_IF_ERROR(graph_.status());
  if (max_samples_ < 1) {
    return absl::InvalidArgumentError("a batch must have room for a sample");
  }
  if (graph_.loss_input() < 1 || graph_.table().parameter_size() == 0) {
    return absl::InvalidArgumentError("the network has nothing to train");
  }
  for (size_t value = 0; value < graph_.values().size(); ++value) {
    const int64_t elements = graph_.values()[value];
    if (elements < 1 || elements > kMaxBufferElements / max_samples_) {
      return absl::ResourceExhaustedError(
          absl::StrCat(value == 0 ? "the input" : nodes_[value - 1].name,
                       " has ", elements, " elements per sample, and a batch ",
                       max_samples_, " samples: too large"));
    }
  }
  const bool host_floats =
      !device_.has_own_memory() && device_.precision() == Precision::kFloat32;
  if (!host_floats && graph_.loss().function != nullptr) {
    return OnlyHostFloats("loss: this loss");
  }
  for (const Graph::Node& node : nodes_) {
    if (host_floats || !node.spec.host_floats) continue;
    return OnlyHostFloats(absl::StrCat(node.name, ": this layer"));
  }
  return CheckSharedParameters();
}

absl::Status Planner::CheckSharedParameters() const {
  std::vector<int> uses(graph_.table().parameter_size());
  for (const Graph::Node& node : nodes_) {
    for (const int parameter : node.parameters) ++uses[parameter];
  }
  for (const Graph::Node& node : nodes_) {
    for (size_t i = 0; i < node.parameters.size(); ++i) {
      if (uses[node.parameters[i]] == 1) continue;
      if (i > 0 || !node.spec.accumulates_weight) {
        return absl::InvalidArgumentError(
            absl::StrCat(node.name, ": its parameter cannot be shared"));
      }
    }
  }
  return absl::OkStatus();
}

absl::Status Planner::CheckPart() const {
  if (graph_.vector_elements() > 0 && (time_.begin() > 0 || !IsLastPart())) {
    return absl::InvalidArgumentError(
        "a network that computes the gradients of vectors cannot be divided");
  }
  const std::vector<bool> allowed = AllowedCuts(graph_);
  for (const int cut : {time_.begin(), time_.end()}) {
    if (cut == 0 || cut == count_ || allowed[cut]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(nodes_[cut].name, ": a part of the network cannot begin ",
                     "with it, because it is computed together with ",
                     nodes_[cut - 1].name));
  }
  return absl::OkStatus();
}

void Planner::PlanLossGradient() {
  if (!IsLastPart()) return;
  const ValueId loss_input = graph_.loss_input();
  const int value_buffer = values_.training_buffer(loss_input);
  buffers_.Place(&plan_.loss_input, value_buffer);
  buffers_.Place(&plan_.evaluation_loss_input,
                 values_.evaluation_buffer(loss_input));
  const int target = buffers_.Add(
      graph_.loss().TargetElements() * max_samples_ * kElementBytes,
      time_.Input());
  buffers_.Use(target, time_.Loss());
  buffers_.Place(&plan_.target, target);
  // The gradient of the logits overwrites them if only the loss reads them from
  // here on, and allows it: a LossFunction does not compute in place.
  const bool overwrites =
      graph_.loss().function == nullptr && values_.FreeAfterLoss(value_buffer);
  gradient_buffer_[loss_input] =
      overwrites ? value_buffer
                 : buffers_.Add(values_.Bytes(loss_input), time_.Loss());
  buffers_.Place(&plan_.loss_gradient, gradient_buffer_[loss_input]);
}

void Planner::PlanGradients() {
  gradient_buffer_.assign(graph_.values().size(), -1);
  PlanLossGradient();
  for (const ValueId value : CrossingValues(graph_, time_.end())) {
    if (uses_.needs_gradient(value)) {
      gradient_buffer_[value] =
          buffers_.Add(values_.Bytes(value), time_.Gradients());
    }
  }
  for (int i = time_.end() - 1; i >= time_.begin(); --i) {
    const Graph::Node& node = nodes_[i];
    if (!uses_.has_backward(i)) continue;
    NetworkPlan::Node& planned = plan_.nodes[i];
    planned.has_backward = true;
    buffers_.Use(gradient_buffer_[node.output],
                 uses_.separates(i) ? time_.Weights(i) : time_.Backward(i));
    buffers_.Place(&planned.output_gradient, gradient_buffer_[node.output]);
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (uses_.needs_gradient(node.inputs[k])) PlanInputGradient(i, k);
    }
  }
}

void Planner::PlanInputGradient(int node, int input) {
  const LayerSpec& spec = nodes_[node].spec;
  const ValueId value = nodes_[node].inputs[input];
  const int output_buffer = gradient_buffer_[nodes_[node].output];
  NetworkPlan::Node& planned = plan_.nodes[node];
  int& buffer = gradient_buffer_[value];
  const int now = time_.Backward(node);
  if (buffer >= 0) {
    planned.accumulate[input] = spec.accumulates;
    if (!spec.accumulates) {
      buffers_.Place(&planned.scratch[input],
                     buffers_.Add(values_.Bytes(value), now));
    }
  } else if (MayShareGradient(node, input)) {
    buffer = output_buffer;
  } else {
    buffer = buffers_.Add(values_.Bytes(value), now);
  }
  buffers_.Use(buffer, now);
  buffers_.Place(&planned.input_gradients[input], buffer);
}

bool Planner::NobodyElseReads(int buffer, int node) const {
  for (int i = 0; i < count_; ++i) {
    if (i >= node && !uses_.separates(i)) continue;
    if (gradient_buffer_[nodes_[i].output] == buffer) return false;
  }
  return true;
}

bool Planner::MayShareGradient(int node, int input) const {
  const LayerSpec& spec = nodes_[node].spec;
  const std::vector<ValueId>& inputs = nodes_[node].inputs;
  const int buffer = gradient_buffer_[nodes_[node].output];
  // The weights pass of this layer still reads it.
  if (uses_.separates(node)) return false;
  if (spec.gradient_in_place && input == 0) {
    return NobodyElseReads(buffer, node);
  }
  if (!spec.passes_gradient) return false;
  if (inputs.size() == 2 && inputs[0] == inputs[1]) return false;
  if (input == 0) return NobodyElseReads(buffer, node);
  const ValueId stream = inputs[0];
  if (gradient_buffer_[stream] != buffer) return NobodyElseReads(buffer, node);
  // The stream's gradient has the buffer. The branch may share it if its
  // gradient is read before anything is added to the stream's, and nothing is
  // added to the branch's own.
  const int branch_producer = ProducerOf(inputs[input]);
  if (branch_producer >= 0 && uses_.separates(branch_producer)) return false;
  if (uses_.consumers(inputs[input]).size() != 1) return false;
  for (const int consumer : uses_.consumers(stream)) {
    if (consumer != node && consumer >= branch_producer) return false;
  }
  return true;
}

void Planner::FuseGelu(int node) {
  const ValueId input = nodes_[node].inputs[0];
  const ValueId output = nodes_[node].output;
  const int before = ProducerOf(input);
  if (before >= time_.begin() && nodes_[before].spec.fuses_gelu &&
      !makes_gelu_[before]) {
    makes_gelu_[before] = true;
    NetworkPlan::Node& maker = plan_.nodes[before];
    plan_.nodes[node].forward_elsewhere = true;
    plan_.nodes[node].again_elsewhere = true;
    const int first = values_.OutputOf(node, Turn::kFirst);
    buffers_.Use(first, time_.Forward(before));
    buffers_.Place(&maker.forward.gelu_output, first);
    const bool again = time_.RecomputedLayer(node);
    const int second =
        values_.OutputOf(node, again ? Turn::kAgain : Turn::kFirst);
    if (again && second >= 0) buffers_.Use(second, time_.Again(before));
    buffers_.Place(&maker.backward.gelu_output, second);
  }
  if (!plan_.nodes[node].has_backward || uses_.consumers(output).size() != 1) {
    return;
  }
  const int behind = uses_.consumers(output)[0];
  // Both gradients share one buffer, and nothing is added to either.
  if (behind < time_.end() && nodes_[behind].spec.fuses_gelu &&
      uses_.needs_gradient(input) &&
      gradient_buffer_[input] == gradient_buffer_[output] &&
      !plan_.nodes[behind].accumulate[0] && !plan_.nodes[node].accumulate[0]) {
    plan_.nodes[node].has_backward = false;
    buffers_.Place(&plan_.nodes[behind].gelu_input,
                   values_.BufferOf(input, node, Turn::kAgain));
  }
}

void Planner::PlanParameters() {
  const int parameters = graph_.table().parameter_size();
  std::vector<int> first_user(parameters, count_);
  std::vector<int> last_user(parameters, -1);
  for (int i = count_ - 1; i >= 0; --i) {
    for (const int parameter : nodes_[i].parameters) {
      if (first_user[parameter] < count_) {
        plan_.nodes[i].accumulate_weight = true;
      }
      first_user[parameter] = i;
      last_user[parameter] = std::max(last_user[parameter], i);
    }
  }
  for (int i = time_.begin(); i < time_.end(); ++i) {
    const std::vector<int>& list = nodes_[i].parameters;
    plan_.nodes[i].awaits_later_parts = std::any_of(
        list.begin(), list.end(),
        [&](int parameter) { return last_user[parameter] >= time_.end(); });
  }
  int begin = parameters;
  while (begin > 0 && first_user[begin - 1] >= time_.end()) --begin;
  for (int i = time_.end() - 1; i >= time_.begin(); --i) {
    const int before = begin;
    while (begin > 0 && first_user[begin - 1] >= i) --begin;
    if (begin < before) plan_.nodes[i].ready_parameter = begin;
  }
}

void Planner::PlanCrossings() {
  const auto list = [this](int layer, std::vector<NetworkPlan::Crossing>* to) {
    for (const ValueId value : CrossingValues(graph_, layer)) {
      to->push_back({value});
      to->back().bytes = values_.Bytes(value);
    }
    for (NetworkPlan::Crossing& crossing : *to) {
      buffers_.Place(&crossing.place, values_.training_buffer(crossing.value));
      buffers_.Place(&crossing.evaluation_place,
                     values_.evaluation_buffer(crossing.value));
      buffers_.Place(&crossing.gradient, gradient_buffer_[crossing.value]);
    }
  };
  if (time_.begin() > 0) list(time_.begin(), &plan_.received);
  if (!IsLastPart()) list(time_.end(), &plan_.sent);
  if (const int gradient = gradient_buffer_[graph_.input()]; gradient >= 0) {
    buffers_.Use(gradient, time_.Last());
    buffers_.Place(&plan_.input_gradient, gradient);
  }
  for (const NetworkPlan::Crossing& crossing : plan_.received) {
    const int gradient = gradient_buffer_[crossing.value];
    if (gradient >= 0) buffers_.Use(gradient, time_.Handover());
  }
}

absl::Status Planner::CheckValues() const {
  for (const Graph::Node& node : nodes_) {
    if (uses_.consumers(node.output).empty() &&
        node.output != graph_.loss_input()) {
      return absl::InvalidArgumentError(
          absl::StrCat(node.name, ": nothing uses its output"));
    }
  }
  if (!uses_.needs_gradient(graph_.loss_input())) {
    return absl::InvalidArgumentError("the loss depends on no parameter");
  }
  return absl::OkStatus();
}

absl::StatusOr<NetworkPlan> Planner::Plan() {
  TRIBUTARY_RETURN_IF_ERROR(CheckGraph());
  TRIBUTARY_RETURN_IF_ERROR(CheckPart());
  TRIBUTARY_RETURN_IF_ERROR(CheckValues());
  plan_.begin = time_.begin();
  plan_.end = time_.end();
  plan_.nodes.resize(count_);
  for (int i = 0; i < count_; ++i) {
    plan_.nodes[i].separate_weights = uses_.separates(i);
  }
  for (int group = 0; group < time_.groups(); ++group) {
    plan_.groups.push_back(time_.GroupEnd(group));
  }
  values_.Plan();
  PlanGradients();
  PlanCrossings();
  makes_gelu_.assign(count_, false);
  for (int i = time_.begin(); i < time_.end(); ++i) {
    if (nodes_[i].spec.is_gelu) FuseGelu(i);
  }
  PlanParameters();
  const TensorPlacement::Sizes sizes = buffers_.Resolve(
      time_, /*shares=*/part_.in_flight > 1 || part_.shares_memory);
  plan_.kept_bytes = sizes.kept_bytes;
  plan_.bytes = sizes.bytes;
  return std::move(plan_);
}

}  // namespace

absl::StatusOr<NetworkPlan> PlanNetwork(const Graph& graph, int64_t max_samples,
                                        const Device& device,
                                        const NetworkPart& part) {
  using Recompute = PassTimeline::Recompute;
  TRIBUTARY_RETURN_IF_ERROR(graph.status());
  const int count = static_cast<int>(graph.nodes().size());
  const int end = part.end < 0 ? count : part.end;
  if (part.begin < 0 || part.begin > end || end > count ||
      (part.begin == end && count > 0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a network of ", count, " layers has no part from layer ",
                     part.begin, " to layer ", end - 1));
  }
  const auto plan = [&](std::vector<int> group_ends, Recompute recompute) {
    const PassTimeline time(part.begin, end, std::move(group_ends), recompute);
    return Planner(graph, max_samples, device, part, time).Plan();
  };
  absl::StatusOr<NetworkPlan> best = plan({end}, Recompute::kNone);
  if (!part.recompute || !best.ok()) return best;
  // Backward of a single micro-batch in flight follows forward of the last part
  // of the network at once.
  const Recompute recompute =
      end == count && part.in_flight == 1 && !part.shares_memory
          ? Recompute::kAllButLast
          : Recompute::kAll;
  const std::vector<int> blocks = BlockEnds(graph, part.begin, end);
  for (size_t size = 1; size < 2 * blocks.size(); size *= 2) {
    std::vector<int> groups;
    for (size_t i = size; i < blocks.size(); i += size) {
      groups.push_back(blocks[i - 1]);
    }
    groups.push_back(end);
    TRIBUTARY_ASSIGN_OR_RETURN(NetworkPlan candidate,
                               plan(std::move(groups), recompute));
    if (candidate.BytesOf(part.in_flight) < best->BytesOf(part.in_flight)) {
      best = std::move(candidate);
    }
  }
  return best;
}

}  // namespace tributary
