#include "tributary/c_api.h"

#include <stdlib.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/text/release.h"
#include "deploy/flags/exit_code.h"
#include "tributary/job.h"
#include "tributary/worker.h"

// What the handles point to. A handle belongs to its worker, whose number of
// parameters tells how many pointers a caller has room for.
struct tributary_micro_batch {
  tributary_worker* worker;
  tributary::MicroBatch* item;
};
struct tributary_piece {
  tributary_worker* worker;
  tributary::EvaluationPiece* item;
};
struct tributary_step {
  tributary_worker* worker;
  tributary::Step* item;
};
struct tributary_run {
  tributary::Job job;
};
struct tributary_worker {
  std::optional<tributary::Worker> own;  // Empty in a tributary_run.
  tributary::Worker* worker;
  int parameters = 0;
  std::vector<tributary::UntrainedTensor> untrained;
  tributary_step step = {};
  tributary_micro_batch micro_batch = {};
  tributary_piece piece = {};
};

namespace {

// Calls the functions of a tributary_rule.
class CallbackRule final : public tributary::ProgramRule {
 public:
  explicit CallbackRule(const tributary_rule& rule) : rule_(rule) {}

  absl::Status Load(absl::Span<const char> state) override {
    return Call(rule_.load, state.data(), state.size());
  }
  absl::Status Apply(const Update& update) override {
    const tributary_rule_update values = {
        update.step, update.weights.size(), update.weights.data(),
        update.gradients.data(), update.new_weights.data()};
    return Call(rule_.apply, &values);
  }
  absl::Status Save(absl::Span<char> state) override {
    return Call(rule_.save, state.data(), state.size());
  }

 private:
  template <typename Function, typename... Arguments>
  absl::Status Call(Function function, Arguments... arguments) {
    tributary_error error = {};
    function(rule_.context, arguments..., &error);
    return absl::Status(static_cast<absl::StatusCode>(error.code),
                        error.message);
  }

  const tributary_rule rule_;
};

int32_t Report(const absl::Status& status, tributary_error* error) {
  error->code = static_cast<int32_t>(status.code());
  const size_t length =
      std::min(status.message().size(), sizeof(error->message) - 1);
  status.message().copy(error->message, length);
  error->message[length] = '\0';
  return error->code;
}

// Makes exit() end the process before exit handlers and destructors of static
// objects free what gRPC's threads use; see EndProcess in
// deploy/flags/exit_code.h. Exit handlers that are registered later still run.
void EndProcessAtExit() {
  static const int registered = on_exit(
      [](int exit_code, void*) { tributary::EndProcess(exit_code); }, nullptr);
  (void)registered;
}

absl::StatusOr<tributary::Worker> Connect(const char* coordinator) {
  absl::StatusOr<tributary::Worker::Options> options =
      tributary::Worker::Options::FromEnvironment();
  if (!options.ok()) return options.status();
  if (coordinator != nullptr) options->coordinator = coordinator;
  return tributary::Worker::Connect(*options);
}

tributary::ParameterDeclaration Declaration(const tributary_parameter& from) {
  tributary::ParameterDeclaration to;
  to.name = from.name;
  to.shape.assign(from.shape, from.shape + from.dimensions);
  to.group = static_cast<tributary::ParameterGroup>(from.group);
  if (from.learning_rate_factor != 0) {
    to.learning_rate_factor = from.learning_rate_factor;
  }
  to.aliases.assign(from.aliases, from.aliases + from.alias_count);
  int64_t size = 1;
  for (const int64_t length : to.shape) size *= std::max<int64_t>(length, 0);
  if (from.initial == nullptr) return to;
  // Shared, because std::function copies what it holds.
  const auto values = std::make_shared<const std::vector<float>>(
      from.initial, from.initial + size);
  to.initialize = [values](tributary::Random*, absl::Span<float> initial) {
    std::copy(values->begin(), values->end(), initial.begin());
  };
  return to;
}

int32_t PoolingOf(tributary::FeatureInfo::Pooling pooling) {
  switch (pooling) {
    case tributary::FeatureInfo::Pooling::kSum:
      return TRIBUTARY_POOLING_SUM;
    case tributary::FeatureInfo::Pooling::kMean:
      return TRIBUTARY_POOLING_MEAN;
    case tributary::FeatureInfo::Pooling::kNone:
      return TRIBUTARY_POOLING_NONE;
  }
  return 0;
}

tributary::Bags BagsOf(const tributary_keys& keys) {
  return {{keys.keys, keys.key_count}, {keys.ends, keys.bags}};
}

// Returns memory for the vectors of all bags. A feature that does not exist,
// which the library refuses, has none.
absl::Span<float> VectorsOf(const tributary_worker& worker,
                            const tributary_keys& keys, float* vectors) {
  const auto& features = worker.worker->job().features;
  if (keys.feature < 0 ||
      static_cast<size_t>(keys.feature) >= features.size()) {
    return {};
  }
  return {vectors, keys.bags * static_cast<size_t>(features[keys.feature].dim)};
}

uint64_t RandomSeed(const tributary::MicroBatch& micro_batch) {
  tributary::Random random = micro_batch.random();
  const uint64_t high = random.Bits();
  return high << 32 | random.Bits();
}

std::string TextOf(const char* text) { return text == nullptr ? "" : text; }

std::vector<std::string> TextsOf(const char* const* texts, size_t count) {
  return texts == nullptr ? std::vector<std::string>()
                          : std::vector<std::string>(texts, texts + count);
}

tributary::Job::Options JobOptions(const tributary_run_options& from) {
  tributary::Job::Options to;
  to.file = TextOf(from.file);
  to.text = TextOf(from.text);
  to.set = TextsOf(from.set, from.set_count);
  to.output_directory = TextOf(from.output_directory);
  to.resume = from.resume != 0;
  to.overwrite = from.overwrite != 0;
  if (from.servers != 0) to.servers = from.servers;
  if (from.workers != 0) to.workers = from.workers;
  to.threads = from.threads;
  to.devices = TextsOf(from.devices, from.device_count);
  void* const context = from.context;
  if (from.worker != nullptr) {
    to.worker = [call = from.worker, context](tributary::Worker* worker) {
      tributary_worker handle{std::nullopt, worker};
      tributary_error error = {};
      call(context, &handle, &error);
      return absl::Status(static_cast<absl::StatusCode>(error.code),
                          error.message);
    };
  }
  if (from.on_step != nullptr) {
    to.on_step = [call = from.on_step,
                  context](const tributary::Job::StepMetrics& metrics) {
      const tributary_step_metrics values = {metrics.step, metrics.loss,
                                             metrics.learning_rate,
                                             metrics.samples, metrics.seconds};
      call(context, &values);
    };
  }
  if (from.on_message != nullptr) {
    to.on_message = [call = from.on_message, context](const std::string& text) {
      call(context, text.c_str());
    };
  }
  return to;
}

}  // namespace

int32_t tributary_c_api_version() { return TRIBUTARY_C_API_VERSION; }

const char* tributary_version() { return tributary::ReleaseName(); }

int32_t tributary_worker_connect(const char* coordinator,
                                 tributary_worker** worker,
                                 tributary_error* error) {
  EndProcessAtExit();
  absl::StatusOr<tributary::Worker> connected = Connect(coordinator);
  if (connected.ok()) {
    *worker = new tributary_worker{*std::move(connected), nullptr};
    (*worker)->worker = &*(*worker)->own;
  }
  return Report(connected.status(), error);
}

void tributary_worker_free(tributary_worker* worker) { delete worker; }

void tributary_worker_get_job(const tributary_worker* worker,
                              tributary_job* job) {
  const tributary::JobInfo& info = worker->worker->job();
  *job = {info.name.c_str(), info.model.c_str(), info.config.c_str(),
          info.seed,         info.train_samples, info.evaluation_samples,
          info.fingerprint,  info.batch,         info.micro_batches,
          info.spec.c_str()};
}

int32_t tributary_worker_use_gpu(tributary_worker* worker, int32_t gpu,
                                 tributary_error* error) {
  return Report(worker->worker->UseGpu(gpu), error);
}

int32_t tributary_worker_pin_for_gpu(tributary_worker* worker, int32_t gpu,
                                     tributary_error* error) {
  return Report(worker->worker->PinForGpu(gpu), error);
}

int32_t tributary_worker_set_rule(tributary_worker* worker,
                                  const tributary_rule* rule,
                                  tributary_error* error) {
  return Report(worker->worker->SetRule(std::make_shared<CallbackRule>(*rule)),
                error);
}

int32_t tributary_worker_declare(tributary_worker* worker,
                                 const tributary_parameter* parameters,
                                 size_t count, tributary_error* error) {
  std::vector<tributary::ParameterDeclaration> declarations;
  for (size_t i = 0; i < count; ++i) {
    declarations.push_back(Declaration(parameters[i]));
  }
  const absl::Status declared = worker->worker->Declare(declarations);
  if (declared.ok()) worker->parameters = static_cast<int>(count);
  return Report(declared, error);
}

int32_t tributary_worker_rank(const tributary_worker* worker) {
  return worker->worker->rank();
}

int32_t tributary_worker_workers(const tributary_worker* worker) {
  return worker->worker->workers();
}

void tributary_worker_keep_last_weights(tributary_worker* worker) {
  worker->worker->KeepLastWeights();
}

int32_t tributary_worker_last_weights(const tributary_worker* worker,
                                      const float** weights) {
  for (int i = 0; i < worker->parameters; ++i) {
    weights[i] = worker->worker->LastWeights(i).data();
    if (weights[i] == nullptr) return 0;
  }
  return 1;
}

void tributary_worker_set_untrained(tributary_worker* worker,
                                    void (*collect)(void* context,
                                                    int64_t steps),
                                    void* context) {
  worker->worker->SetUntrained([worker, collect, context](int64_t steps) {
    worker->untrained.clear();
    collect(context, steps);
    return std::move(worker->untrained);
  });
}

void tributary_worker_add_untrained(tributary_worker* worker,
                                    const tributary_untrained* tensor) {
  worker->untrained.push_back(
      {tensor->name,
       tensor->dtype,
       {tensor->shape, tensor->shape + tensor->dimensions},
       std::string(static_cast<const char*>(tensor->data), tensor->bytes)});
}

int32_t tributary_worker_end_job(tributary_worker* worker,
                                 tributary_error* error) {
  return Report(worker->worker->EndJob(), error);
}

size_t tributary_worker_features(const tributary_worker* worker, size_t number,
                                 tributary_feature* feature) {
  const auto& features = worker->worker->job().features;
  if (feature != nullptr && number < features.size()) {
    const tributary::FeatureInfo& info = features[number];
    *feature = {info.name.c_str(), info.table.c_str(), info.dim,
                PoolingOf(info.pooling)};
  }
  return features.size();
}

uint64_t tributary_key_of(const char* name, const char* text, size_t bytes) {
  return tributary::KeyOf(name, std::string(text, bytes));
}

void tributary_worker_announce(tributary_worker* worker, int64_t step,
                               int32_t micro_batch, const tributary_keys* keys,
                               size_t count) {
  std::vector<std::pair<int, absl::Span<const uint64_t>>> features;
  for (size_t i = 0; i < count; ++i) {
    features.emplace_back(keys[i].feature, BagsOf(keys[i]).keys);
  }
  worker->worker->Announce(step, micro_batch, features);
}

tributary_step* tributary_worker_next_step(tributary_worker* worker) {
  worker->step = {worker, worker->worker->NextStep()};
  return worker->step.item == nullptr ? nullptr : &worker->step;
}

int32_t tributary_worker_status(const tributary_worker* worker,
                                tributary_error* error) {
  return Report(worker->worker->status(), error);
}

void tributary_worker_stop(tributary_worker* worker) { worker->worker->Stop(); }

int64_t tributary_step_number(const tributary_step* step) {
  return step->item->number();
}

tributary_micro_batch* tributary_step_next_micro_batch(
    tributary_step* step, tributary_micro_batch_info* info) {
  // The iterator of a new range begins with the next item.
  tributary::MicroBatch* const item =
      step->item->micro_batches().begin().operator->();
  if (item == nullptr) return nullptr;
  *info = {item->step(),
           item->number(),
           item->epoch(),
           item->indexes().data(),
           static_cast<int64_t>(item->indexes().size()),
           RandomSeed(*item)};
  step->worker->micro_batch = {step->worker, item};
  return &step->worker->micro_batch;
}

tributary_piece* tributary_step_next_piece(tributary_step* step,
                                           tributary_piece_info* info) {
  tributary::EvaluationPiece* const item =
      step->item->evaluation_pieces().begin().operator->();
  if (item == nullptr) return nullptr;
  *info = {item->begin(), item->end()};
  step->worker->piece = {step->worker, item};
  return &step->worker->piece;
}

int32_t tributary_micro_batch_spans(tributary_micro_batch* micro_batch,
                                    const float** weights, float** gradients) {
  tributary::MicroBatch* const item = micro_batch->item;
  for (int i = 0; i < micro_batch->worker->parameters; ++i) {
    weights[i] = item->weights(i).data();
    gradients[i] = item->gradient(i).data();
  }
  return item->aborted() ? 0 : 1;
}

void* tributary_micro_batch_gpu_stream(
    const tributary_micro_batch* micro_batch) {
  return micro_batch->item->gpu_stream();
}

int32_t tributary_micro_batch_look_up(tributary_micro_batch* micro_batch,
                                      const tributary_keys* keys,
                                      float* vectors, int32_t* given_up) {
  const int look_up = micro_batch->item->LookUp(
      keys->feature, BagsOf(*keys),
      VectorsOf(*micro_batch->worker, *keys, vectors));
  *given_up = micro_batch->item->aborted() ? 1 : 0;
  return look_up;
}

void tributary_micro_batch_add_gradient(tributary_micro_batch* micro_batch,
                                        int32_t look_up, const float* gradient,
                                        size_t elements) {
  micro_batch->item->AddGradient(look_up, {gradient, elements});
}

void tributary_micro_batch_set_sample_count(tributary_micro_batch* micro_batch,
                                            int64_t count) {
  micro_batch->item->SetSampleCount(count);
}

void tributary_micro_batch_set_learning_rate(tributary_micro_batch* micro_batch,
                                             double rate) {
  micro_batch->item->SetLearningRate(rate);
}

void tributary_micro_batch_ready(tributary_micro_batch* micro_batch,
                                 int32_t parameter) {
  micro_batch->item->Ready(parameter);
}

void tributary_micro_batch_finish(tributary_micro_batch* micro_batch,
                                  double loss_sum) {
  micro_batch->item->Finish(loss_sum);
}

void tributary_micro_batch_finish_without_loss(
    tributary_micro_batch* micro_batch) {
  micro_batch->item->Finish(std::nullopt);
}

void tributary_piece_weights(tributary_piece* piece, const float** weights) {
  for (int i = 0; i < piece->worker->parameters; ++i) {
    weights[i] = piece->item->weights(i).data();
  }
}

void tributary_piece_look_up(tributary_piece* piece, const tributary_keys* keys,
                             float* vectors) {
  piece->item->LookUp(keys->feature, BagsOf(*keys),
                      VectorsOf(*piece->worker, *keys, vectors));
}

void tributary_piece_add_metric(tributary_piece* piece, const char* name,
                                double sum, double count) {
  piece->item->AddMetric(name, sum, count);
}

void tributary_piece_report(tributary_piece* piece, double loss_sum,
                            int64_t correct, int64_t count) {
  piece->item->Report(loss_sum, correct, count);
}

tributary_run* tributary_run_create(const tributary_run_options* options) {
  EndProcessAtExit();
  return new tributary_run{tributary::Job(JobOptions(*options))};
}

int32_t tributary_run_train(tributary_run* run, tributary_error* error) {
  return Report(run->job.Run().status(), error);
}

void tributary_run_stop(tributary_run* run) { run->job.Stop(); }

void tributary_run_free(tributary_run* run) { delete run; }
