#include "deploy/train/inference.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/buffer_pool.h"
#include "common/base/status_macros.h"
#include "common/base/thread.h"
#include "common/job/job.h"
#include "common/parameters/parameter_table.h"
#include "common/tensor_io/tensor_files.h"
#include "deploy/train/prediction_inputs.h"
#include "server/checkpoint/final_folder.h"
#include "worker/models/initial_weights.h"
#include "worker/models/model.h"

namespace tributary {
namespace {

// Limits of one call of a model: samples, and features or tokens of all
// samples. Models keep all activations, of which pictures and texts have many.
constexpr int64_t kMaxBatch = 256;
constexpr int64_t kBatchFeatures = 1 << 20;
constexpr int64_t kBatchTokens = 1 << 11;

// Calls work(thread, item) for all items below `items` on `threads` threads.
// Each thread stops at its first error. Returns the first error.
absl::Status OnThreads(
    int threads, int64_t items,
    const std::function<absl::Status(int thread, int64_t item)>& work) {
  absl::Mutex mu;
  absl::Status first;
  const auto run = [&](int thread) {
    for (int64_t item = thread; item < items; item += threads) {
      const absl::Status status = work(thread, item);
      if (status.ok()) continue;
      absl::MutexLock lock(&mu);
      if (first.ok()) first = status;
      return;
    }
  };
  std::vector<Thread> others;
  for (int thread = 1; thread < threads; ++thread) {
    others.emplace_back([&run, thread] { run(thread); });
  }
  run(0);
  for (Thread& other : others) other.Join();
  return first;
}

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

// Replaces logits by the probabilities of the classes.
void Softmax(double* row, int64_t classes) {
  const double most = *std::max_element(row, row + classes);
  double sum = 0;
  for (int64_t i = 0; i < classes; ++i) sum += row[i] = std::exp(row[i] - most);
  for (int64_t i = 0; i < classes; ++i) row[i] /= sum;
}

// A model of one thread.
struct Instance {
  std::unique_ptr<Device> device;
  std::unique_ptr<Model> model;
  Device::Memory weights{nullptr, nullptr};
};

// Creates a model of the job for each thread, with the weights at `path`.
absl::StatusOr<std::vector<Instance>> CreateInstances(
    const JobSpec& job, const DataInfo& info, int64_t batch,
    const std::string& path, int threads, const DeviceMaker& make_device) {
  std::vector<Instance> instances(static_cast<size_t>(threads));
  Buffer arena;
  for (Instance& instance : instances) {
    TRIBUTARY_ASSIGN_OR_RETURN(instance.device, make_device(PrecisionOf(job)));
    TRIBUTARY_ASSIGN_OR_RETURN(
        instance.model,
        CreateModel(job.model(), info, batch, instance.device.get()));
    ParameterTable parameters = instance.model->table();
    parameters.set_chunk_elements(ChunkBytes(job.exchange()) /
                                  static_cast<int64_t>(sizeof(float)));
    TRIBUTARY_ASSIGN_OR_RETURN(const ArenaLayout layout,
                               ArenaLayout::Create(parameters));
    if (arena == nullptr) {
      arena = AllocateBuffer(layout.arena_elements());
      std::fill_n(arena.get(), layout.arena_elements(), 0.0f);
      InitialWeightsSpec spec;
      spec.set_path(path);
      TRIBUTARY_RETURN_IF_ERROR(LoadInitialWeights(spec, layout, arena.get()));
    }
    TRIBUTARY_ASSIGN_OR_RETURN(
        instance.weights,
        CopyToDevice(arena, layout.arena_elements(), instance.device.get()));
  }
  return instances;
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

// Computes the outputs of the samples [begin, end) and writes them to
// `outputs`.
absl::Status PredictBatch(const PredictionInputs& inputs, int64_t begin,
                          int64_t end, int64_t classes, bool regression,
                          const Instance& instance, double* outputs) {
  Batch batch;
  TRIBUTARY_RETURN_IF_ERROR(inputs.Read(begin, end, &batch));
  std::vector<float> computed;
  TRIBUTARY_RETURN_IF_ERROR(instance.model->Predict(
      batch, static_cast<const float*>(instance.weights.get()), &computed));
  std::copy(computed.begin(), computed.end(), outputs);
  if (regression) return absl::OkStatus();
  for (int64_t row = 0; row < end - begin; ++row) {
    Softmax(outputs + row * classes, classes);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelEvaluation> EvaluateModel(const JobSpec& job, int threads,
                                              const DeviceMaker& make_device,
                                              const TrainingSources& sources) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<TrainingSetup> setup,
      TrainingSetup::Create(job, threads, make_device, sources));
  const int64_t held_out = setup->data().evaluation_samples();
  if (held_out == 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the job has no held-out data; name some with --set, such as --set "
        "data.",
        job.data().has_labeled_text() ? "labeled_text" : "csv", ".test=FILE"));
  }
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
  const int64_t piece_samples = setup->piece_samples();
  const int64_t pieces = (held_out + piece_samples - 1) / piece_samples;
  std::vector<LossSums> sums(static_cast<size_t>(pieces));
  TRIBUTARY_RETURN_IF_ERROR(OnThreads(
      setup->threads(), pieces, [&](int thread, int64_t piece) -> absl::Status {
        Batch batch;
        const int64_t begin = piece * piece_samples;
        setup->data().ReadEvaluation(
            begin, std::min(begin + piece_samples, held_out), &batch);
        TRIBUTARY_RETURN_IF_ERROR(batch.error);
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
  for (const LossSums& sum : sums) {
    loss += sum.loss;
    correct += sum.correct;
    evaluation.samples += sum.sample_count;
  }
  const auto counted =
      static_cast<double>(std::max<int64_t>(evaluation.samples, 1));
  evaluation.loss = loss / counted;
  evaluation.accuracy = static_cast<double>(correct) / counted;
  return evaluation;
}

absl::StatusOr<Predictions> PredictFile(const JobSpec& job,
                                        const std::string& run,
                                        FinalWeights which,
                                        const std::string& data, int threads,
                                        const DeviceMaker& make_device) {
  if (job.model().has_external() || job.model().has_synthetic()) {
    return absl::InvalidArgumentError(
        "predict needs a model that is part of Tributary");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string path,
                             FinalWeightsPath(run, which));
  int64_t features = 0;
  if (job.data().has_csv()) {
    TRIBUTARY_ASSIGN_OR_RETURN(features, FeaturesOf(job, path));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string encoding, ReadEncoding(run));
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<PredictionInputs> inputs,
      OpenPredictionInputs(job, encoding, data, features));

  const bool regression = job.model().loss() == ModelSpec::MEAN_SQUARED_ERROR;
  DataInfo info = inputs->info();
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<int64_t> sizes,
                             ParameterSizes(job, info, path));
  Predictions predictions;
  predictions.samples = inputs->samples();
  // The bias of the last layer has an element for each output.
  predictions.outputs = sizes.back();
  predictions.classes = inputs->classes();
  predictions.names = inputs->names();
  if (!predictions.classes.empty() &&
      static_cast<int64_t>(predictions.classes.size()) != predictions.outputs) {
    return absl::DataLossError(
        absl::StrCat(run, ": the final model has ", predictions.outputs,
                     " outputs, but its ", kEncodingName, " names ",
                     predictions.classes.size(), " classes"));
  }
  info.classes = regression ? 0 : predictions.outputs;
  predictions.values.resize(
      static_cast<size_t>(predictions.samples * predictions.outputs));

  const int64_t batch = BatchSize(*inputs);
  const int64_t batches = (predictions.samples + batch - 1) / batch;
  threads = static_cast<int>(std::clamp<int64_t>(batches, 1, threads));
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::vector<Instance> instances,
      CreateInstances(job, info, batch, path, threads, make_device));
  TRIBUTARY_RETURN_IF_ERROR(
      OnThreads(threads, batches, [&](int thread, int64_t number) {
        const int64_t begin = number * batch;
        return PredictBatch(
            *inputs, begin, std::min(begin + batch, predictions.samples),
            predictions.outputs, regression, instances[thread],
            predictions.values.data() + begin * predictions.outputs);
      }));
  return predictions;
}

}  // namespace tributary
