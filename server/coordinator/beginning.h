// Where an attempt at a job begins: at the first step, at a checkpoint, or at
// what the servers have in memory; and what servers are told of it.
#ifndef TRIBUTARY_SERVER_COORDINATOR_BEGINNING_H_
#define TRIBUTARY_SERVER_COORDINATOR_BEGINNING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/membership/membership.h"
#include "server/membership/server_roster.h"

namespace tributary {

// A checkpoint that a job can go on from.
struct ResumePoint {
  std::string folder;
  CheckpointManifest manifest;
};

struct Beginning {
  // That servers begin with; 0: workers bring it.
  int64_t version = 0;
  int64_t step = 0;    // Steps that are done then.
  JobState job_state;  // At that version.
  // Of the newest checkpoint; 0: there is none.
  int64_t saved_version = 0;
  // The checkpoint's folder; empty: it is not at a checkpoint.
  std::string checkpoint;
  // By shard: the server that has it in memory; empty: it is not there.
  std::vector<int> holders;

  bool resumes() const { return !checkpoint.empty() || !holders.empty(); }
};

// What decides it, beside what the first worker and the servers say.
struct BeginningOptions {
  JobSpec job;
  std::string job_id;
  std::optional<ResumePoint> resume;
  // What servers have in memory of this run is taken where it is newer.
  bool from_memory = false;
  std::string run;  // See JournalScope.
  int64_t attempt = 1;
};

// InvalidArgument if the job cannot go on from the checkpoint.
absl::StatusOr<Beginning> ChooseBeginning(
    const BeginningOptions& options, const Ready& ready,
    const std::vector<ServerRoster::Server>& servers);

// To a worker: what the job is, and where its servers are.
CoordinatorOrder AdmissionOrder(
    const BeginningOptions& options,
    const std::vector<ServerRoster::Server>& servers, const Member& member,
    absl::Duration lease);

// The orders to one server: to begin there; to have its state kept by another.
ServerOrder ConfigureOrder(const BeginningOptions& options, const Ready& ready,
                           const Beginning& beginning,
                           const std::vector<ServerRoster::Server>& servers,
                           int shard);
// To a worker of an all-reduce: to begin there, too. `configure`: what the
// server was told.
CoordinatorOrder OpenOrder(const ServerOrder& configure,
                           const Beginning& beginning);
ServerOrder ReplicateOrder(const std::vector<ServerRoster::Server>& servers,
                           int shard);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_BEGINNING_H_
