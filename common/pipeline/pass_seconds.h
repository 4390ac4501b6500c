// The time that a layer or a stage needs for one micro-batch.
#ifndef TRIBUTARY_COMMON_PIPELINE_PASS_SECONDS_H_
#define TRIBUTARY_COMMON_PIPELINE_PASS_SECONDS_H_

namespace tributary {

struct PassSeconds {
  double forward = 0;
  double backward_input = 0;
  double backward_weights = 0;

  double total() const { return forward + backward_input + backward_weights; }
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PIPELINE_PASS_SECONDS_H_
