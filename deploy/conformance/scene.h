// The servers and workers of one scenario.
#ifndef TRIBUTARY_DEPLOY_CONFORMANCE_SCENE_H_
#define TRIBUTARY_DEPLOY_CONFORMANCE_SCENE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "deploy/conformance/cluster.h"
#include "deploy/conformance/conversation.h"
#include "deploy/conformance/fault.h"
#include "deploy/conformance/wire_tap.h"
#include "deploy/flags/signals.h"
#include "deploy/launcher/supervisor.h"
#include "proto/job.pb.h"
#include "worker/training/training_sources.h"

namespace tributary {

// The worker to check.
struct Subject {
  std::string command;  // For the shell; started for each worker.
  JobSpec job;          // Valid, not resolved.
  // Whether this program can compute the job's model, so that its own worker
  // provides the expected result.
  bool is_built_in = true;
  TrainingSources sources;
  // How long a scenario may take.
  absl::Duration time_limit = absl::Seconds(60);
  std::string folder;  // For logs and results of all scenarios.
  // Created with `with_children` set. Must outlive the scenes.
  SignalQueue* signals = nullptr;
};

// Runs servers in this process and workers as child processes, each behind a
// WireTap. The first fault of any worker ends every wait. Not thread-safe.
class Scene {
 public:
  struct Worker {
    std::unique_ptr<Conversation> conversation;
    std::unique_ptr<WireTap> tap;
    int process = -1;
    bool killed = false;
    std::optional<int> exit;  // As returned by waitpid.
  };

  // `changes` are changes of the job's fields in the form path=value.
  Scene(const Subject& subject, const std::string& name,
        const std::vector<std::string>& changes, int servers = 1,
        int workers = 1, absl::Duration lease = absl::Seconds(10));
  ~Scene();

  // Starts a worker. Returns null after an error.
  Worker* Start(const std::function<void(WireTap*)>& prepare = nullptr);
  void Signal(const Worker& worker, int signal);
  // Kills the worker that was started last, and waits until it has ended.
  void KillLast();
  Cluster* cluster() { return cluster_.get(); }
  // Starts new servers, which continue the job, in place of the present ones,
  // which are stopped.
  void ReplaceServers();

  // Waits until `done` returns true. Returns false, with fault() set, if a
  // worker commits a fault, if a worker ends while `may_end` is false, at the
  // time limit, and at a signal.
  bool Await(const std::function<bool()>& done, bool may_end = false);
  // Waits until the job is done and all workers have ended with success.
  bool AwaitSuccess();
  // Compares the result with that of the built-in worker or, if there is none,
  // of one worker of the subject.
  void CheckResult();

  void Add(const Fault& fault);
  const std::optional<Fault>& fault() const { return fault_; }
  // Returns an error that is not the worker's, such as a signal.
  const absl::Status& error() const { return error_; }

 private:
  // Handles what has happened since the last call. Returns false after a fault
  // or an error.
  bool Look(bool may_end);
  void Reap();
  Fault Timeout() const;
  std::string DescribeEnd(const Worker& worker) const;
  void CompareWith(const RunResult& expected, const RunResult& actual);

  const Subject& subject_;
  const std::string name_;
  const std::vector<std::string> changes_;
  const absl::Time deadline_;
  Cluster::Options options_;
  std::optional<Conversation::Expected> expected_;
  absl::Status error_;
  std::optional<Fault> fault_;
  // Servers that were replaced; the taps use their log.
  std::vector<std::unique_ptr<Cluster>> replaced_;
  std::unique_ptr<Cluster> cluster_;
  std::vector<std::unique_ptr<Worker>> workers_;
  Supervisor supervisor_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_CONFORMANCE_SCENE_H_
