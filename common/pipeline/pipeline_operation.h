// One pass of one micro-batch through a stage of a pipeline.
#ifndef TRIBUTARY_COMMON_PIPELINE_PIPELINE_OPERATION_H_
#define TRIBUTARY_COMMON_PIPELINE_PIPELINE_OPERATION_H_

namespace tributary {

enum class PipelinePass {
  kForward,
  // Computes the gradients of the stage's input and of its weights.
  kBackward,
  // The two halves of kBackward. kBackwardInput computes the gradient of the
  // stage's input, for which the previous stage waits. kBackwardWeights, any
  // time later, computes the gradients of the stage's weights.
  kBackwardInput,
  kBackwardWeights,
};

struct PipelineOperation {
  PipelinePass pass = PipelinePass::kForward;
  // Numbered from 0 within the part of the batch that the pipeline computes in
  // a step.
  int micro_batch = 0;
};

inline bool operator==(const PipelineOperation& a, const PipelineOperation& b) {
  return a.pass == b.pass && a.micro_batch == b.micro_batch;
}

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PIPELINE_PIPELINE_OPERATION_H_
