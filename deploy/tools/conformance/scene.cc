#include "deploy/tools/conformance/scene.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/job/exchange_traits.h"
#include "common/job/job.h"
#include "common/parameters/arena_layout.h"
#include "deploy/launch/job/job_launch.h"
#include "worker/training/training_setup.h"

namespace tributary {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(20);
constexpr char kStays[] =
    "PROTOCOL.md, A job from start to end: a worker stays until Finished; "
    "WORKER.md, States, Losing a server: it joins again after UNAVAILABLE, "
    "ABORTED and DEADLINE_EXCEEDED";

absl::StatusOr<JobSpec> JobOf(const Subject& subject,
                              const std::vector<std::string>& changes) {
  JobSpec job = subject.job;
  for (const std::string& change : changes) {
    TRIBUTARY_RETURN_IF_ERROR(SetField(&job, change));
  }
  job.mutable_output()->set_log_every_steps(1);
  TRIBUTARY_RETURN_IF_ERROR(ValidateJob(job));
  return ResolveJob(job);
}

// Returns the initial weights of the built-in worker.
NamedWeights InitialWeights(const TrainingSetup& setup) {
  const ArenaLayout& layout = setup.layout();
  std::vector<float> arena(layout.arena_elements());
  setup.model(0)->Initialize(setup.job().seed(), layout, arena.data());
  NamedWeights weights;
  for (const Parameter& parameter : layout.parameters()) {
    const auto begin = arena.begin() + parameter.offset;
    weights[parameter.name].assign(begin, begin + parameter.size);
  }
  return weights;
}

}  // namespace

Scene::Scene(const Subject& subject, const std::string& name,
             const std::vector<std::string>& changes, int servers, int workers,
             absl::Duration lease)
    : subject_(subject),
      name_(name),
      changes_(changes),
      deadline_(MonotonicNow() + subject.time_limit) {
  options_.servers = servers;
  options_.workers = workers;
  options_.lease = lease;
  options_.folder = absl::StrCat(subject.folder, "/", name);
  options_.log = absl::StrCat(options_.folder, "/server.log");
  const absl::StatusOr<JobSpec> job = JobOf(subject, changes);
  error_ = job.status();
  if (!error_.ok()) return;
  options_.job = *job;
  if (subject.is_built_in) {
    const absl::StatusOr<std::unique_ptr<TrainingSetup>> setup =
        TrainingSetup::Create(*job, /*threads=*/1, &MakeCpuDevice,
                              subject.sources);
    error_ = setup.status();
    if (!error_.ok()) return;
    expected_ = Conversation::Expected{(*setup)->table(), (*setup)->facts()};
    initial_ = InitialWeights(**setup);
  }
  cluster_ = std::make_unique<Cluster>(options_);
  error_ = cluster_->start();
}

Scene::~Scene() {
  for (const auto& worker : workers_) {
    // A suspended process receives SIGKILL, too.
    supervisor_.Signal(worker->process, SIGKILL);
  }
  // Calls end before the servers that they lead to.
  for (const auto& worker : workers_) worker->tap.reset();
}

Scene::Worker* Scene::Start(const std::function<void(WireTap*)>& prepare) {
  if (!error_.ok()) return nullptr;
  const size_t number = workers_.size();
  auto worker = std::make_unique<Worker>();
  worker->conversation = std::make_unique<Conversation>(
      expected_, static_cast<int>(options_.job.batch().micro_batches()),
      /*leases_steps=*/ResolveExchange(options_.job).whole_batches);
  absl::StatusOr<std::unique_ptr<WireTap>> tap =
      WireTap::Start(options_.servers, subject_.security,
                     worker->conversation.get(), cluster_->log());
  error_ = tap.status();
  if (!error_.ok()) return nullptr;
  worker->tap = *std::move(tap);
  worker->tap->Connect(cluster_->addresses());
  if (prepare) prepare(worker->tap.get());
  ProcessSpec spec;
  spec.name = absl::StrCat("worker-", number);
  spec.arguments = ShellArguments(subject_.command);
  spec.environment = ChildEnvironment();
  spec.environment.push_back(
      absl::StrCat("TRIBUTARY_COORDINATOR=", worker->tap->address()));
  if (subject_.security.tls()) {
    spec.environment.push_back(
        absl::StrCat("TRIBUTARY_TLS_DIR=", subject_.security.tls_directory));
  }
  if (!subject_.token_file.empty()) {
    spec.environment.push_back(
        absl::StrCat("TRIBUTARY_TOKEN_FILE=", subject_.token_file));
  }
  spec.log_path = absl::StrCat(options_.folder, "/", spec.name, ".log");
  const absl::StatusOr<int> process = supervisor_.Start(spec);
  error_ = process.status();
  if (!error_.ok()) return nullptr;
  worker->process = *process;
  workers_.push_back(std::move(worker));
  return workers_.back().get();
}

void Scene::Signal(const Worker& worker, int signal) {
  supervisor_.Signal(worker.process, signal);
}

void Scene::Kill(size_t number) {
  Worker* const worker = workers_[number].get();
  worker->killed = true;
  Signal(*worker, SIGKILL);
  Await([worker] { return worker->exit.has_value(); });
}

void Scene::ReplaceServers() {
  cluster_->Stop();
  cluster_->Await();
  options_.resume = true;
  // The log of a tap must live as long as the tap.
  std::unique_ptr<Cluster> next = std::make_unique<Cluster>(options_);
  if (error_.ok()) error_ = next->start();
  for (const auto& worker : workers_) {
    worker->tap->Connect(next->addresses());
  }
  replaced_.push_back(std::exchange(cluster_, std::move(next)));
}

int64_t Scene::steps() const {
  if (options_.job.has_steps()) return options_.job.steps();
  return expected_.has_value() ? expected_->facts.steps() : 0;
}

void Scene::Add(const Fault& fault) {
  if (!fault_.has_value()) fault_ = fault;
}

void Scene::Reap() {
  for (const ProcessExit& exit : supervisor_.Reap()) {
    for (const auto& worker : workers_) {
      if (worker->process == exit.process) worker->exit = exit.wait_status;
    }
  }
}

std::string Scene::DescribeEnd(const Worker& worker) const {
  const ProcessSpec& spec = supervisor_.spec(worker.process);
  const std::string reason = LastErrorIn(spec.log_path);
  return absl::StrCat("it ", tributary::DescribeExit(*worker.exit),
                      reason.empty() ? "" : absl::StrCat(": ", reason));
}

bool Scene::Look(bool may_end) {
  Reap();
  for (const auto& worker : workers_) {
    if (const auto fault = worker->conversation->fault()) Add(*fault);
  }
  for (const auto& worker : workers_) {
    if (!worker->exit.has_value() || worker->killed) continue;
    const bool failed = *worker->exit != 0;
    if (may_end || fault_.has_value()) continue;
    Add({absl::StrCat(DescribeEnd(*worker),
                      failed ? "" : " before the job was done"),
         kStays});
  }
  return error_.ok() && !fault_.has_value();
}

Fault Scene::Timeout() const {
  for (const auto& worker : workers_) {
    if (worker->exit.has_value()) continue;
    Fault fault = worker->conversation->Pending();
    fault.what = absl::StrCat(
        "after ", absl::FormatDuration(subject_.time_limit), ": ", fault.what);
    return fault;
  }
  return {absl::StrCat("the job was not done after ",
                       absl::FormatDuration(subject_.time_limit)),
          "PROTOCOL.md, A job from start to end"};
}

bool Scene::Await(const std::function<bool()>& done, bool may_end) {
  while (Look(may_end)) {
    if (done()) return true;
    if (MonotonicNow() > deadline_) {
      Add(Timeout());
    } else {
      error_ = AwaitSignal();
    }
  }
  return false;
}

absl::Status Scene::AwaitSignal() {
  const int signal = subject_.signals->Wait(kTick);
  if (signal == 0 || signal == SIGCHLD) return absl::OkStatus();
  *subject_.stop_signal = signal;
  return StoppedBy(signal);
}

bool Scene::AwaitSuccess() {
  const auto ended = [this] {
    return std::all_of(workers_.begin(), workers_.end(),
                       [](const auto& worker) { return worker->exit; });
  };
  if (!Await(ended, /*may_end=*/true)) return false;
  for (const auto& worker : workers_) {
    if (worker->killed || *worker->exit == 0) continue;
    Add({DescribeEnd(*worker),
         worker->conversation->finished()
             ? "PROTOCOL.md, A job from start to end: a worker leaves with "
               "success when the job is done (item 8)"
             : kStays});
    return false;
  }
  const auto has_left = [](const auto& worker) {
    return !worker->killed && worker->conversation->finished();
  };
  if (std::none_of(workers_.begin(), workers_.end(), has_left)) {
    Add({"it exited with code 0 before the job was done", kStays});
    return false;
  }
  if (!Await([this] { return cluster_->end().has_value(); },
             /*may_end=*/true)) {
    return false;
  }
  cluster_->Await();
  const absl::Status end = *cluster_->end();
  if (end.ok()) return true;
  Add({absl::StrCat("the job failed: ", std::string(end.message())),
       "PROTOCOL.md, A job from start to end"});
  return false;
}

void Scene::CheckResult() {
  absl::StatusOr<RunResult> actual = ReadRunResult(options_.folder);
  absl::StatusOr<RunResult> expected;
  if (subject_.is_built_in) {
    expected = Reference();
  } else {
    Scene alone(subject_, absl::StrCat(name_, "/one-worker"), changes_);
    if (alone.Start() == nullptr || !alone.AwaitSuccess()) {
      error_ = alone.error();
      fault_ = alone.fault();
      return;
    }
    expected = ReadRunResult(alone.options_.folder);
  }
  for (const absl::Status& status : {actual.status(), expected.status()}) {
    if (!status.ok()) error_ = status;
  }
  if (!error_.ok()) return;
  actual->losses = cluster_->losses();
  CompareWith(*expected, *actual);
}

absl::StatusOr<RunResult> Scene::Reference() {
  Cluster::Options reference = options_;
  reference.servers = 1;
  reference.workers = 1;
  reference.resume = false;
  reference.folder = absl::StrCat(options_.folder, "/built-in");
  reference.log = absl::StrCat(reference.folder, "/server.log");
  const absl::Time deadline = MonotonicNow() + subject_.time_limit;
  return TrainBuiltIn(reference, subject_.sources, [&]() -> absl::Status {
    if (MonotonicNow() > deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("the built-in worker has not trained the job in ",
                       absl::FormatDuration(subject_.time_limit),
                       "; use a shorter job, or a longer --time-limit"));
    }
    return AwaitSignal();
  });
}

std::optional<size_t> Scene::ComparableLosses() const {
  const ExchangeTraits traits = ResolveExchange(options_.job);
  // The built-in worker has several leases at a time. Only the first step is
  // always computed from the initial values.
  if (traits.whole_batches) return workers_.size() == 1 ? 1 : 0;
  if (!traits.one_version_per_round) return 1;
  // A lost worker loses what compression has left out, and workers share the
  // micro-batches by their speed.
  const bool is_alone =
      workers_.size() == 1 && workers_[0]->conversation->joins() == 1;
  if (options_.job.exchange().has_compression() && !is_alone) return 1;
  return std::nullopt;
}

void Scene::CompareWith(const RunResult& expected, const RunResult& actual) {
  if (!subject_.is_built_in) {
    if (ComparableLosses().has_value()) return;
    if (actual.weights_sha256 == expected.weights_sha256) return;
    return Add({"the weights do not have the bits that one worker computes",
                "PROTOCOL.md, What a worker guarantees: the sum of a node must "
                "have the same bits whichever worker computes it"});
  }
  if (const auto fault = CompareResults(options_.job, ComparableLosses(),
                                        initial_, expected, actual)) {
    Add(*fault);
  }
}

}  // namespace tributary
