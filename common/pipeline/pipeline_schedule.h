// The schedules of a pipeline: in which order each stage runs its operations.
//
// All schedules have one form. A stage runs forward passes until it holds as
// many micro-batches as its limit, then alternates between the backward pass of
// one micro-batch and the forward pass of another, and ends with the remaining
// backward passes. If the schedule splits backward, weight passes follow the
// backward passes with a fixed delay. A schedule is thus defined by its limits:
// to add one, add an enumerator, and a row to the table in the .cc file.
#ifndef TRIBUTARY_COMMON_PIPELINE_PIPELINE_SCHEDULE_H_
#define TRIBUTARY_COMMON_PIPELINE_PIPELINE_SCHEDULE_H_

#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/pipeline/pass_seconds.h"
#include "common/pipeline/pipeline_operation.h"
#include "proto/job.pb.h"

namespace tributary {

enum class PipelineSchedule {
  // All forward passes, then all backward passes (Huang et al., "GPipe:
  // Efficient Training of Giant Neural Networks using Pipeline Parallelism",
  // 2019).
  kGPipe,
  // One forward, one backward (1F1B): backward begins as early as possible, so
  // that a stage holds few micro-batches (Narayanan et al., "PipeDream:
  // Generalized Pipeline Parallelism for DNN Training", 2019; here, all weights
  // of a step have the same version).
  kOneForwardOneBackward,
  // ZB-H1: 1F1B with weight passes that are delayed to where a stage would
  // otherwise be idle (Qi et al., "Zero Bubble Pipeline Parallelism", 2023).
  kZeroBubble,
};

// Capacity of the queues between stages: each boundary has one queue for
// activations and one for their gradients. A stage begins an operation only
// when there is a place for its result; the place is free again when the next
// stage begins the operation that consumes the result. A capacity of 1 is
// enough for every step to complete; the second place lets a stage compute
// while the receiver of its previous result is late.
constexpr int kStageQueueCapacity = 2;

// The place of a stage in its pipeline, and the length of a step. A worker that
// has taken over the stages of a neighbour computes them as one larger stage;
// the pipeline then has as many stages as it has workers.
struct StageContext {
  int stages = 1;
  int stage = 0;  // Stage 0 reads the samples.
  int micro_batches = 1;
};

// Largest numbers of micro-batches that a stage holds in memory.
struct StageLimits {
  // Micro-batches from the beginning of their forward pass to the end of their
  // backward pass (of kBackwardInput, if backward is split). Must not increase
  // from one stage to the next; otherwise the pipeline deadlocks.
  int in_flight = 1;
  // Micro-batches whose weight pass is delayed past the next forward or
  // backward pass. 0 if backward is not split.
  int delayed = 0;
};

struct ScheduleTraits {
  PipelineSchedule schedule;
  // The schedule's name in a job file.
  absl::string_view name;
  // True if kBackwardInput and kBackwardWeights take the place of kBackward.
  bool splits_backward;
  StageLimits (*limits)(const StageContext& context);
  // Time in a step during which each stage is idle if all stages take the time
  // `seconds` per micro-batch, and transfers take none.
  double (*idle_seconds)(int stages, int micro_batches,
                         const PassSeconds& seconds);
};

// Returns all schedules, in the order of the enumerators.
absl::Span<const ScheduleTraits> AllSchedules();

const ScheduleTraits& TraitsOf(PipelineSchedule schedule);

// Returns the schedule of a job; kZeroBubble, the default, if it names none.
PipelineSchedule ScheduleOf(const PipelineSpec& spec);

// Returns all operations of a stage in a step, in the order in which the stage
// must run them. A stage waits if the input of its next operation has not
// arrived. It does not fill a short wait with a later weight pass: that would
// delay the stages that wait for this one, and make the step longer.
//
// Micro-batches pass each boundary in ascending order, in both directions, and
// weight passes are in ascending order too. If all stages follow their orders,
// a step completes with queues of any capacity of at least 1. It also completes
// if each weight pass waits until the next stage has computed the gradients of
// its weights for the same micro-batch. GPipe and 1F1B never wait for that. But
// the later stages of ZB-H1 delay weight passes longer, so that a step would
// take at least as long as with 1F1B: what a stage needs from the weight passes
// of later stages, it must add without keeping its next operation waiting.
std::vector<PipelineOperation> StageOrder(PipelineSchedule schedule,
                                          const StageContext& context);

// Returns the bubble: the fraction of a step during which a stage is idle,
// under the assumptions of ScheduleTraits::idle_seconds. The speed-up over one
// worker that computes all stages is then stages * (1 - bubble).
double BubbleFraction(PipelineSchedule schedule, int stages, int micro_batches,
                      const PassSeconds& seconds);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_PIPELINE_PIPELINE_SCHEDULE_H_
