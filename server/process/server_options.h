// The options of a server process.
#ifndef TRIBUTARY_SERVER_PROCESS_SERVER_OPTIONS_H_
#define TRIBUTARY_SERVER_PROCESS_SERVER_OPTIONS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/base/executor.h"
#include "common/base/limits.h"
#include "common/listener/listener.h"
#include "common/metrics/metrics_registry.h"
#include "common/os/file_system.h"
#include "common/os/logger.h"
#include "common/transport/security.h"
#include "common/update/block_pass.h"
#include "common/update/chunk_pass.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/coordinator/beginning.h"
#include "server/membership/member_secrets.h"

namespace tributary {

class ServerNetwork;

// Returns an executor with this many threads.
std::unique_ptr<Executor> MakeThreadPool(int threads);

struct ServerOptions {
  // Number of this server, from 0. Server 0 is the coordinator.
  int shard = 0;
  // Number of servers.
  int servers = 1;
  // host:port to listen on; port 0 selects a free port.
  std::string listen = "127.0.0.1:0";
  // host or host:port at which other processes reach this one. If empty, the
  // other processes use the address on which the listener accepts connections.
  std::string advertise;

  // Shard 0 only: the job (a valid result of ResolveJob), and the folder for
  // metrics.jsonl, summary.json, job.textproto and final/model.safetensors. The
  // folder is created if it does not exist.
  JobSpec job;
  std::string output_directory;
  // Shard 0 only: training starts when this many workers are synced (have a
  // complete version of the weights), or when `start_timeout` has passed since
  // the first worker was synced. Later workers join the running job.
  int expected_workers = 1;
  absl::Duration start_timeout = absl::Seconds(60);
  // Shard 0 only: if more than expected_workers, the number of workers that may
  // come. The job fails at once if so many workers cannot take part.
  int most_workers = 1;
  // Shard 0 only: a worker that sends no message for this long is removed. A
  // server that sends no message for this long is lost: the attempt ends, and
  // the job continues in a new attempt. A value that is too small removes slow
  // peers. A value that is too large delays recovery from a process that fails
  // without closing its connection.
  absl::Duration lease = absl::Seconds(10);
  // Shard 0 only: the job fails after this long without any worker.
  absl::Duration no_worker_timeout = absl::Seconds(60);

  // Shard 0 only: the job fails if any of its servers is missing for this long.
  absl::Duration no_server_timeout = absl::Minutes(10);
  // Shard 0 only: see AttemptOptions::stall_timeout.
  absl::Duration stall_timeout = absl::Minutes(10);
  // Shard 0 only: if true, the job resumes from the newest checkpoint in
  // output_directory, if there is one.
  bool resume = false;
  // Shard 0 only: the folder of a checkpoint or of a run, from which to resume
  // if output_directory has no checkpoint. RunServer returns NotFound if this
  // folder is needed and has no intact checkpoint. If empty, it is not used.
  std::string resume_from;
  // Shard 0 only: if true, the job may resume from the checkpoint of a job with
  // a different result; see ResultChanges.
  bool allow_job_changes = false;
  // How this server and its peers authenticate each other, and the limits on
  // what a peer may request.
  Security security;
  Limits limits;

  // Shards other than 0 only: host:port of shard 0.
  std::string coordinator;
  // Shards other than 0 only: how long a server that has enlisted tries to
  // reach a coordinator that does not respond, before it ends with an error. A
  // server that has not enlisted yet tries for 60 seconds.
  absl::Duration reconnect_timeout = absl::Minutes(10);
  // Shards other than 0 only: if true, a server whose job was stopped enlists
  // again, because shard 0 will be restarted to resume the job.
  bool await_resume = false;

  // Number of threads that sum gradients and update weights.
  int threads = 1;
  // Creates an executor with this many threads. An executor with one thread
  // must run tasks in order.
  std::function<std::unique_ptr<Executor>(int threads)> make_executor =
      &MakeThreadPool;
  // Creates the implementation, on the CPU or a GPU, that sums the gradients of
  // chunks and updates their weights.
  ChunkPassMaker make_passes = &MakeBlockPasses;

  // Shard 0 only: returns the key of an attempt's MemberSecrets.
  std::function<std::string()> make_secret_key = &MemberSecrets::NewKey;

  // How this server and the other processes reach each other. Null selects
  // gRPC. Must outlive the call of RunServer.
  ServerNetwork* network = nullptr;
  // Where this server registers its metrics. Must outlive the call of
  // RunServer. May be null.
  MetricsRegistry* metrics = nullptr;
  // Where checkpoints and the files of the run are written. Must outlive the
  // call of RunServer.
  FileSystem* files = FileSystem::Posix();

  // Name of the device that `make_passes` computes on, as shown in the job's
  // status: "cpu", or the GPU's name.
  std::string device = "cpu";

  // The server's log. Required; must outlive the call of RunServer.
  Logger* log = nullptr;

  // Called once, with the listener's host:port, when the server accepts calls.
  // May be null.
  std::function<void(const std::string&)> on_listening;
  // Called with true when the server begins to take part in an attempt (one run
  // of the protocol), and with false when it stops taking part. Shard 0 takes
  // part when it accepts workers and servers; another shard does when it has
  // enlisted. Must not block. May be null.
  std::function<void(bool)> on_ready;
  // Shard 0 only: called at most once in each attempt (one run of the
  // protocol), as soon as the version and the state from which the attempt
  // begins are known. Must not block. May be null.
  std::function<void(int64_t attempt, const Beginning&)> on_begin;
  // Shard 0 only: called with each line of metrics.jsonl after it was written,
  // or after writing it failed. Calls do not overlap, and all calls have
  // returned before RunServer returns. May be null.
  std::function<void(const std::string& line)> on_metrics;
  // Shard 0 only: called with the status of the job about once a second, by the
  // thread that has called RunServer. Must not block. May be null.
  std::function<void(const StatusReply&)> on_status;
  // Shard 0 only: called with each event of the job after its ID and time have
  // been set. May be called with locks held, on any thread: must not block and
  // must not call the server. May be null.
  std::function<void(const JobEvent&)> on_event;
};

// Returns InvalidArgument if the job does not support this number of servers.
absl::Status CheckServers(const JobSpec& job, int servers);

// Sets the fields of `enlist` that the job's status shows about this process.
void SetIdentity(const ServerOptions& options, Enlist* enlist);

// Returns the options of this server's Listener.
Listener::Options ListenerOptions(const ServerOptions& options,
                                  const LocalAddress& local);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROCESS_SERVER_OPTIONS_H_
