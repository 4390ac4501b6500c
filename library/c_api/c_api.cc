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
