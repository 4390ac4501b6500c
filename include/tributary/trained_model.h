// A model that a run has trained, for programs that evaluate it or compute its
// predictions:
//
//   tributary::TrainedModel::Options options;
//   options.models.Add("slope_network", &BuildSlopeNetwork);
//   options.data_sets.Add("spirals", &OpenSpirals);
//   absl::StatusOr<tributary::TrainedModel> model =
//       tributary::TrainedModel::Open("runs/spirals", options);
//   if (!model.ok()) return model.status();
//   absl::StatusOr<tributary::TrainedModel::Outputs> outputs =
//       model->Predict({0.25f, -0.5f});
//
// docs/cpp.md explains this class.
#ifndef TRIBUTARY_TRAINED_MODEL_H_
#define TRIBUTARY_TRAINED_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "tributary/registry.h"

namespace tributary {

// The final model of a run. `tributary evaluate` and `tributary predict` run
// the same code. Not thread-safe. Move-only.
class TrainedModel {
 public:
  struct Options {
    // The models and data sets of this program that the run's job names, if
    // any.
    ModelRegistry models;
    DataRegistry data_sets;
    // Changes of the job's fields in the form path=value, such as other data.
    std::vector<std::string> set;
    // True to use the moving average of the weights, which the run keeps with
    // optimizer.average_decay.
    bool average = false;
    // Compute threads of Evaluate. 0 selects the number of cores, but at most
    // the job's number of micro-batches. Threads never change the result.
    int threads = 0;
    // Device: "auto", "cpu", "cuda" or "cuda:N".
    std::string device = "auto";
  };

  // The result of an evaluation on the held-out samples.
  struct Evaluation {
    int64_t samples = 0;   // Number of samples (for text, tokens).
    double loss = 0;       // Mean loss.
    bool classes = false;  // True if the model predicts classes.
    double accuracy = 0;   // 0 unless `classes`.
  };

  // What the model computes for some samples.
  struct Outputs {
    // True if the outputs of a sample are the probabilities of classes. If it
    // is false, they are the predicted numbers, or what the network passes to
    // its LossFunction.
    bool classes = false;
    int64_t samples = 0;
    int64_t per_sample = 0;      // Number of outputs of each sample.
    std::vector<double> values;  // [samples, per_sample], row-major.
  };

  // Reads the job and the weights in `run`, the folder of a run, or a
  // checkpoint such as RUN/best. Opens the job's data, whose shape and number
  // of classes determine the network. Returns NotFound if there is no finished
  // run in the folder, InvalidArgument if this program lacks the job's model or
  // data, or builds a network with other parameters, DataLoss if a file is
  // damaged, and the errors of the device and the data set. Blocks on the disk.
  static absl::StatusOr<TrainedModel> Open(const std::string& run,
                                           Options options);
  TrainedModel(TrainedModel&&) noexcept;
  TrainedModel& operator=(TrainedModel&&) noexcept;
  ~TrainedModel();

  // Evaluates the model on the job's held-out samples. The result has the same
  // bits as an evaluation of the training run with these weights. Returns
  // FailedPrecondition if there are no such samples.
  absl::StatusOr<Evaluation> Evaluate() const;

  // Computes the outputs for samples, [samples, elements of
  // DataInfo::sample_shape], row-major. Returns InvalidArgument if the number
  // of features is not a multiple of a sample's, and Unimplemented if the data
  // are texts.
  absl::StatusOr<Outputs> Predict(absl::Span<const float> features) const;
  // The same for a model that reads tables: `keys` are those of each feature of
  // the job's field `sparse`, in its order (see KeyOf in tributary/worker.h).
  // The first call reads all rows of the run into memory. Also returns
  // InvalidArgument if the keys do not fit, NotFound if the rows are not in the
  // run, and DataLoss if they are damaged.
  absl::StatusOr<Outputs> Predict(absl::Span<const float> features,
                                  const std::vector<FeatureKeys>& keys) const;

  // Computes the outputs for the job's held-out samples. Returns
  // FailedPrecondition if there are none.
  absl::StatusOr<Outputs> PredictHeldOut() const;

 private:
  struct State;
  explicit TrainedModel(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TRAINED_MODEL_H_
