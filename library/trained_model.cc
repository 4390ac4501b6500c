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
#include "deploy/launch/train/trained_tables.h"
#include "worker/data/batch.h"
#include "worker/data/data_set.h"
#include "worker/device/factory/device_factory.h"
#include "worker/training/training_sources.h"

namespace tributary {
namespace {

// Number of samples that Predict computes at a time. Models keep all
// activations of a batch.
constexpr int64_t kMostSamples = 64;

// Returns the keys of the samples [begin, begin + count).
absl::StatusOr<FeatureKeys> KeysOfSamples(const FeatureKeys& keys,
                                          int64_t begin, int64_t count,
                                          int64_t samples) {
  if (static_cast<int64_t>(keys.ends.size()) != samples ||
      !std::is_sorted(keys.ends.begin(), keys.ends.end()) ||
      (samples > 0 &&
       (keys.ends.front() < 0 ||
        keys.ends.back() != static_cast<int64_t>(keys.keys.size())))) {
    return absl::InvalidArgumentError(
        absl::StrCat("TrainedModel::Predict: a feature has ", keys.keys.size(),
                     " keys for ", keys.ends.size(),
                     " samples; ends must ascend to the number of keys, and "
                     "there are ",
                     samples, " samples"));
  }
  const int64_t first = begin == 0 ? 0 : keys.ends[begin - 1];
  FeatureKeys part;
  part.keys.assign(keys.keys.begin() + first,
                   keys.keys.begin() + keys.ends[begin + count - 1]);
  for (int64_t i = begin; i < begin + count; ++i) {
    part.ends.push_back(keys.ends[i] - first);
  }
  return part;
}

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

  // Reads the tables, unless there are none or they have been read.
  absl::Status LoadTables() {
    if (tables != nullptr) return absl::OkStatus();
    TRIBUTARY_ASSIGN_OR_RETURN(tables, TrainedTables::Load(job, run.path()));
    return absl::OkStatus();
  }

  const RunFolder run;
  const Options options;
  const TrainingSources sources;
  DeviceName device;
  JobSpec job;
  DataInfo info;
  std::string weights;                // The path of the weights.
  std::vector<LoadedModel> instance;  // One element.
  std::unique_ptr<TrainedTables> tables;
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
  return Predict(features, {});
}

absl::StatusOr<TrainedModel::Outputs> TrainedModel::Predict(
    absl::Span<const float> features,
    const std::vector<FeatureKeys>& keys) const {
  const DataInfo& info = state_->info;
  if (info.kind != DataInfo::Kind::kRows &&
      info.kind != DataInfo::Kind::kImages) {
    return absl::UnimplementedError(
        "TrainedModel::Predict: the model's inputs are not numbers");
  }
  if (keys.size() != info.vector_dims.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("TrainedModel::Predict: got the keys of ", keys.size(),
                     " features, expected those of ", info.vector_dims.size(),
                     ", the features of sparse in the job"));
  }
  TRIBUTARY_RETURN_IF_ERROR(state_->LoadTables());
  const int64_t width =
      std::accumulate(info.sample_shape.begin(), info.sample_shape.end(),
                      int64_t{1}, std::multiplies<int64_t>());
  const auto size = static_cast<int64_t>(features.size());
  const int64_t samples = width > 0      ? size / width
                          : keys.empty() ? 0
                                         : keys[0].ends.size();
  if (size != samples * width) {
    return absl::InvalidArgumentError(
        absl::StrCat("TrainedModel::Predict: got ", size,
                     " features, expected a multiple of ", width,
                     ", the number of features of a sample"));
  }
  const LoadedModel& model = state_->instance[0];
  Outputs outputs;
  outputs.classes = model.classes();
  outputs.samples = samples;
  outputs.per_sample = model.outputs();
  outputs.values.resize(
      static_cast<size_t>(outputs.samples * outputs.per_sample));
  for (int64_t begin = 0; begin < outputs.samples; begin += kMostSamples) {
    Batch batch;
    batch.samples = std::min(kMostSamples, outputs.samples - begin);
    const auto first = features.begin() + begin * width;
    batch.features.assign(first, first + batch.samples * width);
    for (const FeatureKeys& of_feature : keys) {
      TRIBUTARY_ASSIGN_OR_RETURN(
          batch.feature_keys.emplace_back(),
          KeysOfSamples(of_feature, begin, batch.samples, samples));
    }
    if (state_->tables != nullptr) {
      TRIBUTARY_RETURN_IF_ERROR(state_->tables->SetVectors(&batch));
    }
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
