#include "tributary/worker.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/numerics/philox.h"
#include "common/os/freed_memory.h"
#include "common/transport/security.h"
#include "deploy/flags/environment.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/process_log.h"
#include "deploy/flags/security_flags.h"
#include "library/micro_batch_state.h"
#include "library/worker_session.h"
#include "worker/data/formats/feature_hash.h"

namespace tributary {
namespace {

// Replaces `*value` by the variable, if it is set.
void Read(const Environment& environment, const std::string& variable,
          std::string* value) {
  const absl::optional<std::string> text = environment(variable);
  if (text.has_value() && !text->empty()) *value = *text;
}

absl::Status Read(const Environment& environment, const std::string& variable,
                  int min, int max, int* value) {
  std::string text = absl::StrCat(*value);
  Read(environment, variable, &text);
  if (absl::SimpleAtoi(text, value) && *value >= min && *value <= max) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("environment variable ", variable, " is '", text,
                   "', expected a whole number from ", min, " to ", max));
}

}  // namespace

Random::Random(uint64_t seed, uint32_t purpose, uint32_t a, uint32_t b)
    : seed_(seed), purpose_(purpose), a_(a), b_(b) {}

uint32_t Random::Bits() {
  if (position_ % 4 == 0) {
    const RandomStream stream = {seed_, static_cast<RandomPurpose>(purpose_),
                                 a_, b_};
    const PhiloxBlock block = stream.Block(position_ / 4);
    std::copy(block.begin(), block.end(), block_);
  }
  return block_[position_++ % 4];
}

float Random::Uniform() { return UniformFloat(Bits()); }

uint64_t KeyOf(const std::string& name, const std::string& text) {
  return FeatureHash(name).Key(text);
}

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
void MicroBatch::SetLearningRate(double rate) { state_->SetLearningRate(rate); }
void MicroBatch::Ready(int parameter) { state_->Ready(parameter); }
void MicroBatch::Add(int parameter, absl::Span<const float> values) {
  state_->Add(parameter, values);
}
int MicroBatch::LookUp(int feature, const Bags& bags,
                       absl::Span<float> vectors) {
  return state_->LookUp(feature, bags, vectors);
}
void MicroBatch::AddGradient(int look_up, absl::Span<const float> gradient) {
  state_->AddGradient(look_up, gradient);
}
void MicroBatch::Finish(std::optional<double> loss_sum) {
  state_->Finish(loss_sum);
}
bool MicroBatch::aborted() const { return state_->aborted(); }

int64_t EvaluationPiece::begin() const { return state_->begin(); }
int64_t EvaluationPiece::end() const { return state_->end(); }
absl::Span<const float> EvaluationPiece::weights(int parameter) {
  return state_->weights(parameter);
}
void EvaluationPiece::LookUp(int feature, const Bags& bags,
                             absl::Span<float> vectors) {
  state_->LookUp(feature, bags, vectors);
}
void EvaluationPiece::AddMetric(const std::string& name, double sum,
                                double count) {
  state_->AddMetric(name, sum, count);
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
  KeepFreedMemory();
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
absl::Status Worker::SetRule(std::shared_ptr<ProgramRule> rule) {
  return session_->SetRule(std::move(rule));
}
absl::Status Worker::Declare(
    const std::vector<ParameterDeclaration>& parameters) {
  return session_->Declare(parameters);
}
void Worker::KeepLastWeights() { session_->KeepLastWeights(); }
absl::Span<const float> Worker::LastWeights(int parameter) const {
  return session_->LastWeights(parameter);
}
void Worker::SetUntrained(
    std::function<std::vector<UntrainedTensor>(int64_t steps)> collect) {
  session_->SetUntrained(std::move(collect));
}
absl::Status Worker::EndJob() { return session_->EndJob(); }
int Worker::rank() const { return session_->rank(); }
int Worker::workers() const { return session_->workers(); }
void Worker::Announce(
    int64_t step, int micro_batch,
    const std::vector<std::pair<int, absl::Span<const uint64_t>>>&
        feature_keys) {
  session_->Announce(step, micro_batch, feature_keys);
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

absl::StatusOr<Worker::Options> Worker::Options::FromEnvironment() {
  const Environment environment = ProcessEnvironment();
  TRIBUTARY_ASSIGN_OR_RETURN(const LauncherEnvironment launcher,
                             ReadLauncherEnvironment(environment));
  Options options;
  options.coordinator = launcher.Coordinator();
  Read(environment, "TRIBUTARY_COORDINATOR", &options.coordinator);
  if (!absl::StrContains(options.coordinator, ":")) {
    options.coordinator = JoinHostPort(options.coordinator, kDefaultPort);
  }
  if (launcher.rank.has_value()) {
    options.rank = static_cast<int>(launcher.rank->value);
  }
  TRIBUTARY_RETURN_IF_ERROR(
      Read(environment, "TRIBUTARY_RANK", -1, 65535, &options.rank));
  Read(environment, "TRIBUTARY_TLS_DIR", &options.tls_dir);
  Read(environment, "TRIBUTARY_TOKEN_FILE", &options.token_file);
  Read(environment, "TRIBUTARY_ADVERTISE", &options.advertise);
  std::string insecure = "false";
  Read(environment, "TRIBUTARY_INSECURE_NETWORK", &insecure);
  if (!absl::SimpleAtob(insecure, &options.insecure_network)) {
    return absl::InvalidArgumentError(
        absl::StrCat("environment variable TRIBUTARY_INSECURE_NETWORK is '",
                     insecure, "', expected true or false"));
  }
  Read(environment, "TRIBUTARY_LOG_LEVEL", &options.log_level);
  Read(environment, "TRIBUTARY_LOG_FORMAT", &options.log_format);
  TRIBUTARY_RETURN_IF_ERROR(Read(environment, "TRIBUTARY_WARNING_FD", -1,
                                 1 << 20, &options.warning_fd));
  return options;
}

}  // namespace tributary
