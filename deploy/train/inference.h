// Evaluates a trained model, and computes its predictions.
#ifndef TRIBUTARY_DEPLOY_TRAIN_INFERENCE_H_
#define TRIBUTARY_DEPLOY_TRAIN_INFERENCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "deploy/flags/run_files.h"
#include "proto/job.pb.h"
#include "worker/training/training_setup.h"
#include "worker/training/training_sources.h"

namespace tributary {

// The results over the held-out samples; text: over the predicted tokens.
struct ModelEvaluation {
  int64_t samples = 0;
  double loss = 0;      // Mean.
  double accuracy = 0;  // Fraction; 0 for regression.
};

// Evaluates the model whose weights model.initial_weights of `job` names on the
// job's held-out data. `job` must be valid and resolved. The result has the
// same bits as the evaluation of a training run with these weights, for any
// number of threads. Returns the errors of TrainingSetup::Create and of
// LoadInitialWeights, and FailedPrecondition if the job has no held-out data.
absl::StatusOr<ModelEvaluation> EvaluateModel(const JobSpec& job, int threads,
                                              const DeviceMaker& make_device,
                                              const TrainingSources& sources);

struct Predictions {
  int64_t samples = 0;
  // Number of outputs for each sample: the classes, or 1 for regression.
  int64_t outputs = 0;
  // The names of the classes, if the labels of the training data are names.
  std::vector<std::string> classes;
  // [samples, outputs]: the probability of each class, or the value.
  std::vector<double> values;
};

// Computes the outputs of the model in the folder of a run, with its last or
// its average weights, for the inputs in the file `data`: for data.csv, a CSV
// file with or without the column of the label; for data.idx, images in the IDX
// format; for data.labeled_text, a CSV or TSV file with or without the column
// of the label, or a .txt file with a text in each line. Does not read the
// training data. `job` must be valid and resolved. Returns InvalidArgument,
// naming the file, if it is malformed or does not suit the model, or if the
// job's data or model are of another kind; NotFound if a file does not exist or
// the run has no such final weights.
absl::StatusOr<Predictions> PredictFile(const JobSpec& job,
                                        const std::string& run,
                                        FinalWeights which,
                                        const std::string& data, int threads,
                                        const DeviceMaker& make_device);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TRAIN_INFERENCE_H_
