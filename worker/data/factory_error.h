// The errors of the factories that a program registers.
#ifndef TRIBUTARY_WORKER_DATA_FACTORY_ERROR_H_
#define TRIBUTARY_WORKER_DATA_FACTORY_ERROR_H_

#include "absl/status/status.h"

namespace tributary {

// Returns the error of a factory of models or data sets. Replaces the code
// Internal by FailedPrecondition. In a worker, Internal means that a device has
// failed and that a new process can take the worker's place, but a factory
// would fail there, too.
inline absl::Status FromFactory(const absl::Status& status) {
  return absl::IsInternal(status)
             ? absl::FailedPreconditionError(status.message())
             : status;
}

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_FACTORY_ERROR_H_
