// Buffers for the values that a part of a network computes in forward.
#ifndef TRIBUTARY_WORKER_NN_ACTIVATION_PLAN_H_
#define TRIBUTARY_WORKER_NN_ACTIVATION_PLAN_H_

#include <array>
#include <cstdint>
#include <vector>

#include "worker/device/device.h"
#include "worker/nn/graph.h"
#include "worker/nn/network_plan.h"
#include "worker/nn/network_uses.h"
#include "worker/nn/plan/pass_timeline.h"
#include "worker/nn/plan/tensor_placement.h"

namespace tributary {

// Plans the buffers of values, and which layers compute a sum for the layer
// before them. Activations are computed once or, in groups of layers that are
// computed again, twice, and each time have buffers of their own. Sets the
// fields of NetworkPlan that concern forward.
class ActivationPlan {
 public:
  enum Turn { kFirst, kAgain };

  // All arguments must outlive this object. `*plan` has a node for each layer.
  ActivationPlan(const Graph& graph, const NetworkUses& uses,
                 const PassTimeline& time, const Device& device,
                 int64_t max_samples, TensorPlacement* buffers,
                 NetworkPlan* plan);

  // Finds the buffers, and places the activations of all layers.
  void Plan();

  // Returns the buffer of the value as `node` reads it: in the turn kAgain, as
  // backward of `node` reads it. -1 if there is none.
  int BufferOf(ValueId value, int node, Turn turn) const;
  // Returns the buffer in which the value is when forward has ended, in
  // training and in evaluation. -1 if the part has no such value.
  int training_buffer(ValueId value) const {
    return values_[kFirst].buffer[value];
  }
  int evaluation_buffer(ValueId value) const {
    return evaluation_buffer_[value];
  }
  // Returns the buffer of the layer's output in a turn; -1 if there is none.
  int OutputOf(int node, Turn turn) const;
  // Returns true if nothing that is in this buffer is read after the loss.
  bool FreeAfterLoss(int buffer) const;

  // Returns whether both layers belong to the part and are computed in the same
  // group, so that they may compute something together.
  bool InOneGroup(int node, int other) const;
  int64_t Bytes(ValueId value) const;

 private:
  struct Values {
    std::vector<int> buffer;    // By value; -1: the value does not exist.
    std::vector<int> last_use;  // By value: the time of the last use.
    std::vector<int> saved;     // By node: the buffer; -1: none.
  };

  bool Contains(int node) const {
    return time_.begin() <= node && node < time_.end();
  }
  int TimeOf(int node, Turn turn) const {
    return turn == kFirst ? time_.Forward(node) : time_.Again(node);
  }
  // When Backward of the node is called for the last time.
  int LastPass(int node) const {
    return uses_.separates(node) ? time_.Weights(node) : time_.Backward(node);
  }
  // When forward reads the inputs of the node.
  int ReadTime(int node, Turn turn) const;
  // Returns the turn in which the value is computed that backward of `node`,
  // and forward in turn kAgain, read.
  Turn TurnOf(ValueId value, int node) const;
  // Lets layers compute the sum that the layer before them would compute.
  void FuseSums();
  // Finds the layers that are computed again.
  void FindAgain();
  bool ComputesAgain(int node) const;
  void FindUses();
  void Extend(Turn turn, ValueId value, int time);
  // The time of the last use in forward, in evaluation.
  int LastForwardUse(ValueId value) const;
  // Plans the input of the network, and the values of earlier parts.
  void PlanInputs();
  void PlanValues(Turn turn);
  // Returns whether the output of `node` may use the memory of its
  // in_place_input.
  bool MayOverwrite(int node, Turn turn) const;
  void PlaceActivations(int node);

  const Graph& graph_;
  const std::vector<Graph::Node>& nodes_;
  const NetworkUses& uses_;
  const PassTimeline& time_;
  const Device& device_;
  const int64_t max_samples_;
  const bool takes_tokens_;
  TensorPlacement* const buffers_;
  NetworkPlan* const plan_;

  std::vector<bool> is_fused_sum_;      // By node.
  std::array<Values, 2> values_;        // By turn.
  std::vector<int> evaluation_buffer_;  // By value.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_ACTIVATION_PLAN_H_
