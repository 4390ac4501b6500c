// The servers and workers of one conformance scenario.
#ifndef TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_SCENE_H_
#define TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_SCENE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/transport/security.h"
#include "deploy/flags/signal_queue.h"
#include "deploy/launch/job/supervisor.h"
#include "deploy/tools/conformance/cluster.h"
#include "deploy/tools/conformance/conversation.h"
#include "deploy/tools/conformance/fault.h"
#include "deploy/tools/conformance/result_comparison.h"
#include "deploy/tools/conformance/wire_tap.h"
#include "proto/job.pb.h"
#include "worker/training/training_sources.h"

namespace tributary {

// The worker that a conformance test checks.
struct Subject {
  std::string command;  // Command line, for the shell, that starts one worker.
  JobSpec job;          // A valid job with exchange.parameter_server.
  // True if this program can compute the model of the job. This program's own
  // (built-in) worker then provides the expected result.
  bool is_built_in = true;
  TrainingSources sources;
  // The credentials that the worker must have. The relays between worker and
  // servers (WireTaps) check them, so the servers require none. `token_file`
  // holds the token.
  Security security;
  std::string token_file;
  // Maximum duration of a scenario of the test.
  absl::Duration time_limit = absl::Seconds(60);
  std::string folder;  // Folder for the logs and results of all scenarios.
  // Signals that stop the scenario. Must have been created with `with_children`
  // set, and must outlive the scenes.
  SignalQueue* signals = nullptr;
  // Receives the signal that has stopped a scenario. Must not be null.
  int* stop_signal = nullptr;
};

// Runs the servers of one scenario in this process, and workers as child
// processes. Each worker reaches the servers through a WireTap of its own. The
// first fault of any worker ends all waits. Not thread-safe.
class Scene {
 public:
  struct Worker {
    std::unique_ptr<Conversation> conversation;
    std::unique_ptr<WireTap> tap;
    // Number of the worker's process in the Supervisor; see
    // ProcessControl::Start.
    int process = -1;
    // True if Kill has killed the worker's process.
    bool killed = false;
    // Status of the worker's process from waitpid; nullopt while it runs.
    std::optional<int> exit;
  };

  // Starts the servers. `name` is the name of the scenario, and of its folder
  // in Subject::folder. `changes` are changes of the job in the form
  // path=value. If the servers cannot be started, error() is set.
  Scene(const Subject& subject, const std::string& name,
        const std::vector<std::string>& changes, int servers = 1,
        int workers = 1, absl::Duration lease = absl::Seconds(10));
  ~Scene();

  // Starts a worker. Calls `prepare`, unless it is null, with the WireTap of
  // the worker before the process starts. Returns null, with error() set, if
  // the worker cannot be started or an error occurred before.
  Worker* Start(const std::function<void(WireTap*)>& prepare = nullptr);
  // Sends a signal to the process of a worker.
  void Signal(const Worker& worker, int signal);
  // Kills a worker, counted from 0 in the order of Start, and waits until its
  // process has ended.
  void Kill(size_t number);
  Cluster* cluster() { return cluster_.get(); }
  // Returns the scenario's job, as ResolveJob returns it.
  const JobSpec& job() const { return options_.job; }
  // Returns the number of steps of the job, or 0 if only the worker knows it.
  int64_t steps() const;
  // Stops the servers and starts new ones, which resume the job from its latest
  // checkpoint. Connects all workers to the new servers. Sets error() if the
  // new servers cannot be started.
  void ReplaceServers();

  // Waits until `done` returns true. Returns false with fault() set if a worker
  // commits a fault, if a worker ends while `may_end` is false (unless Kill
  // killed it), or when the time limit has passed. Returns false with error()
  // set after a signal or a different error.
  bool Await(const std::function<bool()>& done, bool may_end = false);
  // Waits until all workers have ended and the job is done. Workers that
  // Kill has killed are ignored. Returns false, with fault() or error()
  // set, if a worker or the job fails.
  bool AwaitSuccess();
  // Compares the result of the job with the result of the built-in worker. If
  // the built-in worker cannot compute the model, runs the job again with one
  // worker of the subject, and compares with its result. Sets fault() if the
  // results differ, and error() if a result cannot be determined.
  void CheckResult();

  // Records a fault of a worker unless an earlier fault is recorded.
  void Add(const Fault& fault);
  // Returns the first fault of a worker, or nullopt if there is none.
  const std::optional<Fault>& fault() const { return fault_; }
  // Returns OK, or an error that no worker has caused, such as Cancelled after
  // a signal.
  const absl::Status& error() const { return error_; }
  // Describes how the worker ended, with its last error. The worker must have
  // ended.
  std::string DescribeEnd(const Worker& worker) const;

 private:
  // Handles the exits and faults of workers since the last call. The end of a
  // worker is a fault unless `may_end` is true or Kill killed the worker.
  // Returns false after a fault or an error.
  bool Look(bool may_end);
  void Reap();
  // Returns the fault to report when the time limit of a scenario has passed.
  Fault Timeout() const;
  // Waits briefly for a signal. Returns Cancelled if a signal has stopped the
  // scenario, and OK otherwise.
  absl::Status AwaitSignal();
  // Trains the job with the built-in worker and returns the result. Returns
  // DeadlineExceeded after the time limit.
  absl::StatusOr<RunResult> Reference();
  // Returns the argument `comparable_losses` of CompareResults for the job of
  // this scene.
  std::optional<size_t> ComparableLosses() const;
  void CompareWith(const RunResult& expected, const RunResult& actual);

  const Subject& subject_;
  const std::string name_;
  const std::vector<std::string> changes_;
  const absl::Time deadline_;
  Cluster::Options options_;
  // The contents of the message Ready that the built-in worker sends (the
  // parameters of its model and the properties of its data set), and its
  // initial weights. Not set unless Subject::is_built_in is true.
  std::optional<Conversation::Expected> expected_;
  NamedWeights initial_;
  absl::Status error_;
  std::optional<Fault> fault_;
  // Servers that ReplaceServers has replaced. They must exist as long as the
  // WireTaps, which use their logs.
  std::vector<std::unique_ptr<Cluster>> replaced_;
  std::unique_ptr<Cluster> cluster_;
  std::vector<std::unique_ptr<Worker>> workers_;
  Supervisor supervisor_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_SCENE_H_
