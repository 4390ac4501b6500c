// The inputs of predictions, in the form that models take.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_TRAIN_PREDICTION_INPUTS_H_
#define TRIBUTARY_DEPLOY_LAUNCH_TRAIN_PREDICTION_INPUTS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"

namespace tributary {

// The samples for which a trained model computes predictions, read from a file
// or folder. Immutable and therefore thread-safe.
class PredictionInputs {
 public:
  virtual ~PredictionInputs() = default;

  // Returns the number of samples, which is at least 1.
  virtual int64_t samples() const = 0;
  // Returns the kind and the shape of a sample. The number of classes is not
  // set in the result.
  virtual DataInfo info() const = 0;
  // Returns the name of each sample, such as the path of its file, in the order
  // of the samples. Returns an empty list if samples have no names.
  virtual std::vector<std::string> names() const { return {}; }
  // Returns the names of the classes in the training data, in the order of the
  // classes. Returns an empty list if the training data have only numbers of
  // classes.
  virtual std::vector<std::string> classes() const { return {}; }
  // Fills `batch` with the inputs of the samples [begin, end). Returns an error
  // that names the sample if it cannot be read.
  virtual absl::Status Read(int64_t begin, int64_t end, Batch* batch) const = 0;
};

// Opens the inputs in `path` for the model of `job`. The format depends on the
// source of the job's training data:
//
//   data.csv            a CSV file, with or without the column of the label
//   data.idx            images in the IDX format
//   data.images         a picture, a folder or tar archive of pictures, or a
//                       file of another format that data.images supports
//   data.labeled_text   a table with the columns of the training file, with or
//                       without the column of the label, or a .txt file with
//                       one text per line
//
// Does not read the training data. `encoding` is what the data set has derived
// from them (see ReadEncoding); it may be empty. `features` is the number of
// inputs of the model's first layer; it is used only for data.csv. Returns
// InvalidArgument, naming the file, if the file is malformed or does not fit
// the model, or if the job's training data have a different source. Returns
// NotFound if there is no such file.
absl::StatusOr<std::unique_ptr<PredictionInputs>> OpenPredictionInputs(
    const JobSpec& job, const std::string& encoding, const std::string& path,
    int64_t features);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_TRAIN_PREDICTION_INPUTS_H_
