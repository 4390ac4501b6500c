#include "deploy/train/inference.h"

#include <algorithm>
#include <array>
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
#include "common/os/file.h"
#include "common/parameters/parameter_table.h"
#include "common/tensor_io/tensor_files.h"
#include "common/text/counted.h"
#include "server/checkpoint/final_folder.h"
#include "worker/data/files/data_file.h"
#include "worker/data/formats/csv_encoding.h"
#include "worker/data/formats/csv_format.h"
#include "worker/data/formats/idx_format.h"
#include "worker/data/idx_data_set.h"
#include "worker/models/initial_weights.h"
#include "worker/models/model.h"

namespace tributary {
namespace {

constexpr int64_t kBatch = 256;  // Samples of one call of a model.

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

// The inputs of a file, and how a model sees them.
struct Inputs {
  DataInfo info;
  int64_t samples = 0;
  std::vector<float> features;
};

absl::Status WrongColumns(const std::string& path, int64_t columns,
                          int64_t expected) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", Counted(columns, "column"), "; the model needs ",
                   expected, ", or ", expected + 1, " with the label"));
}

// Reads the file as the training data were read, with the encoding that is
// stored with the model.
absl::StatusOr<Inputs> ReadEncodedTable(const JobSpec& job,
                                        const CsvEncoding& encoding,
                                        const std::string& path,
                                        int64_t features) {
  if (encoding.features() != features) {
    return absl::DataLossError(
        absl::StrCat("the final model has ", features, " inputs, but its ",
                     kEncodingName, " describes ", encoding.features()));
  }
  std::string bytes;
  TRIBUTARY_RETURN_IF_ERROR(AppendWholeFile(path, kMaxDataBytes, &bytes));
  CsvOptions options;
  options.delimiter = job.data().csv().delimiter()[0];
  const int64_t columns = CountCsvColumns(bytes, options.delimiter);
  const bool labeled = columns == encoding.columns();
  if (!labeled && columns != encoding.columns() - 1) {
    return WrongColumns(path, columns, encoding.columns() - 1);
  }
  options.labeled = labeled;
  options.label_column = static_cast<int32_t>(encoding.label());
  options.category_columns = encoding.CategoryColumns(labeled);
  // Accepts any number as a label, which is not used.
  options.regression = true;
  TRIBUTARY_ASSIGN_OR_RETURN(CsvTable table, ParseCsv(bytes, options, path));
  TRIBUTARY_RETURN_IF_ERROR(encoding.Encode(path, &table));
  Inputs inputs;
  inputs.info.sample_shape = {features};
  inputs.samples = table.rows;
  inputs.features = std::move(table.cells);
  return inputs;
}

// Reads what the data set of the run has learned from its training samples, or
// an empty text if that is nothing.
absl::StatusOr<std::string> ReadEncoding(const std::string& run) {
  const absl::StatusOr<std::string> text =
      ReadFile(absl::StrCat(FinalFolder(run), "/", kEncodingName),
               kMaxEncodingFileBytes);
  return absl::IsNotFound(text.status()) ? std::string() : text;
}

absl::StatusOr<Inputs> ReadTable(const JobSpec& job, const std::string& path,
                                 int64_t features) {
  std::string bytes;
  TRIBUTARY_RETURN_IF_ERROR(AppendWholeFile(path, kMaxDataBytes, &bytes));
  CsvOptions options;
  options.labeled = false;
  options.delimiter = job.data().csv().delimiter()[0];
  TRIBUTARY_ASSIGN_OR_RETURN(CsvTable table, ParseCsv(bytes, options, path));
  Inputs inputs;
  inputs.info.sample_shape = {features};
  inputs.samples = table.rows;
  if (table.features == features) {
    inputs.features = std::move(table.cells);
    return inputs;
  }
  if (table.features != features + 1) {
    return WrongColumns(path, table.features, features);
  }
  const int64_t column = job.data().csv().label_column();
  const int64_t label = column < 0 ? table.features + column : column;
  for (int64_t row = 0; row < table.rows; ++row) {
    for (int64_t i = 0; i < table.features; ++i) {
      if (i == label) continue;
      inputs.features.push_back(table.cells[row * table.features + i]);
    }
  }
  return inputs;
}

absl::StatusOr<Inputs> ReadImages(const JobSpec& job, const std::string& path) {
  std::string bytes;
  TRIBUTARY_RETURN_IF_ERROR(AppendWholeFile(path, kMaxDataBytes, &bytes));
  TRIBUTARY_ASSIGN_OR_RETURN(const IdxImages images,
                             ParseIdxImages(bytes, path));
  Inputs inputs;
  inputs.info.kind = DataInfo::Kind::kImages;
  inputs.info.sample_shape = {1, images.height, images.width};
  inputs.samples = images.count;
  const std::array<float, 256> scaled = ScaledPixels(job.data().idx());
  for (const char pixel : images.pixels) {
    inputs.features.push_back(scaled[static_cast<unsigned char>(pixel)]);
  }
  return inputs;
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

}  // namespace

absl::StatusOr<ModelEvaluation> EvaluateModel(const JobSpec& job, int threads,
                                              const DeviceMaker& make_device,
                                              const TrainingSources& sources) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<TrainingSetup> setup,
      TrainingSetup::Create(job, threads, make_device, sources));
  const int64_t held_out = setup->data().evaluation_samples();
  if (held_out == 0) {
    return absl::FailedPreconditionError(
        "the job has no held-out data; name some with --set, such as --set "
        "data.csv.test=FILE");
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
  const bool table = job.data().has_csv();
  if (!table && !job.data().has_idx()) {
    return absl::InvalidArgumentError(
        "predict needs a job whose data are data.csv or data.idx; `tributary "
        "sample` generates text with gpt models");
  }
  if (job.model().has_external() || job.model().has_synthetic()) {
    return absl::InvalidArgumentError(
        "predict needs a model that is part of Tributary");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string path,
                             FinalWeightsPath(run, which));
  TRIBUTARY_ASSIGN_OR_RETURN(const TensorFiles files, TensorFiles::Open(path));
  const bool regression = job.model().loss() == ModelSpec::MEAN_SQUARED_ERROR;

  // The names of the parameters do not depend on the sizes of the data.
  DataInfo info;
  info.sample_shape = {1};
  info.classes = regression ? 0 : 2;
  Inputs inputs;
  std::vector<std::string> classes;
  if (!table) {
    TRIBUTARY_ASSIGN_OR_RETURN(inputs, ReadImages(job, data));
    info.kind = inputs.info.kind;
    info.sample_shape = inputs.info.sample_shape;
  }
  const auto create = [&](int64_t samples, Device* device) {
    return CreateModel(job.model(), info, samples, device);
  };
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<Device> cpu,
                             MakeCpuDevice(Precision::kFloat32));
  {
    TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<Model> model,
                               create(/*samples=*/1, cpu.get()));
    const auto& parameters = model->table().parameter();
    const auto elements = [&](int number) {
      return ElementsOf(files, path, parameters[number].name());
    };
    if (!regression) {
      // The bias of the last layer.
      TRIBUTARY_ASSIGN_OR_RETURN(info.classes, elements(parameters.size() - 1));
    }
    if (table) {
      // The weights and the bias of the first layer.
      TRIBUTARY_ASSIGN_OR_RETURN(const int64_t weights, elements(0));
      TRIBUTARY_ASSIGN_OR_RETURN(const int64_t bias, elements(1));
      info.sample_shape = {weights / std::max<int64_t>(bias, 1)};
      TRIBUTARY_ASSIGN_OR_RETURN(const std::string stored, ReadEncoding(run));
      if (stored.empty()) {
        TRIBUTARY_ASSIGN_OR_RETURN(inputs,
                                   ReadTable(job, data, info.sample_shape[0]));
      } else {
        TRIBUTARY_ASSIGN_OR_RETURN(const CsvEncoding encoding,
                                   CsvEncoding::FromJson(stored));
        classes = encoding.classes();
        TRIBUTARY_ASSIGN_OR_RETURN(
            inputs,
            ReadEncodedTable(job, encoding, data, info.sample_shape[0]));
      }
    }
  }

  const int64_t batches = (inputs.samples + kBatch - 1) / kBatch;
  threads = static_cast<int>(std::clamp<int64_t>(batches, 1, threads));
  std::vector<Instance> instances(static_cast<size_t>(threads));
  Buffer arena;
  for (Instance& instance : instances) {
    TRIBUTARY_ASSIGN_OR_RETURN(instance.device, make_device(PrecisionOf(job)));
    TRIBUTARY_ASSIGN_OR_RETURN(
        instance.model,
        create(std::min(kBatch, inputs.samples), instance.device.get()));
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

  Predictions predictions;
  predictions.samples = inputs.samples;
  predictions.outputs = regression ? 1 : info.classes;
  if (!regression && !classes.empty() &&
      static_cast<int64_t>(classes.size()) != info.classes) {
    return absl::DataLossError(absl::StrCat(
        run, ": the final model has ", info.classes, " outputs, but its ",
        kEncodingName, " names ", classes.size(), " classes"));
  }
  predictions.classes = std::move(classes);
  predictions.values.resize(
      static_cast<size_t>(inputs.samples * predictions.outputs));
  int64_t width = 1;
  for (const int64_t size : info.sample_shape) width *= size;
  TRIBUTARY_RETURN_IF_ERROR(OnThreads(
      threads, batches, [&](int thread, int64_t number) -> absl::Status {
        Instance& instance = instances[thread];
        const int64_t begin = number * kBatch;
        Batch batch;
        batch.samples = std::min(kBatch, inputs.samples - begin);
        const auto from = inputs.features.begin() + begin * width;
        batch.features.assign(from, from + batch.samples * width);
        std::vector<float> outputs;
        TRIBUTARY_RETURN_IF_ERROR(instance.model->Predict(
            batch, static_cast<const float*>(instance.weights.get()),
            &outputs));
        double* const to =
            predictions.values.data() + begin * predictions.outputs;
        std::copy(outputs.begin(), outputs.end(), to);
        if (regression) return absl::OkStatus();
        for (int64_t row = 0; row < batch.samples; ++row) {
          Softmax(to + row * predictions.outputs, predictions.outputs);
        }
        return absl::OkStatus();
      }));
  return predictions;
}

}  // namespace tributary
