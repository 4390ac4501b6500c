// Checks the files and the model of a job before it is started on this machine.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_TRAIN_LOCAL_DATA_H_
#define TRIBUTARY_DEPLOY_LAUNCH_TRAIN_LOCAL_DATA_H_

#include <cstdint>

#include "absl/status/status.h"
#include "proto/job.pb.h"
#include "worker/training/training_sources.h"

namespace tributary {

// Data sets of more bytes are not opened by CheckLocalData, because the workers
// would start noticeably later.
inline constexpr int64_t kMostCheckedBytes = int64_t{256} << 20;

// Finds the errors in the job's data, initial weights and pipeline that its
// workers on this machine would report, each of them for itself. Returns
// NotFound or InvalidArgument, which names the field of the job. Checks that
// the files exist and, unless they have more than kMostCheckedBytes, opens the
// data set as a worker does, and checks that the model can be divided as
// parallel.pipeline says. Opens data sets of the program itself only for this
// last check. Blocks on the disk.
absl::Status CheckLocalData(const JobSpec& job, const TrainingSources& sources);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_TRAIN_LOCAL_DATA_H_
