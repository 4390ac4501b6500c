// Computes the outputs of a trained model.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_TRAIN_LOADED_MODEL_H_
#define TRIBUTARY_DEPLOY_LAUNCH_TRAIN_LOADED_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/device/device.h"
#include "worker/models/model.h"
#include "worker/training/training_setup.h"
#include "worker/training/training_sources.h"

namespace tributary {

// A trained model in memory. Not thread-safe.
class LoadedModel {
 public:
  // Loads the model of `job`, with the weights in the file at `path`, `count`
  // times, for as many threads. `info` is that of the job's data. `max_samples`
  // is the number of samples that a call of Predict may have. Returns the
  // errors of TrainingSources::create_model, `make_device` and
  // LoadInitialWeights.
  static absl::StatusOr<std::vector<LoadedModel>> Load(
      const JobSpec& job, const DataInfo& info, int64_t max_samples,
      const std::string& path, int count, const DeviceMaker& make_device,
      const TrainingSources& sources);

  // True if the outputs are the probabilities of classes.
  bool classes() const;
  // Returns the number of outputs of a sample; see Predictions.
  int64_t outputs() const;
  // Writes the outputs of the samples of `batch`, at most `max_samples`, to
  // `outputs`, [samples, outputs()].
  absl::Status Predict(const Batch& batch, double* outputs) const;

 private:
  LoadedModel() = default;

  std::unique_ptr<Device> device_;
  std::unique_ptr<Model> model_;
  Device::Memory weights_{nullptr, nullptr};
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_TRAIN_LOADED_MODEL_H_
