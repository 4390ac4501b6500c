// What the workers of a pipeline have measured.
#ifndef TRIBUTARY_SERVER_RUN_MODE_STAGE_COSTS_H_
#define TRIBUTARY_SERVER_RUN_MODE_STAGE_COSTS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "common/pipeline/stage_balance.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Returns InvalidArgument, naming the field, unless `ready` describes the
// segments of a model that can be divided into the stages of `spec`, with times
// and sizes that a worker may have measured, or 0 for those that it has not.
absl::Status CheckSegments(const PipelineSpec& spec, const Ready& ready);

// Speeds that differ by less than this factor count as equal, because
// measurements differ as much.
inline constexpr double kEqualSpeeds = 1.15;

// The segments of a model, as layers that can be cut anywhere, and the workers.
struct StageCosts {
  // Without devices and micro-batches. The times are the means of those that
  // workers have measured, for a worker of speed 1.
  BalanceInput input;
  // The speed of each worker: the mean time for the whole model, divided by
  // that of the worker. Speeds that are nearly equal are replaced by their
  // mean.
  std::vector<double> speeds;
  // The free memory of each worker; the largest number if it is unknown.
  // Workers of one Ready.memory_pool have the same.
  std::vector<int64_t> memory_bytes;
  // False if no worker has measured any time. The times then say only that all
  // segments take the same time.
  bool measured = false;
};

// Reads the costs from the reports of workers. `job` is the job's Ready, whose
// bytes count for all workers, and whose times for none. A report is null if
// there is none, or if it divides the model into other segments; the worker
// then counts as having the mean speed. CheckSegments has returned OK for `job`
// and all reports.
StageCosts ReadStageCosts(const PipelineSpec& spec, const Ready& job,
                          const std::vector<const Ready*>& reports);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_RUN_MODE_STAGE_COSTS_H_
