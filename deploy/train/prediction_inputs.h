// Reads files of inputs for a trained model.
#ifndef TRIBUTARY_DEPLOY_TRAIN_PREDICTION_INPUTS_H_
#define TRIBUTARY_DEPLOY_TRAIN_PREDICTION_INPUTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/data/text/sequence_encoder.h"

namespace tributary {

// Inputs in the form that the model takes. Immutable and thread-safe.
struct PredictionInputs {
  // How the model sees the inputs; the number of classes is not set.
  DataInfo info;
  int64_t samples = 0;
  // The names of the classes, if the labels of the training data are names.
  std::vector<std::string> classes;
  // Rows and images, [samples, product of info.sample_shape].
  std::vector<float> features;
  // Texts.
  Sequences sequences;
  int32_t filler = 0;

  // Sets `batch` to the samples [begin, begin + count), without targets.
  void Read(int64_t begin, int64_t count, Batch* batch) const;
};

// Returns InvalidArgument if no inputs can be read for the job's data and
// model.
absl::Status CheckPredictable(const JobSpec& job);

// Read the file `path` as the data set of the job has read its files. `run` is
// the folder of the run, which contains what the data set has learned. They
// return NotFound if the file does not exist, InvalidArgument, naming it, if it
// is malformed or does not suit the model, and DataLoss if the run's files
// contradict each other.
//
// data.csv: `features` is the number of the model's inputs.
absl::StatusOr<PredictionInputs> ReadTableInputs(const JobSpec& job,
                                                 const std::string& run,
                                                 const std::string& path,
                                                 int64_t features);
// data.idx.
absl::StatusOr<PredictionInputs> ReadImageInputs(const JobSpec& job,
                                                 const std::string& path);
// data.labeled_text: a table with the columns of the training file, in which
// the label's may be absent, or a .txt file with a text in each line.
absl::StatusOr<PredictionInputs> ReadTextInputs(const JobSpec& job,
                                                const std::string& run,
                                                const std::string& path);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TRAIN_PREDICTION_INPUTS_H_
