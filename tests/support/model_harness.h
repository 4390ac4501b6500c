// A model with its device, arenas and a synthetic batch, ready to run steps.
#ifndef TRIBUTARY_TESTS_SUPPORT_MODEL_HARNESS_H_
#define TRIBUTARY_TESTS_SUPPORT_MODEL_HARNESS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/parameters/arena_layout.h"
#include "proto/job.pb.h"
#include "tests/support/model_calls.h"
#include "worker/data/batch.h"
#include "worker/device/device.h"
#include "worker/models/model.h"

namespace tributary {

// Parses a ModelSpec from protobuf text. Aborts the program if it is invalid.
ModelSpec ParseModel(absl::string_view text);

DataInfo ImageInfo(int64_t channels, int64_t height, int64_t width,
                   int64_t classes);
DataInfo RowInfo(int64_t features, int64_t classes);
// Rows with features, whose vectors have these numbers of elements.
DataInfo FeatureInfo(int64_t numbers, const std::vector<int64_t>& dims);
DataInfo TokenInfo(int64_t context, int64_t vocabulary);

// Returns a batch that depends only on the arguments.
Batch MakeBatch(const DataInfo& info, int64_t samples, uint32_t seed);

// Owns a device, a model and its arenas. Not thread-safe. Aborts the program if
// the model cannot be built.
class ModelHarness {
 public:
  // Uses the CPU. Weights are initialized from seed 1.
  ModelHarness(const ModelSpec& spec, const DataInfo& info, int64_t max_samples,
               Precision precision = Precision::kFloat32);
  // Like the constructor above, on any device.
  ModelHarness(const ModelSpec& spec, const DataInfo& info, int64_t max_samples,
               std::unique_ptr<Device> device);

  Device* device() { return device_.get(); }
  Model* model() { return model_.get(); }
  const ArenaLayout& layout() const { return *layout_; }
  float* weights() { return static_cast<float*>(weights_.get()); }
  float* gradients() { return static_cast<float*>(gradients_.get()); }

  // Computes the loss and the gradients of the batch. `calls` may be null. Step
  // aborts the program if this fails.
  absl::StatusOr<LossSums> TryStep(const Batch& batch, int64_t step = 0,
                                   int micro_batch = 0,
                                   ModelCalls* calls = nullptr);
  LossSums Step(const Batch& batch, int64_t step = 0, int micro_batch = 0,
                ModelCalls* calls = nullptr);
  // Returns a copy of the whole gradient arena.
  std::vector<float> Gradients();
  // Returns the gradients of the vectors of the newest step.
  const std::vector<float>& VectorGradients() const { return vectors_; }
  const Parameter& FindParameter(const std::string& name) const;

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<ArenaLayout> layout_;
  Device::Memory weights_;
  Device::Memory gradients_;
  std::vector<float> vectors_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_MODEL_HARNESS_H_
