#include "worker/nn/plan/pass_timeline.h"

#include <utility>

namespace tributary {

PassTimeline::PassTimeline(int begin, int end, std::vector<int> group_ends,
                           Recompute recompute)
    : begin_(begin),
      end_(end),
      group_ends_(std::move(group_ends)),
      recompute_(recompute),
      group_of_(end - begin),
      forward_(end - begin),
      again_(end - begin),
      backward_(end - begin),
      weights_(end - begin) {
  int now = Input();
  for (int group = 0; group < groups(); ++group) {
    for (int layer = GroupBegin(group); layer < GroupEnd(group); ++layer) {
      group_of_[layer - begin_] = group;
      forward_[layer - begin_] = ++now;
    }
  }
  loss_ = ++now;
  gradients_ = ++now;
  for (int group = groups() - 1; group >= 0; --group) {
    for (int i = GroupBegin(group); Recomputed(group) && i < GroupEnd(group);
         ++i) {
      again_[i - begin_] = ++now;
    }
    for (int i = GroupEnd(group) - 1; i >= GroupBegin(group); --i) {
      backward_[i - begin_] = ++now;
    }
  }
  handover_ = ++now;
  for (int i = end_ - 1; i >= begin_; --i) weights_[i - begin_] = ++now;
  last_ = now;
}

bool PassTimeline::Recomputed(int group) const {
  return recompute_ == Recompute::kAll ||
         (recompute_ == Recompute::kAllButLast && group + 1 < groups());
}

PassTimeline::Pass PassTimeline::PassAt(int time) const {
  if (time <= loss_) return Pass::kForward;
  return time <= handover_ ? Pass::kBackward : Pass::kWeights;
}

}  // namespace tributary
