// The trained language model of a run.
#ifndef TRIBUTARY_DEPLOY_TRAIN_TRAINED_MODEL_H_
#define TRIBUTARY_DEPLOY_TRAIN_TRAINED_MODEL_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "deploy/flags/run_files.h"
#include "worker/device/factory/device_factory.h"
#include "worker/models/generate.h"

namespace tributary {

// Generates text with the model in `directory` (job.textproto and
// the last or the average weights in final/) on the device `place`. Returns an
// error that names the file: NotFound if job.textproto cannot be read or the
// run has not ended, InvalidArgument if the model is not a gpt with a
// vocabulary of 256 bytes, and DataLoss if the names or shapes of the tensors
// do not match the job. Also returns the errors of CreateDevice, CreateModel
// and GenerateText.
absl::StatusOr<std::string> SampleTrainedModel(const std::string& directory,
                                               FinalWeights which,
                                               absl::string_view prompt,
                                               const GenerateOptions& options,
                                               const DeviceName& place);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TRAIN_TRAINED_MODEL_H_
