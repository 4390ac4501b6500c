// Evaluates a trained model, and computes its predictions.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_TRAIN_INFERENCE_H_
#define TRIBUTARY_DEPLOY_LAUNCH_TRAIN_INFERENCE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "deploy/flags/run_files.h"
#include "proto/job.pb.h"
#include "worker/training/training_setup.h"
#include "worker/training/training_sources.h"

namespace tributary {

// The results of an evaluation, over the held-out samples or, for a language
// model, over the predicted tokens of these samples.
struct ModelEvaluation {
  int64_t samples = 0;   // Number of samples or tokens.
  double loss = 0;       // Mean loss.
  bool classes = false;  // True if the outputs are classes.
  double accuracy = 0;   // Fraction of correct outputs; 0 unless `classes`.
  // The area under the ROC curve, with loss BINARY_CROSS_ENTROPY.
  std::optional<double> auc;
};

// Evaluates the model of `job`, with the weights that the job's field
// model.initial_weights names, on the job's held-out data. `job` must be valid
// and a result of ResolveJob. The result has the same bits as the evaluation of
// a training run with these weights, for any number of threads. If the job has
// tables, their rows are read from the newest checkpoint in the folder `run`.
// Returns the errors of TrainingSetup::Create, of LoadInitialWeights and of
// TrainedTables::Load, and FailedPrecondition if the job has no held-out data.
absl::StatusOr<ModelEvaluation> EvaluateModel(const JobSpec& job,
                                              const std::string& run,
                                              int threads,
                                              const DeviceMaker& make_device,
                                              const TrainingSources& sources);

struct Predictions {
  int64_t samples = 0;
  // True if the outputs of a sample are the probabilities of classes, false if
  // they are numbers.
  bool classes = false;
  // Number of outputs for each sample: the number of classes, or of numbers.
  int64_t outputs = 0;
  // The names of the samples, if they have names; see PredictionInputs.
  std::vector<std::string> names;
  // The names of the classes, if the labels of the training data are names.
  std::vector<std::string> class_names;
  // [samples, outputs], row-major.
  std::vector<double> values;
};

// Computes the outputs of the model in `run`, the folder of a run, for the
// inputs in the file or folder `data` (see OpenPredictionInputs) or, if `data`
// is empty, for the held-out samples of the job's data. Uses the last weights
// or their moving average, as `which` selects. `job` must be valid and a result
// of ResolveJob. Reads the job's data if `data` is empty or if the network is
// one of a program; their shape and their classes determine the network.
// Returns the errors of OpenPredictionInputs and of `sources`, InvalidArgument
// for model.synthetic, FailedPrecondition if there are no held-out samples, and
// NotFound if the run does not have these weights.
absl::StatusOr<Predictions> PredictFile(const JobSpec& job,
                                        const std::string& run,
                                        FinalWeights which,
                                        const std::string& data, int threads,
                                        const DeviceMaker& make_device,
                                        const TrainingSources& sources = {});

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_TRAIN_INFERENCE_H_
