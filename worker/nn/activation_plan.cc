#include "worker/nn/activation_plan.h"

#include <algorithm>
#include <cstddef>

#include "worker/nn/network_cuts.h"
#include "worker/nn/plan/tensor_memory.h"

namespace tributary {
namespace {

bool TakesTokens(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const Graph::Node& node) { return node.spec.tokens; });
}

// The layer whose output is the value; -1 for the network's input.
int ProducerOf(ValueId value) { return value - 1; }

}  // namespace

ActivationPlan::ActivationPlan(const Graph& graph, const NetworkUses& uses,
                               const PassTimeline& time, const Device& device,
                               int64_t max_samples, TensorPlacement* buffers,
                               NetworkPlan* plan)
    : graph_(graph),
      nodes_(graph.nodes()),
      uses_(uses),
      time_(time),
      device_(device),
      max_samples_(max_samples),
      takes_tokens_(TakesTokens(graph)),
      buffers_(buffers),
      plan_(plan) {}

void ActivationPlan::Plan() {
  FuseSums();
  FindAgain();
  FindUses();
  PlanInputs();
  PlanValues(kFirst);
  PlanValues(kAgain);
  for (const Values& values : values_) {
    for (size_t value = 0; value < values.buffer.size(); ++value) {
      if (values.buffer[value] < 0) continue;
      buffers_->Use(values.buffer[value], values.last_use[value]);
    }
  }
  for (int i = time_.begin(); i < time_.end(); ++i) PlaceActivations(i);
}

int64_t ActivationPlan::Bytes(ValueId value) const {
  return graph_.values()[value] * max_samples_ *
         (value == graph_.input() && takes_tokens_ ? kElementBytes
                                                   : device_.real_bytes());
}

bool ActivationPlan::InOneGroup(int node, int other) const {
  return Contains(node) && Contains(other) &&
         time_.GroupOf(node) == time_.GroupOf(other);
}

int ActivationPlan::BufferOf(ValueId value, int node, Turn turn) const {
  return values_[turn == kAgain ? TurnOf(value, node) : kFirst].buffer[value];
}

int ActivationPlan::OutputOf(int node, Turn turn) const {
  return values_[turn].buffer[nodes_[node].output];
}

bool ActivationPlan::FreeAfterLoss(int buffer) const {
  for (const Values& values : values_) {
    for (size_t value = 0; value < values.buffer.size(); ++value) {
      if (values.buffer[value] == buffer &&
          values.last_use[value] > time_.Loss()) {
        return false;
      }
    }
  }
  return true;
}

int ActivationPlan::ReadTime(int node, Turn turn) const {
  const bool elsewhere = is_fused_sum_[node] &&
                         (turn == kFirst || plan_->nodes[node].again_elsewhere);
  return TimeOf(elsewhere ? node + 1 : node, turn);
}

ActivationPlan::Turn ActivationPlan::TurnOf(ValueId value, int node) const {
  return InOneGroup(ProducerOf(value), node) && time_.RecomputedLayer(node)
             ? kAgain
             : kFirst;
}

void ActivationPlan::PlanInputs() {
  Values& values = values_[kFirst];
  const std::vector<int>& readers = uses_.consumers(graph_.input());
  if (std::any_of(readers.begin(), readers.end(),
                  [this](int reader) { return Contains(reader); })) {
    const int64_t bytes = Bytes(graph_.input());
    const int64_t host_bytes =
        graph_.values()[graph_.input()] * max_samples_ * kElementBytes;
    const int buffer = buffers_->Add(bytes, time_.Input());
    values.buffer[graph_.input()] = buffer;
    buffers_->Place(&plan_->input_value, buffer);
    buffers_->Place(
        &plan_->input,
        bytes < host_bytes ? buffers_->Add(host_bytes, time_.Input()) : buffer);
  }
  for (const ValueId value : CrossingValues(graph_, time_.begin())) {
    values.buffer[value] = buffers_->Add(Bytes(value), time_.Input());
  }
  evaluation_buffer_ = values.buffer;
}

void ActivationPlan::FuseSums() {
  is_fused_sum_.assign(nodes_.size(), false);
  for (int i = time_.begin() + 1; i < time_.end(); ++i) {
    if (!nodes_[i].spec.fuses_sum || !nodes_[i - 1].spec.is_sum) continue;
    if (nodes_[i].inputs[0] != nodes_[i - 1].output) continue;
    is_fused_sum_[i - 1] = true;
    plan_->nodes[i - 1].forward_elsewhere = true;
    plan_->nodes[i - 1].again_elsewhere = InOneGroup(i - 1, i);
    plan_->nodes[i].sum = i - 1;
  }
}

bool ActivationPlan::ComputesAgain(int node) const {
  const Graph::Node& layer = nodes_[node];
  if (uses_.has_backward(node) &&
      (layer.spec.backward_reads_output ||
       layer.layer->SavedElements(device_, max_samples_) > 0)) {
    return true;
  }
  for (const int consumer : uses_.consumers(layer.output)) {
    if (!InOneGroup(node, consumer)) continue;
    if (plan_->nodes[consumer].again) return true;
    if (uses_.has_backward(consumer) &&
        nodes_[consumer].spec.backward_reads_input) {
      return true;
    }
  }
  return false;
}

void ActivationPlan::FindAgain() {
  for (int i = time_.end() - 1; i >= time_.begin(); --i) {
    if (!time_.RecomputedLayer(i)) continue;
    NetworkPlan::Node& planned = plan_->nodes[i];
    planned.again = ComputesAgain(i);
    // The layer that computes the sum or the GELU does so again.
    const bool computes_next = i + 1 < time_.end() && InOneGroup(i, i + 1) &&
                               (is_fused_sum_[i] || nodes_[i + 1].spec.is_gelu);
    if (planned.again && computes_next && !plan_->nodes[i + 1].again) {
      plan_->nodes[i + 1].again = true;
    }
  }
}

void ActivationPlan::Extend(Turn turn, ValueId value, int time) {
  int& last = values_[turn].last_use[value];
  last = std::max(last, time);
}

void ActivationPlan::FindUses() {
  for (Values& values : values_) {
    values.buffer.assign(graph_.values().size(), -1);
    values.last_use.assign(graph_.values().size(), 0);
  }
  for (int i = time_.begin(); i < time_.end(); ++i) {
    const Graph::Node& node = nodes_[i];
    const bool again = plan_->nodes[i].again;
    Extend(kFirst, node.output, time_.Forward(i));
    if (again) Extend(kAgain, node.output, time_.Again(i));
    if (node.spec.backward_reads_output) {
      Extend(time_.RecomputedLayer(i) ? kAgain : kFirst, node.output,
             LastPass(i));
    }
    for (const ValueId input : node.inputs) {
      Extend(kFirst, input, ReadTime(i, kFirst));
      const Turn turn = TurnOf(input, i);
      if (again) Extend(turn, input, ReadTime(i, kAgain));
      if (!node.spec.backward_reads_input) continue;
      Extend(turn, input, LastPass(i));
    }
  }
  for (const ValueId value : CrossingValues(graph_, time_.end())) {
    Extend(kFirst, value, time_.Loss());
  }
  if (time_.end() == static_cast<int>(nodes_.size())) {
    Extend(kFirst, graph_.loss_input(), time_.Loss());
  }
}

int ActivationPlan::LastForwardUse(ValueId value) const {
  int last = value == graph_.loss_input() ? time_.Loss() : 0;
  for (const int consumer : uses_.consumers(value)) {
    if (consumer >= time_.end()) {
      last = time_.Loss();
      continue;
    }
    last = std::max(last, ReadTime(consumer, kFirst));
    if (nodes_[consumer].spec.identity_in_evaluation) {
      last = std::max(last, LastForwardUse(nodes_[consumer].output));
    }
  }
  return last;
}

bool ActivationPlan::MayOverwrite(int node, Turn turn) const {
  const LayerSpec& spec = nodes_[node].spec;
  if (spec.in_place_input < 0) return false;
  const std::vector<ValueId>& inputs = nodes_[node].inputs;
  const ValueId overwritten = inputs[spec.in_place_input];
  if (overwritten == graph_.input()) return false;
  const int buffer = BufferOf(overwritten, node, turn);
  for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
    if (i != spec.in_place_input && BufferOf(inputs[i], node, turn) == buffer) {
      return false;
    }
  }
  for (const Values& values : values_) {
    for (size_t value = 0; value < values.buffer.size(); ++value) {
      if (values.buffer[value] == buffer &&
          values.last_use[value] > ReadTime(node, turn)) {
        return false;
      }
    }
  }
  return true;
}

void ActivationPlan::PlanValues(Turn turn) {
  Values& values = values_[turn];
  values.saved.assign(nodes_.size(), -1);
  for (int i = time_.begin(); i < time_.end(); ++i) {
    if (turn == kAgain && !plan_->nodes[i].again) continue;
    const Graph::Node& node = nodes_[i];
    const bool in_place = MayOverwrite(i, turn);
    values.buffer[node.output] =
        in_place ? BufferOf(node.inputs[node.spec.in_place_input], i, turn)
                 : buffers_->Add(Bytes(node.output), TimeOf(i, turn));
    if (turn == kFirst) {
      evaluation_buffer_[node.output] = values.buffer[node.output];
      if (node.spec.identity_in_evaluation) {
        // The input serves as the output in evaluation, so it lives as long.
        const ValueId input = node.inputs[0];
        evaluation_buffer_[node.output] = evaluation_buffer_[input];
        if (!in_place) Extend(turn, input, LastForwardUse(node.output));
      }
    }
    const int64_t saved = node.layer->SavedElements(device_, max_samples_);
    if (saved == 0) continue;
    values.saved[i] = buffers_->Add(saved * kElementBytes, TimeOf(i, turn));
    const bool for_backward = (turn == kAgain) == time_.RecomputedLayer(i);
    if (for_backward) buffers_->Use(values.saved[i], LastPass(i));
  }
}

void ActivationPlan::PlaceActivations(int i) {
  NetworkPlan::Node& planned = plan_->nodes[i];
  const Graph::Node& node = nodes_[i];
  const Turn backward = time_.RecomputedLayer(i) ? kAgain : kFirst;
  buffers_->Place(&planned.forward.output, values_[kFirst].buffer[node.output]);
  buffers_->Place(&planned.forward.saved, values_[kFirst].saved[i]);
  buffers_->Place(&planned.backward.output,
                  values_[backward].buffer[node.output]);
  buffers_->Place(&planned.backward.saved, values_[backward].saved[i]);
  for (size_t k = 0; k < node.inputs.size(); ++k) {
    const ValueId input = node.inputs[k];
    buffers_->Place(&planned.forward.inputs[k], values_[kFirst].buffer[input]);
    buffers_->Place(&planned.backward.inputs[k], BufferOf(input, i, kAgain));
    buffers_->Place(&planned.evaluation_inputs[k], evaluation_buffer_[input]);
  }
  if (node.spec.constants.empty()) return;
  const auto elements = static_cast<int64_t>(node.spec.constants.size());
  const int buffer = buffers_->Add(elements * kElementBytes, time_.Input());
  buffers_->Use(buffer, time_.Last());
  buffers_->Place(&planned.constants, buffer);
}

}  // namespace tributary
