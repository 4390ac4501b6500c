// What a worker computes in a pipeline.
#ifndef TRIBUTARY_WORKER_TRAINING_STAGES_STAGE_PART_H_
#define TRIBUTARY_WORKER_TRAINING_STAGES_STAGE_PART_H_

#include <cstdint>
#include <functional>

#include "common/pipeline/pipeline_schedule.h"
#include "proto/rendezvous.pb.h"
#include "worker/exchange/stages/stage_transfers.h"
#include "worker/models/stages/stage_model.h"
#include "worker/models/stages/stage_split.h"

namespace tributary {

// A worker's place in a pipeline: the workers are numbered in the order of
// their stages.
struct PipelinePlace {
  int workers = 1;
  int worker = 0;
};

// What a worker computes in a pipeline. The pointers must outlive the trainer.
struct StagePart {
  int64_t generation = 0;  // Of the Stage order.
  // The consecutive stages [begin_stage, end_stage).
  int begin_stage = 0;
  int end_stage = 1;
  // Returns the worker's place in the pipeline under an assignment, given by
  // its generation.
  std::function<PipelinePlace(int64_t generation)> place;
  // Called for each assignment before the WorkState receives it. May be null.
  std::function<void(const Deal&)> on_deal;
  PipelineSchedule schedule = PipelineSchedule::kOneForwardOneBackward;
  const StageSplit* split = nullptr;
  // Computes the layers of all of these stages.
  StageModel* model = nullptr;
  StageTransfers* transfers = nullptr;

  bool Computes(int stage) const {
    return begin_stage <= stage && stage < end_stage;
  }
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_TRAINING_STAGES_STAGE_PART_H_
