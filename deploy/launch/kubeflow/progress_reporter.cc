#include "deploy/launch/kubeflow/progress_reporter.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/base/monotonic_clock.h"
#include "deploy/launch/job/status_poller.h"
#include "deploy/launch/kubeflow/trainer_client.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

// Number of queries of the status per report. The status that a report contains
// is the answer to an earlier query.
constexpr int kQueriesPerReport = 5;
constexpr absl::Duration kPostTimeout = absl::Seconds(4);

nlohmann::ordered_json Metrics(const StatusReply& status, bool done) {
  auto metrics = nlohmann::ordered_json::array();
  if (status.phase() == StatusReply::PHASE_UNSPECIFIED) return metrics;
  const auto add = [&metrics](const char* name, double value) {
    metrics.push_back({{"name", name}, {"value", absl::StrCat(value)}});
  };
  add("step", static_cast<double>(done ? status.steps() : status.step()));
  add("epoch", status.epoch());
  if (status.has_loss()) add("loss", status.loss());
  add("learning_rate", status.learning_rate());
  add("samples_per_second", status.samples_per_second());
  add("workers", status.workers());
  if (status.evaluation_version() > 0) {
    add("evaluation_loss", status.evaluation_loss());
    add("evaluation_accuracy", status.evaluation_accuracy());
  }
  return metrics;
}

}  // namespace

std::string FormatTrainerStatus(const StatusReply& status, bool done,
                                absl::Time now) {
  nlohmann::ordered_json report;
  const int64_t steps = std::max<int64_t>(status.steps(), 1);
  report["progressPercentage"] =
      done ? 100
           : std::min<int64_t>(
                 99, static_cast<int64_t>(100.0 * status.step() / steps));
  // The estimate is 0 until the first steps have been measured.
  if (done || status.seconds_left() > 0) {
    report["estimatedRemainingSeconds"] =
        done ? 0 : static_cast<int64_t>(std::ceil(status.seconds_left()));
  }
  report["metrics"] = Metrics(status, done);
  report["lastUpdatedTime"] =
      absl::FormatTime("%Y-%m-%d%ET%H:%M:%SZ", now, absl::UTCTimeZone());
  return nlohmann::ordered_json{{"trainerStatus", report}}.dump();
}

// Shared with the thread, because Finish may give up waiting for it.
class ProgressReporter::Impl {
 public:
  explicit Impl(const Options& options)
      : options_(options), log_(options.log) {}

  void Run() ABSL_LOCKS_EXCLUDED(mu_) {
    StatusReply status;
    for (int query = 1; !AwaitStop(options_.interval / kQueriesPerReport);
         ++query) {
      const StatusReply newest = options_.status();
      if (newest.phase() == StatusReply::PHASE_UNSPECIFIED) continue;
      status = newest;
      if (query % kQueriesPerReport == 0) Report(status, /*done=*/false);
    }
    if (done()) Report(status, /*done=*/true);
    absl::MutexLock lock(&mu_);
    ended_ = true;
  }

  // Returns true if the thread has ended.
  bool Finish(bool done) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    done_ = done;
    stop_ = true;
    const bool ended =
        AwaitFor(&mu_, absl::Condition(&ended_), options_.patience);
    log_ = nullptr;
    return ended;
  }

 private:
  bool AwaitStop(absl::Duration timeout) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return AwaitFor(&mu_, absl::Condition(&stop_), timeout);
  }

  bool done() ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return done_;
  }

  void Report(const StatusReply& status, bool done) ABSL_LOCKS_EXCLUDED(mu_) {
    const absl::Status posted =
        options_.post(FormatTrainerStatus(status, done, absl::Now()));
    absl::MutexLock lock(&mu_);
    if (posted.ok() || std::exchange(warned_, true) || log_ == nullptr) return;
    log_->Warning(
        "progress cannot be reported to Kubeflow Trainer: %s; the job is not "
        "affected",
        std::string(posted.message()));
  }

  const Options options_;
  absl::Mutex mu_;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  bool warned_ ABSL_GUARDED_BY(mu_) = false;
  // Null after Finish.
  Logger* log_ ABSL_GUARDED_BY(mu_);
};

ProgressReporter::ProgressReporter(const Options& options)
    : impl_(std::make_shared<Impl>(options)) {
  thread_ = std::thread([impl = impl_] { impl->Run(); });
}

ProgressReporter::~ProgressReporter() { Finish(/*done=*/false); }

void ProgressReporter::Finish(bool done) {
  if (!thread_.joinable()) return;
  if (impl_->Finish(done)) {
    thread_.join();
  } else {
    thread_.detach();
  }
}

std::unique_ptr<ProgressReporter> MakeProgressReporter(
    const Environment& environment, const std::string& coordinator,
    const Security& security, Logger* log) {
  const absl::optional<TrainerServer> server = FindTrainerServer(environment);
  if (!server.has_value()) return nullptr;
  ProgressReporter::Options options;
  options.status = [poller =
                        std::make_shared<StatusPoller>(coordinator, security)] {
    poller->Poll();
    return poller->latest();
  };
  options.post = [server = *server](const std::string& json) {
    return PostJson(server, json, kPostTimeout);
  };
  options.log = log;
  return std::make_unique<ProgressReporter>(options);
}

}  // namespace tributary
