// The inputs of predictions, in the form that models take.
#ifndef TRIBUTARY_DEPLOY_TRAIN_PREDICTION_INPUTS_H_
#define TRIBUTARY_DEPLOY_TRAIN_PREDICTION_INPUTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"

namespace tributary {

// The samples of a file or folder. Immutable and therefore thread-safe.
class PredictionInputs {
 public:
  virtual ~PredictionInputs() = default;

  // At least 1.
  virtual int64_t samples() const = 0;
  // Returns kind and sample_shape of a sample; the number of classes is not
  // set.
  virtual DataInfo info() const = 0;
  // Returns the names of the samples in the order of their numbers, or an empty
  // list if only their order identifies them.
  virtual std::vector<std::string> names() const { return {}; }
  // Returns the names of the classes, as the training data have them, or an
  // empty list if their numbers are their names.
  virtual std::vector<std::string> classes() const { return {}; }
  // Fills `batch` with the inputs of the samples [begin, end). Returns an error
  // that names the sample if it cannot be read.
  virtual absl::Status Read(int64_t begin, int64_t end, Batch* batch) const = 0;
};

// Opens the inputs in `path` for the model of a job: for data.csv, a CSV file
// with or without the column of the label; for data.idx, images in the IDX
// format; for data.images, a picture, a folder or a tar archive of pictures, or
// a file of another format that data.images reads; for data.labeled_text, a
// table with the columns of the training file, in which the label's may be
// absent, or a .txt file with a text in each line. Does not read the training
// data; `encoding` is what their data set has learned from them, or empty.
// `features` is the number of features that the first layer of a model of rows
// takes. Returns InvalidArgument, naming the file, if it is malformed or does
// not suit the model, or if the job's data are of another kind; NotFound if
// there is no such file.
absl::StatusOr<std::unique_ptr<PredictionInputs>> OpenPredictionInputs(
    const JobSpec& job, const std::string& encoding, const std::string& path,
    int64_t features);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TRAIN_PREDICTION_INPUTS_H_
