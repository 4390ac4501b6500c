#include "deploy/conformance/scene.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "deploy/launcher/local_processes.h"
#include "worker/training/training_setup.h"

namespace tributary {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(20);
// Different implementations of the same arithmetic round differently.
constexpr double kTolerance = 1e-5;
// A number that rounds the other way to 16 bits is another number.
constexpr double kToleranceOf16Bits = 1e-4;
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

absl::StatusOr<std::optional<Conversation::Expected>> ExpectedOf(
    const Subject& subject, const JobSpec& job) {
  if (!subject.is_built_in) return std::nullopt;
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<TrainingSetup> setup,
      TrainingSetup::Create(job, /*threads=*/1, &MakeCpuDevice,
                            subject.sources));
  return Conversation::Expected{setup->table(), setup->facts()};
}

double LargestDifference(const std::vector<float>& a,
                         const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(double{a[i]} - b[i]);
    if (!(difference <= largest)) largest = difference;
  }
  return largest;
}

bool Differs(double a, double b, double tolerance) {
  return !(std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b)));
}

// Explains different weights by the first step whose loss differs.
std::optional<Fault> ExplainLosses(const std::map<int64_t, double>& expected,
                                   const std::map<int64_t, double>& actual,
                                   double tolerance) {
  for (const auto& [step, loss] : expected) {
    const auto found = actual.find(step);
    if (found == actual.end() || !Differs(found->second, loss, tolerance)) {
      continue;
    }
    const std::string what =
        absl::StrCat("the loss of step ", step, " is ", found->second,
                     ", expected ", loss, " (the built-in worker's)");
    if (step == 1) {
      return Fault{absl::StrCat(what,
                                ": it has other initial values, other "
                                "samples, or another loss"),
                   "MODELS.md: initial values and losses; SAMPLING.md: which "
                   "samples a micro-batch has"};
    }
    return Fault{absl::StrCat(what,
                              ", and the losses before are right: the "
                              "gradient of an earlier step is wrong, or "
                              "was computed from other weights"),
                 "MODELS.md: gradients are those of the sum of the losses; "
                 "STEPS.md, Leaves and nodes: how they are added"};
  }
  return std::nullopt;
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
  absl::StatusOr<std::optional<Conversation::Expected>> expected =
      ExpectedOf(subject, *job);
  error_ = expected.status();
  if (!error_.ok()) return;
  expected_ = *std::move(expected);
  cluster_ = std::make_unique<Cluster>(options_);
  if (cluster_->end().has_value()) error_ = *cluster_->end();
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
      expected_, static_cast<int>(options_.job.batch().micro_batches()));
  absl::StatusOr<std::unique_ptr<WireTap>> tap = WireTap::Start(
      options_.servers, worker->conversation.get(), cluster_->log());
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

void Scene::KillLast() {
  Worker* const worker = workers_.back().get();
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
  if (next->end().has_value()) error_ = *next->end();
  for (const auto& worker : workers_) {
    worker->tap->Connect(next->addresses());
  }
  replaced_.push_back(std::exchange(cluster_, std::move(next)));
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
      const int signal = subject_.signals->Wait(kTick);
      if (signal != 0 && signal != SIGCHLD) {
        error_ = absl::CancelledError("stopped by a signal");
      }
    }
  }
  return false;
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
    Cluster::Options reference = options_;
    reference.servers = 1;
    reference.workers = 1;
    reference.resume = false;
    reference.folder = absl::StrCat(options_.folder, "/built-in");
    reference.log = absl::StrCat(reference.folder, "/server.log");
    expected = TrainBuiltIn(reference, subject_.sources);
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

void Scene::CompareWith(const RunResult& expected, const RunResult& actual) {
  if (!subject_.is_built_in) {
    if (actual.weights_sha256 == expected.weights_sha256) return;
    return Add({"the weights do not have the bits that one worker computes",
                "PROTOCOL.md, What a worker guarantees: the sum of a node must "
                "have the same bits whichever worker computes it"});
  }
  const double tolerance =
      options_.job.exchange().wire_dtype() == ExchangeSpec::FLOAT32
          ? kTolerance
          : kToleranceOf16Bits;
  if (const auto fault =
          ExplainLosses(expected.losses, actual.losses, tolerance)) {
    return Add(*fault);
  }
  for (const auto& [name, values] : expected.weights) {
    const auto found = actual.weights.find(name);
    const double difference = found == actual.weights.end()
                                  ? INFINITY
                                  : LargestDifference(found->second, values);
    if (difference <= tolerance) continue;
    return Add({absl::StrCat("the final weights of ", name, " differ by ",
                             difference, " from those of the built-in worker"),
                "PROTOCOL.md, What a worker guarantees; MODELS.md"});
  }
  if (expected.evaluation_loss.has_value() &&
      Differs(actual.evaluation_loss.value_or(0), *expected.evaluation_loss,
              tolerance)) {
    Add({absl::StrCat("the loss of the evaluation is ",
                      actual.evaluation_loss.value_or(0), ", expected ",
                      *expected.evaluation_loss),
         "DATA.md, Evaluation: which samples a piece has"});
  }
}

}  // namespace tributary
