#include "tributary/worker.h"

#include <utility>

#include "absl/memory/memory.h"
#include "common/base/status_macros.h"
#include "common/transport/security.h"
#include "deploy/flags/environment.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/process_log.h"
#include "deploy/flags/security_flags.h"
#include "library/micro_batch_state.h"
#include "library/worker_session.h"

namespace tributary {

int64_t MicroBatch::step() const { return state_->step(); }
int MicroBatch::number() const { return state_->number(); }
int64_t MicroBatch::epoch() const { return state_->epoch(); }
absl::Span<const int64_t> MicroBatch::indexes() const {
  return state_->indexes();
}
Random MicroBatch::random(int layer) const { return state_->random(layer); }
absl::Span<const float> MicroBatch::weights(int parameter) {
  return state_->weights(parameter);
}
absl::Span<float> MicroBatch::gradient(int parameter) {
  return state_->gradient(parameter);
}
void* MicroBatch::gpu_stream() const { return state_->gpu_stream(); }
void MicroBatch::SetSampleCount(int64_t count) {
  state_->SetSampleCount(count);
}
void MicroBatch::Ready(int parameter) { state_->Ready(parameter); }
void MicroBatch::Add(int parameter, absl::Span<const float> values) {
  state_->Add(parameter, values);
}
void MicroBatch::Finish(double loss_sum) { state_->Finish(loss_sum); }
bool MicroBatch::aborted() const { return state_->aborted(); }

int64_t EvaluationPiece::begin() const { return state_->begin(); }
int64_t EvaluationPiece::end() const { return state_->end(); }
absl::Span<const float> EvaluationPiece::weights(int parameter) {
  return state_->weights(parameter);
}
void EvaluationPiece::Report(double loss_sum, int64_t correct, int64_t count) {
  state_->Report(loss_sum, correct, count);
}

int64_t Step::number() const { return session_->step_number(); }
ItemRange<MicroBatch> Step::micro_batches() {
  return ItemRange<MicroBatch>(
      [session = session_] { return session->NextMicroBatch(); });
}
ItemRange<EvaluationPiece> Step::evaluation_pieces() {
  return ItemRange<EvaluationPiece>(
      [session = session_] { return session->NextPiece(); });
}

absl::StatusOr<Worker> Worker::Connect() {
  TRIBUTARY_ASSIGN_OR_RETURN(const Options options, Options::FromEnvironment());
  return Connect(options);
}

absl::StatusOr<Worker> Worker::Connect(const Options& options) {
  if (options.log_format != "text" && options.log_format != "json") {
    return absl::InvalidArgumentError(
        absl::StrCat("the log format (TRIBUTARY_LOG_FORMAT) is '",
                     options.log_format, "', expected text or json"));
  }
  LogFlags log_flags;
  log_flags.format = options.log_format;
  log_flags.level = options.log_level;
  log_flags.warning_fd = options.warning_fd;
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::unique_ptr<Logger> log,
      StartProcessLog(log_flags, "worker", options.rank));
  TRIBUTARY_RETURN_IF_ERROR(ParseHostPort(options.coordinator).status());
  SecurityFlags security;
  security.tls_dir = options.tls_dir;
  security.token_file = options.token_file;
  security.insecure_network = options.insecure_network;
  WorkerOptions process;
  TRIBUTARY_ASSIGN_OR_RETURN(process.security,
                             ReadSecurity(security, {Role::kWorker}));
  TRIBUTARY_RETURN_IF_ERROR(
      CheckConnectTo(options.coordinator, security, process.security));
  WarnOfNetwork(options.coordinator, process.security, log.get());
  process.coordinator = options.coordinator;
  process.rank = options.rank;
  process.host = options.advertise;
  process.insecure_network = options.insecure_network;
  auto session =
      std::make_unique<WorkerSession>(std::move(process), std::move(log));
  TRIBUTARY_RETURN_IF_ERROR(session->AwaitJob());
  return Worker(std::move(session));
}

Worker::Worker(std::unique_ptr<WorkerSession> session)
    : session_(std::move(session)) {}
Worker::~Worker() = default;
Worker::Worker(Worker&&) noexcept = default;
Worker& Worker::operator=(Worker&&) noexcept = default;

const JobInfo& Worker::job() const { return session_->job(); }
absl::Status Worker::UseGpu(int gpu) { return session_->UseGpu(gpu); }
absl::Status Worker::PinForGpu(int gpu) { return session_->PinForGpu(gpu); }
absl::Status Worker::Declare(
    const std::vector<ParameterDeclaration>& parameters) {
  return session_->Declare(parameters);
}
Step* Worker::NextStep() { return session_->NextStep(); }
absl::Status Worker::status() const { return session_->status(); }
void Worker::Stop() { session_->Stop(); }

void EndWorkerProcess(const absl::Status& status) {
  if (absl::IsOutOfRange(status)) EndProcess(kExitDone);
  const int exit_code =
      absl::IsCancelled(status) ? kExitPreempted : ExitCodeOf(status);
  if (exit_code != kExitDone) ReportError(status, exit_code);
  EndProcess(exit_code);
}

}  // namespace tributary
