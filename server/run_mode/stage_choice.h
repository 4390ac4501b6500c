// Divides the model of a pipeline into stages for the workers that are there.
#ifndef TRIBUTARY_SERVER_RUN_MODE_STAGE_CHOICE_H_
#define TRIBUTARY_SERVER_RUN_MODE_STAGE_CHOICE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/membership/stage_assignment.h"
#include "server/membership/stage_map.h"

namespace tributary {

// A worker among which stages are divided.
struct StageWorker {
  std::string name;  // For people: "worker 1 (alpha, cpu)".
  // What it has said about the segments of the model, which are those of the
  // job, and its memory. Must outlive the call. Null: it has said nothing.
  const Ready* report = nullptr;
};

struct StageChoice {
  StageMap stages;
  // The numbers of the workers in the order in which StageAssignment gives them
  // stages.
  std::vector<size_t> order;
  // For each stage, a line for people: its layers and workers, and the time and
  // the memory that it is expected to take.
  std::vector<std::string> table;
};

// Chooses the stages, and the order of the workers, of which there is at least
// one, with which a step takes the least time. `segments` and `job` describe
// the segments of the model; see ReadStageCosts.
//
// - All replicas have the same stages. The stages are balanced for each replica
//   and for the slowest worker of each stage (see BalanceStages). Of these, the
//   stages count with which the slowest replica needs the least time for its
//   part of the micro-batches.
// - This is done for several orders of the workers: all of at most five
//   workers; otherwise as they are given; from fast to slow and from slow to
//   fast; and both of these such that workers of similar speed compute the same
//   stage of different replicas. The given order counts unless another one is
//   faster by a margin. Orders that take too long to try are left out: the call
//   takes about a second at most, and a few seconds with 64 stages.
// - Workers with the same Ready.memory_pool get equal parts of it. If no
//   division fits into these, each of them may use all of it.
// - If `spec` names layers, each segment is a stage, whatever memory it needs.
//
// Returns ResourceExhausted, naming a stage, if no division fits into memory.
absl::StatusOr<StageChoice> ChooseStages(
    const PipelineSpec& spec, const StageAssignment& assignment,
    const StageMap& segments, const Ready& job,
    const std::vector<StageWorker>& workers);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_RUN_MODE_STAGE_CHOICE_H_
