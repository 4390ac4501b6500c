// The data sets that a program adds to those of Tributary.
#ifndef TRIBUTARY_WORKER_DATA_DATA_REGISTRY_H_
#define TRIBUTARY_WORKER_DATA_DATA_REGISTRY_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/job/config.h"
#include "worker/data/data_set.h"

namespace tributary {

// Opens a data set that a program has registered. `config` holds the job's
// field data.external.config. The caller reports invalid members of `config`,
// and members that the factory has not read. Every worker calls the factory;
// equal arguments must yield the same samples on every machine. Error messages
// should name what the user has to change.
using DataFactory =
    std::function<absl::StatusOr<std::unique_ptr<DataSet>>(Config* config)>;

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

// The data sets that a program has registered, by name. A job selects one of
// them with data.external.name. Copies are independent. Thread-compatible.
class DataRegistry {
 public:
  // Adds a data set and returns *this. Adding a name twice is an error, which
  // status() returns.
  DataRegistry& Add(absl::string_view name, DataFactory factory);

  // Returns the factory of the data set of this name, or null if there is none.
  // The pointer is valid as long as this object exists.
  const DataFactory* Find(absl::string_view name) const;
  // Returns all names, in alphabetical order.
  std::vector<std::string> names() const;
  // Returns OK, or InvalidArgument if a name was added twice.
  const absl::Status& status() const { return status_; }

 private:
  std::map<std::string, DataFactory> factories_;
  absl::Status status_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_DATA_REGISTRY_H_
