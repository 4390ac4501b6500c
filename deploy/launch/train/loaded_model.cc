#include "deploy/launch/train/loaded_model.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "common/base/buffer_pool.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/parameters/arena_layout.h"
#include "worker/models/initial_weights.h"

namespace tributary {
namespace {

// Replaces logits by the probabilities of the classes.
void Softmax(double* row, int64_t classes) {
  const double most = *std::max_element(row, row + classes);
  double sum = 0;
  for (int64_t i = 0; i < classes; ++i) sum += row[i] = std::exp(row[i] - most);
  for (int64_t i = 0; i < classes; ++i) row[i] /= sum;
}

// Returns the weights at `path`, as `layout` lays them out.
absl::StatusOr<Buffer> ReadWeights(const std::string& path,
                                   const ArenaLayout& layout) {
  Buffer arena = AllocateBuffer(layout.arena_elements());
  std::fill_n(arena.get(), layout.arena_elements(), 0.0f);
  InitialWeightsSpec spec;
  spec.set_path(path);
  TRIBUTARY_RETURN_IF_ERROR(LoadInitialWeights(spec, layout, arena.get()));
  return arena;
}

}  // namespace

absl::StatusOr<std::vector<LoadedModel>> LoadedModel::Load(
    const JobSpec& job, const DataInfo& info, int64_t max_samples,
    const std::string& path, int count, const DeviceMaker& make_device,
    const TrainingSources& sources) {
  std::vector<LoadedModel> models;
  Buffer arena;
  for (int i = 0; i < count; ++i) {
    LoadedModel loaded;
    TRIBUTARY_ASSIGN_OR_RETURN(loaded.device_, make_device(PrecisionOf(job)));
    TRIBUTARY_ASSIGN_OR_RETURN(
        loaded.model_, sources.create_model(job.model(), info, max_samples,
                                            loaded.device_.get(),
                                            /*copies=*/nullptr, NetworkPart()));
    ParameterTable parameters = loaded.model_->table();
    parameters.set_chunk_elements(ChunkBytes(job.exchange()) /
                                  static_cast<int64_t>(sizeof(float)));
    TRIBUTARY_ASSIGN_OR_RETURN(const ArenaLayout layout,
                               ArenaLayout::Create(parameters));
    if (arena == nullptr) {
      TRIBUTARY_ASSIGN_OR_RETURN(arena, ReadWeights(path, layout));
    }
    const size_t bytes =
        static_cast<size_t>(layout.arena_elements()) * sizeof(float);
    TRIBUTARY_ASSIGN_OR_RETURN(loaded.weights_,
                               loaded.device_->Allocate(bytes));
    loaded.device_->CopyFromHost(loaded.weights_.get(), arena.get(), bytes);
    models.push_back(std::move(loaded));
  }
  return models;
}

bool LoadedModel::classes() const {
  return model_->outputs().kind != ModelOutputs::Kind::kNumbers;
}

int64_t LoadedModel::outputs() const {
  const ModelOutputs outputs = model_->outputs();
  return outputs.kind == ModelOutputs::Kind::kBinaryLogit ? 2 : outputs.count;
}

absl::Status LoadedModel::Predict(const Batch& batch, double* outputs) const {
  std::vector<float> computed;
  TRIBUTARY_RETURN_IF_ERROR(model_->Predict(
      batch, static_cast<const float*>(weights_.get()), &computed));
  const ModelOutputs made = model_->outputs();
  if (made.kind == ModelOutputs::Kind::kBinaryLogit) {
    for (int64_t row = 0; row < batch.samples; ++row) {
      outputs[2 * row] = 0;
      outputs[2 * row + 1] = computed[row];
      Softmax(outputs + 2 * row, 2);
    }
    return absl::OkStatus();
  }
  std::copy(computed.begin(), computed.end(), outputs);
  if (made.kind == ModelOutputs::Kind::kNumbers) return absl::OkStatus();
  for (int64_t row = 0; row < batch.samples; ++row) {
    Softmax(outputs + row * made.count, made.count);
  }
  return absl::OkStatus();
}

}  // namespace tributary
