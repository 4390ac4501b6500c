#include "deploy/launch/train/inference.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/buffer_pool.h"
#include "common/base/status_macros.h"
#include "common/base/thread_pool.h"
#include "common/job/job.h"
#include "common/numerics/score_histogram.h"
#include "common/parameters/arena_layout.h"
#include "common/tensor_io/tensor_files.h"
#include "deploy/launch/train/loaded_model.h"
#include "deploy/launch/train/prediction_inputs.h"
#include "deploy/launch/train/trained_tables.h"
#include "server/checkpoint/final_folder.h"
#include "worker/data/data_set.h"
#include "worker/models/model.h"

namespace tributary {
namespace {

// Limits of one call of a model: samples, and features or tokens of all
// samples. Models keep all activations, of which pictures and texts have many.
constexpr int64_t kMaxBatch = 256;
constexpr int64_t kBatchFeatures = 1 << 20;
constexpr int64_t kBatchTokens = 1 << 11;

// Weights in the memory of a device.
absl::StatusOr<Device::Memory> CopyToDevice(const Buffer& weights,
                                            int64_t elements, Device* device) {
  const size_t bytes = static_cast<size_t>(elements) * sizeof(float);
  TRIBUTARY_ASSIGN_OR_RETURN(Device::Memory memory, device->Allocate(bytes));
  device->CopyFromHost(memory.get(), weights.get(), bytes);
  return memory;
}

// Returns the number of elements of the tensor that belongs to a parameter.
absl::StatusOr<int64_t> ElementsOf(const TensorFiles& files,
                                   const std::string& run,
                                   const std::string& parameter) {
  const auto found = files.tensors().find(parameter);
  if (found == files.tensors().end()) {
    return absl::DataLossError(
        absl::StrCat(run, ": the final model has no tensor ", parameter,
                     ", which the model of job.textproto requires"));
  }
  int64_t elements = 1;
  for (const int64_t size : found->second.shape) elements *= size;
  return elements;
}

// Returns the numbers of elements that the parameters of the job's model have
// in the file at `path`. `info` is that of the data; sizes in it of which the
// names of the parameters do not depend may be wrong.
absl::StatusOr<std::vector<int64_t>> ParameterSizes(const JobSpec& job,
                                                    DataInfo info,
                                                    const std::string& path) {
  TRIBUTARY_ASSIGN_OR_RETURN(const TensorFiles files, TensorFiles::Open(path));
  info.classes = job.model().loss() == ModelSpec::MEAN_SQUARED_ERROR ? 0 : 2;
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<Device> cpu,
                             MakeCpuDevice(Precision::kFloat32));
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<Model> model,
      CreateModel(job.model(), info, /*samples=*/1, cpu.get()));
  std::vector<int64_t> sizes;
  for (const auto& parameter : model->table().parameter()) {
    TRIBUTARY_ASSIGN_OR_RETURN(const int64_t elements,
                               ElementsOf(files, path, parameter.name()));
    sizes.push_back(elements);
  }
  return sizes;
}

// Returns the number of features that the first layer of a model of rows takes:
// the elements of its weights, divided by those of its bias.
absl::StatusOr<int64_t> FeaturesOf(const JobSpec& job,
                                   const std::string& path) {
  DataInfo info;
  info.sample_shape = {1};
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes,
                             ParameterSizes(job, info, path));
  return sizes[0] / std::max<int64_t>(sizes[1], 1);
}

// Returns the number of samples of one call of a model.
int64_t BatchSize(const PredictionInputs& inputs) {
  const DataInfo info = inputs.info();
  int64_t width = 1;
  for (const int64_t size : info.sample_shape) width *= size;
  const int64_t limit =
      info.kind == DataInfo::Kind::kSequences ? kBatchTokens : kBatchFeatures;
  return std::min(inputs.samples(),
                  std::clamp<int64_t>(limit / width, 1, kMaxBatch));
}

// The held-out samples of a data set, as inputs.
class HeldOutInputs final : public PredictionInputs {
 public:
  // `data` must outlive this object.
  explicit HeldOutInputs(const DataSet* data) : data_(data) {}

  int64_t samples() const override { return data_->evaluation_samples(); }
  DataInfo info() const override { return data_->info(); }
  absl::Status Read(int64_t begin, int64_t end, Batch* batch) const override {
    data_->ReadEvaluation(begin, end, batch);
    return batch->error;
  }

 private:
  const DataSet* const data_;
};

absl::Status NoHeldOutData(const JobSpec& job) {
  return absl::FailedPreconditionError(absl::StrCat(
      "the job has no held-out data; name some with --set, such as --set ",
      job.data().has_external()
          ? "data.external.config=..."
          : absl::StrCat("data.",
                         job.data().has_labeled_text() ? "labeled_text" : "csv",
                         ".test=FILE")));
}

// The inputs of a prediction, and the data that the network was built for.
struct PredictionTask {
  std::unique_ptr<DataSet> data;  // Null if it is not needed.
  std::unique_ptr<PredictionInputs> inputs;
  DataInfo info;
};

// Opens the inputs for a network of Tributary, without the training data.
absl::Status OpenBuiltIn(const JobSpec& job, const std::string& run,
                         const std::string& path, const std::string& file,
                         PredictionTask* task) {
  int64_t features = 0;
  if (job.data().has_csv()) {
    TRIBUTARY_ASSIGN_OR_RETURN(features, FeaturesOf(job, path));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string encoding, ReadEncoding(run));
  TRIBUTARY_ASSIGN_OR_RETURN(
      task->inputs, OpenPredictionInputs(job, encoding, file, features));
  task->info = task->inputs->info();
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes,
                             ParameterSizes(job, task->info, path));
  // The bias of the last layer has an element for each class.
  task->info.classes =
      job.model().loss() == ModelSpec::MEAN_SQUARED_ERROR ? 0 : sizes.back();
  return absl::OkStatus();
}

// Opens the job's data, and the inputs for a network that is built for them.
absl::Status OpenWithData(const JobSpec& job, const std::string& run,
                          const std::string& file,
                          const TrainingSources& sources,
                          PredictionTask* task) {
  TRIBUTARY_ASSIGN_OR_RETURN(task->data, sources.open_data(job));
  task->info = task->data->info();
  if (file.empty()) {
    if (task->data->evaluation_samples() == 0) return NoHeldOutData(job);
    task->inputs = std::make_unique<HeldOutInputs>(task->data.get());
    return absl::OkStatus();
  }
  const std::vector<int64_t>& shape = task->info.sample_shape;
  const int64_t features = std::accumulate(
      shape.begin(), shape.end(), int64_t{1}, std::multiplies<int64_t>());
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string encoding, ReadEncoding(run));
  TRIBUTARY_ASSIGN_OR_RETURN(
      task->inputs, OpenPredictionInputs(job, encoding, file, features));
  if (task->inputs->info().sample_shape == shape) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      file, ": a sample has the shape [",
      absl::StrJoin(task->inputs->info().sample_shape, ", "),
      "], but the model was trained with [", absl::StrJoin(shape, ", "), "]"));
}

}  // namespace

absl::StatusOr<ModelEvaluation> EvaluateModel(const JobSpec& job,
                                              const std::string& run,
                                              int threads,
                                              const DeviceMaker& make_device,
                                              const TrainingSources& sources) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<TrainingSetup> setup,
      TrainingSetup::Create(JobOfWholeModel(job), threads, make_device,
                            sources));
  const int64_t held_out = setup->data().evaluation_samples();
  if (held_out == 0) return NoHeldOutData(job);
  const int64_t elements = setup->layout().arena_elements();
  const Buffer arena = AllocateBuffer(elements);
  TRIBUTARY_RETURN_IF_ERROR(setup->MakeInitialWeights(arena.get()));
  std::vector<Device::Memory> weights;
  for (int thread = 0; thread < setup->threads(); ++thread) {
    TRIBUTARY_ASSIGN_OR_RETURN(
        Device::Memory memory,
        CopyToDevice(arena, elements, setup->device(thread)));
    weights.push_back(std::move(memory));
  }
  setup->RenewWeightCopies();
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<TrainedTables> tables,
                             TrainedTables::Load(job, run));
  const int64_t piece_samples = setup->piece_samples();
  const int64_t pieces = (held_out + piece_samples - 1) / piece_samples;
  std::vector<LossSums> sums(static_cast<size_t>(pieces));
  TRIBUTARY_RETURN_IF_ERROR(ParallelFor(
      setup->threads(), pieces, [&](int thread, int64_t piece) -> absl::Status {
        Batch batch;
        const int64_t begin = piece * piece_samples;
        setup->data().ReadEvaluation(
            begin, std::min(begin + piece_samples, held_out), &batch);
        TRIBUTARY_RETURN_IF_ERROR(batch.error);
        if (tables != nullptr) {
          TRIBUTARY_RETURN_IF_ERROR(tables->SetVectors(&batch));
        }
        TRIBUTARY_ASSIGN_OR_RETURN(
            sums[piece],
            setup->model(thread)->Evaluate(
                batch, static_cast<const float*>(weights[thread].get())));
        return absl::OkStatus();
      }));
  // In the order in which JobProgress adds the pieces.
  double loss = 0;
  int64_t correct = 0;
  ModelEvaluation evaluation;
  ScoreHistogram scores;
  for (const LossSums& sum : sums) {
    for (const auto& [bin, counts] : sum.scores.bins()) scores.Add(bin, counts);
    loss += sum.loss;
    correct += sum.correct;
    evaluation.samples += sum.sample_count;
  }
  const auto counted =
      static_cast<double>(std::max<int64_t>(evaluation.samples, 1));
  evaluation.loss = loss / counted;
  // The loss of a program's network is not in the job.
  evaluation.classes =
      job.model().has_external()
          ? setup->data().info().classes > 0
          : job.model().loss() != ModelSpec::MEAN_SQUARED_ERROR;
  if (evaluation.classes) {
    evaluation.accuracy = static_cast<double>(correct) / counted;
  }
  if (!scores.bins().empty()) evaluation.auc = scores.Auc();
  return evaluation;
}

absl::StatusOr<Predictions> PredictFile(const JobSpec& job,
                                        const std::string& run,
                                        FinalWeights which,
                                        const std::string& data, int threads,
                                        const DeviceMaker& make_device,
                                        const TrainingSources& sources) {
  if (job.model().has_synthetic()) {
    return absl::InvalidArgumentError(
        "predict: model.synthetic has no outputs");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string path,
                             FinalWeightsPath(run, which));
  PredictionTask task;
  TRIBUTARY_RETURN_IF_ERROR(job.model().has_external() || data.empty()
                                ? OpenWithData(job, run, data, sources, &task)
                                : OpenBuiltIn(job, run, path, data, &task));
  const PredictionInputs& inputs = *task.inputs;
  const int64_t samples = inputs.samples();
  const int64_t batch = BatchSize(inputs);
  const int64_t batches = (samples + batch - 1) / batch;
  threads = static_cast<int>(std::clamp<int64_t>(batches, 1, threads));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<LoadedModel> models,
                             LoadedModel::Load(job, task.info, batch, path,
                                               threads, make_device, sources));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<TrainedTables> tables,
                             TrainedTables::Load(job, run));
  Predictions predictions;
  predictions.samples = samples;
  predictions.classes = models[0].classes();
  predictions.outputs = models[0].outputs();
  predictions.class_names = inputs.classes();
  predictions.names = inputs.names();
  const auto named = static_cast<int64_t>(predictions.class_names.size());
  if (predictions.classes && named > 0 && named != predictions.outputs) {
    return absl::DataLossError(absl::StrCat(
        run, ": the final model has ", predictions.outputs,
        " outputs, but its ", kEncodingName, " names ", named, " classes"));
  }
  predictions.values.resize(static_cast<size_t>(samples * predictions.outputs));
  TRIBUTARY_RETURN_IF_ERROR(ParallelFor(
      threads, batches, [&](int thread, int64_t number) -> absl::Status {
        const int64_t begin = number * batch;
        Batch read;
        TRIBUTARY_RETURN_IF_ERROR(
            inputs.Read(begin, std::min(begin + batch, samples), &read));
        if (tables != nullptr) {
          TRIBUTARY_RETURN_IF_ERROR(tables->SetVectors(&read));
        }
        return models[thread].Predict(
            read, predictions.values.data() + begin * predictions.outputs);
      }));
  return predictions;
}

}  // namespace tributary
