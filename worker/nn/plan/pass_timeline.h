// The order in which a network computes the layers of one micro-batch.
#ifndef TRIBUTARY_WORKER_NN_PLAN_PASS_TIMELINE_H_
#define TRIBUTARY_WORKER_NN_PLAN_PASS_TIMELINE_H_

#include <vector>

namespace tributary {

// Points in time of the computation of one micro-batch, for layers [begin, end)
// of a network. The computation consists of three passes, between which other
// micro-batches may be computed:
//
//   forward   layers in ascending order, and then the loss or, if the network
//             has layers behind `end`, passing values on to them
//   backward  for each group of layers, the last group first: forward of the
//             group again, if the group is recomputed, and then the gradients
//             of activations, layer by layer in descending order; at the end,
//             passing gradients on to the layers before `begin`
//   weights   the gradients of weights that backward has left out, layer by
//             layer in descending order
//
// Only the order of the numbers matters. Immutable.
class PassTimeline {
 public:
  enum class Pass { kForward, kBackward, kWeights };

  // `group_ends` divides the layers into groups, in ascending order; its last
  // element is `end`. All groups are recomputed, or all except the last one,
  // for which backward follows forward at once, or none.
  enum class Recompute { kNone, kAllButLast, kAll };
  PassTimeline(int begin, int end, std::vector<int> group_ends,
               Recompute recompute);

  int begin() const { return begin_; }
  int end() const { return end_; }
  int groups() const { return static_cast<int>(group_ends_.size()); }
  int GroupBegin(int group) const {
    return group == 0 ? begin_ : group_ends_[group - 1];
  }
  int GroupEnd(int group) const { return group_ends_[group]; }
  // Returns the group of a layer in [begin, end).
  int GroupOf(int layer) const { return group_of_[layer - begin_]; }
  bool Recomputed(int group) const;
  bool RecomputedLayer(int layer) const { return Recomputed(GroupOf(layer)); }

  // The input of the network, and the values of layers before `begin`, arrive.
  int Input() const { return 0; }
  int Forward(int layer) const { return forward_[layer - begin_]; }
  // The loss is computed, and values are passed on to layers behind `end`.
  int Loss() const { return loss_; }
  // The gradients of these values arrive.
  int Gradients() const { return gradients_; }
  // Forward of the layer again. Requires RecomputedLayer.
  int Again(int layer) const { return again_[layer - begin_]; }
  int Backward(int layer) const { return backward_[layer - begin_]; }
  // Gradients are passed on to layers before `begin`.
  int Handover() const { return handover_; }
  // The gradients of the layer's weights, if backward has left them out.
  int Weights(int layer) const { return weights_[layer - begin_]; }
  int Last() const { return last_; }
  // Returns the pass to which a point in time belongs.
  Pass PassAt(int time) const;

 private:
  const int begin_;
  const int end_;
  const std::vector<int> group_ends_;
  const Recompute recompute_;
  // By layer, from layer `begin`.
  std::vector<int> group_of_, forward_, again_, backward_, weights_;
  int loss_ = 0;
  int gradients_ = 0;
  int handover_ = 0;
  int last_ = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_PLAN_PASS_TIMELINE_H_
