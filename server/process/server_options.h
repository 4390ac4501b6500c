// What one server process is told when it is started.
#ifndef TRIBUTARY_SERVER_PROCESS_SERVER_OPTIONS_H_
#define TRIBUTARY_SERVER_PROCESS_SERVER_OPTIONS_H_

#include <functional>
#include <string>

#include "absl/time/time.h"
#include "common/base/limits.h"
#include "common/os/log.h"
#include "common/transport/security.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/service/listener.h"
#include "server/store/block_pass.h"
#include "server/store/chunk_pass.h"

namespace tributary {

struct ServerOptions {
  // Which server this is; shard 0 coordinates.
  int shard = 0;
  // How many there are.
  int servers = 1;
  // host:port to listen on; port 0 lets the system choose.
  std::string listen = "127.0.0.1:0";
  // host or host:port that workers are told; empty: what the listener got.
  std::string advertise;

  // Shard 0 only: the job (resolved and valid), and the folder for
  // metrics.jsonl, summary.json, job.textproto and final/model.safetensors,
  // which is made if it is not there.
  JobSpec job;
  std::string output_directory;
  // Shard 0 only: training starts when so many workers are synced, or when
  // start_timeout has passed since the first was; later ones join in the
  // middle.
  int expected_workers = 1;
  absl::Duration start_timeout = absl::Seconds(60);
  // Shard 0 only: a worker or server not heard of for so long is out. Too short
  // drops slow peers, too long delays recovery of what dies without closing its
  // connection.
  absl::Duration lease = absl::Seconds(10);
  // Shard 0 only: how long the job may be without any worker before it fails.
  absl::Duration no_worker_timeout = absl::Seconds(60);

  // Shard 0 only: how long the job may be without one of its servers.
  absl::Duration no_server_timeout = absl::Minutes(10);
  // Shard 0 only: how long a step may take, beyond what is usual, before
  // whoever holds it up is done without.
  absl::Duration stall_timeout = absl::Minutes(10);
  // Shard 0 only: the newest checkpoint in output_directory, if there is one,
  // is where the job goes on from.
  bool resume = false;
  // Shard 0 only: the same for a checkpoint's folder, or that of a run, when
  // output_directory has none. NotFound if there is no good one.
  std::string resume_from;
  // Shard 0 only: what it goes on from may be of a job with another result; see
  // ResultChanges.
  bool allow_job_changes = false;
  // Whom this server believes, and how it shows who it is; and what any peer
  // may ask of it.
  Security security;
  Limits limits;

  // Other shards: host:port of shard 0.
  std::string coordinator;
  // Other shards: how long to look for a coordinator that is away.
  absl::Duration reconnect_timeout = absl::Minutes(10);

  // Threads that sum and update chunks.
  int threads = 1;
  // What they do it on.
  ChunkPassMaker make_passes = &MakeBlockPasses;

  // Must outlive the call of RunServer. Required.
  Logger* log = nullptr;

  // Called once, when the server accepts calls, with the host:port that it got.
  std::function<void(const std::string&)> on_listening;
};

// InvalidArgument if the job needs more, or fewer, of them.
absl::Status CheckServers(const JobSpec& job, int servers);

// For the listener of such a server.
Listener::Options ListenerOptions(const ServerOptions& options,
                                  const LocalAddress& local);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROCESS_SERVER_OPTIONS_H_
