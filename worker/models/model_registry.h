// The networks that a user's program adds to those of Tributary.
#ifndef TRIBUTARY_WORKER_MODELS_MODEL_REGISTRY_H_
#define TRIBUTARY_WORKER_MODELS_MODEL_REGISTRY_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/job/config.h"
#include "worker/data/batch.h"
#include "worker/nn/graph.h"

namespace tributary {

// Builds a network for the data that `data` describes. `config` holds
// model.external.config of the job. The caller reports errors for invalid
// members of `config`, and for members that the factory has not read. Every
// worker calls the factory several times, for example to compute how much
// memory the network needs, so equal arguments must yield equal networks. Error
// messages should name what the user has to change.
using ModelFactory =
    std::function<absl::StatusOr<Graph>(Config* config, const DataInfo& data)>;

// Networks that the user's program provides, by name. A job selects one of them
// with model.external.name. Copies of a ModelRegistry are independent.
// Thread-compatible.
class ModelRegistry {
 public:
  // Adds a network and returns *this. Adding a name twice is an error, which
  // status() returns.
  ModelRegistry& Add(absl::string_view name, ModelFactory factory);

  // Returns the factory of the network of this name, or null if there is none.
  // The pointer is valid as long as this object exists.
  const ModelFactory* Find(absl::string_view name) const;
  // Returns all names, in alphabetical order.
  std::vector<std::string> names() const;
  // Returns OK, or InvalidArgument if a name was added twice.
  const absl::Status& status() const { return status_; }

 private:
  std::map<std::string, ModelFactory> factories_;
  absl::Status status_;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_MODELS_MODEL_REGISTRY_H_
