// Decides where an attempt at a job begins (at the first step, at a checkpoint,
// or from the servers' in-memory replicas), and builds the orders that tell
// servers and workers where to begin.
#ifndef TRIBUTARY_SERVER_COORDINATOR_BEGINNING_H_
#define TRIBUTARY_SERVER_COORDINATOR_BEGINNING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/checkpoint.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/membership/membership.h"
#include "server/membership/server_roster.h"

namespace tributary {

struct AttemptOptions;

// A checkpoint from which a job can resume.
struct ResumePoint {
  std::string folder;
  CheckpointManifest manifest;
};

// The starting point of an attempt (one run of the protocol): version 0, a
// checkpoint, or the in-memory replicas.
struct Beginning {
  // The version at which training begins. Version 0 is initialized by one
  // worker or, in an all-reduce, by every worker.
  int64_t version = 0;
  int64_t step = 0;    // Number of steps done at `version`.
  JobState job_state;  // State of the job at `version`.
  // Version of the newest checkpoint; 0 if there is none.
  int64_t saved_version = 0;
  // Folder of the checkpoint that the attempt begins at; empty if it does not
  // begin at a checkpoint.
  std::string checkpoint;
  // Indexed by shard: the server that holds the in-memory replica of the
  // shard's state. Empty if the attempt does not begin from replicas.
  std::vector<int> holders;
  // Indexed by shard: whether the shard's replica holder has the state that the
  // attempt begins with. Empty if `holders` is.
  std::vector<bool> stored;

  bool resumes() const { return !checkpoint.empty() || !holders.empty(); }
};

// Chooses the version and the state at which an attempt (one run of the
// protocol) begins. `ready` is the report of a worker that has the job's model
// and data. Returns InvalidArgument if the job cannot resume from the
// checkpoint.
absl::StatusOr<Beginning> ChooseBeginning(
    const AttemptOptions& options, const Ready& ready,
    const std::vector<ServerRoster::Server>& servers);

// Returns the order that admits a worker. It contains the job and the addresses
// of its servers. `measures_layers` is as in Admission.
CoordinatorOrder AdmissionOrder(
    const AttemptOptions& options,
    const std::vector<ServerRoster::Server>& servers, const Member& member,
    bool measures_layers);

// Returns the order that tells the server of `shard` at which version, and from
// which state, it begins.
ServerOrder ConfigureOrder(const AttemptOptions& options, const Ready& ready,
                           const Beginning& beginning,
                           const std::vector<ServerRoster::Server>& servers,
                           int shard);
// Returns the order (Open) for the workers of an all-reduce. It contains the
// version at which a worker begins, and the JournalScope (the job, run, model
// and data of saved state) with which the worker connects to the server; in all
// other jobs, the order Open contains neither. `configure` is the result of
// ConfigureOrder for the server.
CoordinatorOrder OpenOrder(const ServerOrder& configure,
                           const Beginning& beginning);
// Returns the order that tells the server of `shard` which server receives its
// replicas. `stored` is that of the Beginning.
ServerOrder ReplicateOrder(const std::vector<ServerRoster::Server>& servers,
                           int shard, const std::vector<bool>& stored);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_COORDINATOR_BEGINNING_H_
