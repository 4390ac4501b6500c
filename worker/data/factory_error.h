// The errors of the factories that a program registers.
#ifndef TRIBUTARY_WORKER_DATA_FACTORY_ERROR_H_
#define TRIBUTARY_WORKER_DATA_FACTORY_ERROR_H_

#include "absl/status/status.h"

namespace tributary {

// Returns `status`, the result of a factory of models or data sets, but
// replaces the code Internal by FailedPrecondition. If a worker ends with
// Internal, its device has failed, and a new process can take its place. This
// would not help with a failing factory, which would fail in the new process,
// too.
inline absl::Status FromFactory(const absl::Status& status) {
  return absl::IsInternal(status)
             ? absl::FailedPreconditionError(status.message())
             : status;
}

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_FACTORY_ERROR_H_
