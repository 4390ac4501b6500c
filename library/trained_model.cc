#include "tributary/trained_model.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/os/process.h"
#include "deploy/flags/device_flag.h"
#include "deploy/flags/job_source.h"
#include "deploy/flags/run_files.h"
#include "deploy/launch/train/inference.h"
#include "deploy/launch/train/loaded_model.h"
#include "deploy/launch/train/run_folder.h"
#include "worker/data/batch.h"
#include "worker/data/data_set.h"
#include "worker/device/factory/device_factory.h"
#include "worker/training/training_sources.h"

namespace tributary {
namespace {

// Number of samples that Predict computes at a time. Models keep all
// activations of a batch.
constexpr int64_t kMostSamples = 64;

}  // namespace

struct TrainedModel::State {
  State(RunFolder opened, const Options& given)
      : run(std::move(opened)),
        options(given),
        sources(given.models, given.data_sets) {}

  DeviceMaker MakeDevice() const {
    return [name = device](Precision precision) {
      return CreateDevice(name, precision);
    };
  }
  FinalWeights which() const {
    return options.average ? FinalWeights::kAverage : FinalWeights::kLast;
  }

  const RunFolder run;
  const Options options;
  const TrainingSources sources;
  DeviceName device;
  JobSpec job;
  DataInfo info;
  std::string weights;                // The path of the weights.
  std::vector<LoadedModel> instance;  // One element.
};

TrainedModel::TrainedModel(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
TrainedModel::TrainedModel(TrainedModel&&) noexcept = default;
TrainedModel& TrainedModel::operator=(TrainedModel&&) noexcept = default;
TrainedModel::~TrainedModel() = default;

absl::StatusOr<TrainedModel> TrainedModel::Open(const std::string& run,
                                                Options options) {
  TRIBUTARY_RETURN_IF_ERROR(options.models.status());
  TRIBUTARY_RETURN_IF_ERROR(options.data_sets.status());
  TRIBUTARY_ASSIGN_OR_RETURN(RunFolder folder, RunFolder::Open(run));
  auto state = std::make_unique<State>(std::move(folder), std::move(options));
  TRIBUTARY_ASSIGN_OR_RETURN(
      state->job, ReadJobOfRun(state->run.path(), state->options.set));
  TRIBUTARY_ASSIGN_OR_RETURN(
      state->weights, FinalWeightsPath(state->run.path(), state->which()));
  std::string remark;  // Why "auto" does not use a GPU.
  TRIBUTARY_ASSIGN_OR_RETURN(
      state->device,
      ChooseDevice(state->options.device, /*place=*/0, MachineGpus(), &remark));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<DataSet> data,
                             state->sources.open_data(state->job));
  state->info = data->info();
  TRIBUTARY_ASSIGN_OR_RETURN(
      state->instance,
      LoadedModel::Load(state->job, state->info, kMostSamples, state->weights,
                        /*count=*/1, state->MakeDevice(), state->sources));
  return TrainedModel(std::move(state));
}

absl::StatusOr<TrainedModel::Evaluation> TrainedModel::Evaluate() const {
  JobSpec job = state_->job;
  InitialWeightsSpec* const weights =
      job.mutable_model()->mutable_initial_weights();
  weights->Clear();
  weights->set_path(state_->weights);
  const int64_t threads =
      state_->options.threads > 0
          ? state_->options.threads
          : std::min<int64_t>(UsableCores(), job.batch().micro_batches());
  TRIBUTARY_ASSIGN_OR_RETURN(
      const ModelEvaluation evaluated,
      EvaluateModel(job, state_->run.path(), static_cast<int>(threads),
                    state_->MakeDevice(), state_->sources));
  Evaluation evaluation;
  evaluation.samples = evaluated.samples;
  evaluation.loss = evaluated.loss;
  evaluation.classes = evaluated.classes;
  evaluation.accuracy = evaluated.accuracy;
  return evaluation;
}

absl::StatusOr<TrainedModel::Outputs> TrainedModel::Predict(
    absl::Span<const float> features) const {
  const DataInfo& info = state_->info;
  if (info.kind != DataInfo::Kind::kRows &&
      info.kind != DataInfo::Kind::kImages) {
    return absl::UnimplementedError(
        "TrainedModel::Predict: the model's inputs are not numbers");
  }
  const int64_t width =
      std::accumulate(info.sample_shape.begin(), info.sample_shape.end(),
                      int64_t{1}, std::multiplies<int64_t>());
  const auto size = static_cast<int64_t>(features.size());
  if (size % width != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("TrainedModel::Predict: got ", size,
                     " features, expected a multiple of ", width,
                     ", the number of features of a sample"));
  }
  const LoadedModel& model = state_->instance[0];
  Outputs outputs;
  outputs.classes = model.classes();
  outputs.samples = size / width;
  outputs.per_sample = model.outputs();
  outputs.values.resize(
      static_cast<size_t>(outputs.samples * outputs.per_sample));
  for (int64_t begin = 0; begin < outputs.samples; begin += kMostSamples) {
    Batch batch;
    batch.samples = std::min(kMostSamples, outputs.samples - begin);
    const auto first = features.begin() + begin * width;
    batch.features.assign(first, first + batch.samples * width);
    TRIBUTARY_RETURN_IF_ERROR(model.Predict(
        batch, outputs.values.data() + begin * outputs.per_sample));
  }
  return outputs;
}

absl::StatusOr<TrainedModel::Outputs> TrainedModel::PredictHeldOut() const {
  TRIBUTARY_ASSIGN_OR_RETURN(
      Predictions predicted,
      PredictFile(state_->job, state_->run.path(), state_->which(),
                  /*data=*/"", /*threads=*/1, state_->MakeDevice(),
                  state_->sources));
  Outputs outputs;
  outputs.classes = predicted.classes;
  outputs.samples = predicted.samples;
  outputs.per_sample = predicted.outputs;
  outputs.values = std::move(predicted.values);
  return outputs;
}

}  // namespace tributary
