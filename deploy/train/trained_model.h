// The language model that a run has left behind.
#ifndef TRIBUTARY_DEPLOY_TRAIN_TRAINED_MODEL_H_
#define TRIBUTARY_DEPLOY_TRAIN_TRAINED_MODEL_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/device/factory/device_factory.h"
#include "worker/models/generate.h"

namespace tributary {

// Text by the model in `directory` (job.textproto and final/model.safetensors).
// It is computed at `place`. Errors name the file: NotFound if the run has not
// ended, InvalidArgument if the model is not a gpt, DataLoss if names or shapes
// of the tensors are not those of the job.
absl::StatusOr<std::string> SampleTrainedModel(const std::string& directory,
                                               absl::string_view prompt,
                                               const GenerateOptions& options,
                                               const DeviceName& place);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TRAIN_TRAINED_MODEL_H_
