// Opens the data set of a job.
#ifndef TRIBUTARY_WORKER_DATA_OPEN_DATA_SET_H_
#define TRIBUTARY_WORKER_DATA_OPEN_DATA_SET_H_

#include <memory>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/data_registry.h"
#include "worker/data/data_set.h"

namespace tributary {

// Opens and verifies the data set that `job.data` names. If data.external.name
// is set, `registered` must contain this name. Returns NotFound if a file does
// not exist, InvalidArgument if a field, a name or a file is invalid, and the
// errors of a registered factory. Messages about invalid files cite the file,
// the byte offset or the line, the error, and the expected value.
absl::StatusOr<std::unique_ptr<DataSet>> OpenDataSet(
    const JobSpec& job, const DataRegistry& registered = {});

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_OPEN_DATA_SET_H_
