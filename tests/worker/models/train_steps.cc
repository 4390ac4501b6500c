// Runs a model on one batch, for comparisons with PyTorch
// (compare_resnet50.py):
//
//   train_steps MODEL OPTIMIZER STEPS WEIGHTS BATCH OUTPUT
//
// MODEL and OPTIMIZER are a ModelSpec and an OptimizerSpec as protobuf text.
// WEIGHTS is a path as in InitialWeightsSpec. BATCH is a file in the
// safetensors format with the float32 tensors `input` [samples, channels,
// height, width] and `target` [samples], the class of each sample. Writes to
// the file OUTPUT: `loaded/NAME`, the weights as they were read; `logits`
// [samples, classes], the outputs in evaluation; `losses` [STEPS], the mean
// loss of each training step; and `trained/NAME`, the weights after the steps.
// The number of classes is that of the rows of fc.weight.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/optimizer/optimizer.h"
#include "common/tensor_io/safetensors_file.h"
#include "common/tensor_io/tensor_files.h"
#include "tests/support/model_harness.h"
#include "worker/models/initial_weights.h"

namespace tributary {
namespace {

struct Arguments {
  JobSpec job;
  int64_t steps = 0;
  std::string batch, output;
};

absl::StatusOr<std::vector<float>> ReadTensor(const SafetensorsFile& file,
                                              const std::string& name) {
  TRIBUTARY_ASSIGN_OR_RETURN(const TensorEntry* const entry, file.Find(name));
  std::vector<float> values((entry->end - entry->begin) / sizeof(float));
  TRIBUTARY_RETURN_IF_ERROR(file.ReadFloats(*entry, absl::MakeSpan(values)));
  return values;
}

// Reads the batch, and the facts about the data that the model needs.
absl::StatusOr<Batch> ReadBatch(const Arguments& arguments, DataInfo* info) {
  TRIBUTARY_ASSIGN_OR_RETURN(const SafetensorsFile file,
                             SafetensorsFile::Open(arguments.batch));
  TRIBUTARY_ASSIGN_OR_RETURN(const TensorEntry* const input,
                             file.Find("input"));
  TRIBUTARY_ASSIGN_OR_RETURN(
      const TensorFiles weights,
      TensorFiles::Open(arguments.job.model().initial_weights().path()));
  const auto head = weights.tensors().find("fc.weight");
  if (input->shape.size() != 4 || head == weights.tensors().end()) {
    return absl::InvalidArgumentError(
        "expected images [samples, channels, height, width] and fc.weight");
  }
  *info = ImageInfo(input->shape[1], input->shape[2], input->shape[3],
                    head->second.shape[0]);
  Batch batch;
  batch.samples = input->shape[0];
  TRIBUTARY_ASSIGN_OR_RETURN(batch.features, ReadTensor(file, "input"));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<float> target,
                             ReadTensor(file, "target"));
  batch.labels.assign(target.begin(), target.end());
  return batch;
}

void Update(const Optimizer& optimizer, const OptimizerSpec& spec, int64_t step,
            int64_t samples, std::vector<std::vector<float>>* slots,
            ModelHarness* harness) {
  UpdateStep at;
  at.gradient_scale = 1.0f / static_cast<float>(samples);
  at.statistics_scale =
      static_cast<float>(kStatisticsRate / static_cast<double>(samples));
  at.learning_rate = PeakLearningRate(spec);
  at.number = step;
  const OptimizerStep rule = optimizer.At(at);
  const ArenaLayout& layout = harness->layout();
  std::vector<float> next(layout.chunk_elements());
  for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
    const int64_t begin = layout.ChunkBegin(chunk);
    float* const weights = harness->weights() + begin;
    std::copy_n(weights, layout.ChunkSize(chunk), next.begin());
    std::vector<float*> state;
    for (std::vector<float>& slot : *slots) state.push_back(&slot[begin]);
    const std::vector<ChunkSegment> segments = layout.ChunkSegments(chunk);
    UpdateArguments arguments;
    arguments.gradient_sum = harness->gradients() + begin;
    arguments.weights = weights;
    arguments.new_weights = next.data();
    arguments.slots = state;
    arguments.segments = segments;
    rule.Update(arguments);
    std::copy_n(next.begin(), layout.ChunkSize(chunk), weights);
  }
}

void AddWeights(const std::string& prefix, const ArenaLayout& layout,
                const float* weights, std::vector<NamedTensor>* tensors) {
  for (const Parameter& parameter : layout.parameters()) {
    tensors->push_back({absl::StrCat(prefix, "/", parameter.name),
                        parameter.shape, weights + parameter.offset});
  }
}

absl::Status Run(const Arguments& arguments) {
  DataInfo info;
  TRIBUTARY_ASSIGN_OR_RETURN(const Batch batch, ReadBatch(arguments, &info));
  const ModelSpec& model = arguments.job.model();
  ModelHarness harness(model, info, batch.samples);
  const ArenaLayout& layout = harness.layout();
  TRIBUTARY_RETURN_IF_ERROR(
      LoadInitialWeights(model.initial_weights(), layout, harness.weights()));
  const std::vector<float> loaded(harness.weights(),
                                  harness.weights() + layout.arena_elements());
  std::vector<float> logits;
  TRIBUTARY_RETURN_IF_ERROR(
      harness.model()->Predict(batch, harness.weights(), &logits));

  const OptimizerSpec& spec = arguments.job.optimizer();
  TRIBUTARY_ASSIGN_OR_RETURN(const auto optimizer, Optimizer::Create(spec));
  std::vector<std::vector<float>> slots(
      optimizer->slots(), std::vector<float>(layout.arena_elements()));
  std::vector<float> losses;
  for (int64_t step = 0; step < arguments.steps; ++step) {
    const LossSums sums = harness.Step(batch, step);
    losses.push_back(
        static_cast<float>(sums.loss / static_cast<double>(batch.samples)));
    Update(*optimizer, spec, step, batch.samples, &slots, &harness);
  }
  std::vector<NamedTensor> tensors;
  tensors.push_back({"logits", {batch.samples, info.classes}, logits.data()});
  tensors.push_back({"losses", {arguments.steps}, losses.data()});
  AddWeights("loaded", layout, loaded.data(), &tensors);
  AddWeights("trained", layout, harness.weights(), &tensors);
  return WriteSafetensors(arguments.output, tensors, {});
}

absl::StatusOr<Arguments> Parse(int count, char** values) {
  if (count != 7) {
    return absl::InvalidArgumentError(
        "usage: train_steps MODEL OPTIMIZER STEPS WEIGHTS BATCH OUTPUT");
  }
  Arguments arguments;
  TRIBUTARY_RETURN_IF_ERROR(
      SetField(&arguments.job, absl::StrCat("model={", values[1], "}")));
  TRIBUTARY_RETURN_IF_ERROR(
      SetField(&arguments.job, absl::StrCat("optimizer={", values[2], "}")));
  arguments.steps = std::atoll(values[3]);
  arguments.job.mutable_model()->mutable_initial_weights()->set_path(values[4]);
  arguments.batch = values[5];
  arguments.output = values[6];
  return arguments;
}

}  // namespace
}  // namespace tributary

int main(int argc, char** argv) {
  const auto arguments = tributary::Parse(argc, argv);
  const absl::Status status =
      arguments.ok() ? tributary::Run(*arguments) : arguments.status();
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}
