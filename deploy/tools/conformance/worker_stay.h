// One membership of a worker, as a conformance test has observed it.
#ifndef TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_WORKER_STAY_H_
#define TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_WORKER_STAY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "deploy/tools/conformance/fault.h"
#include "proto/parameter_server.pb.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// The state of one membership of the worker, from Join to the end of the call
// of the Membership RPC.
struct WorkerStay {
  std::optional<Admission> admission;
  bool ready = false;
  std::optional<Open> open;
  std::set<const void*> exchanges;  // Calls of Exchange that have sent Hello.
  std::set<int> announced;          // Chunks listed in Welcome messages.
  std::map<int, int64_t> versions;  // Newest version received of each chunk.
  bool synced = false;
  std::vector<Deal> deals;
  // How often the worker has sent each contribution, by (step, chunk, node of
  // the summation tree); see Contribution.
  std::map<std::tuple<int64_t, int, int>, int> sent;
  // For each version, how many servers have announced that their tables are
  // complete (TablesComplete). Empty in jobs without tables.
  std::map<int64_t, int> tables_complete;
  // To how many servers the worker has sent all parts of the rows of a node, by
  // (step, node).
  std::map<std::pair<int64_t, int>, int> rows_sent;
  // The parts of evaluations that the worker has reported, as pairs of the
  // evaluated version and the number of the part (EvaluationReport.piece).
  std::set<std::pair<int64_t, int64_t>> reported;
  bool finished = false;
  bool stopped = false;
  bool left = false;
  // Describes the call that a server has ended with a transient error, and
  // the error; the worker must then join again. Empty if there is no such
  // call.
  std::string ended;

  // ---- Mode asynchronous only.
  int lease_requests = 0;    // Number of Claim messages.
  std::set<int64_t> leased;  // Steps of Claimed messages.
  // For each step that is leased to the worker, the chunks to which the
  // step's gradient has been applied.
  std::map<int64_t, std::set<int>> applied;
  // For each step, how often a server has refused a contribution to it. After
  // each refusal, the worker may send each of the step's contributions once
  // more.
  std::map<int64_t, int> refusals;
  int completed = 0;  // Number of leases of which all chunks are applied.
  // True if the worker has requested a lease of a step before it completed an
  // earlier one. It may then compute a step from weights that are older than
  // its newest Claim.
  bool leases_ahead = false;
  // For each chunk, the newest version that arrived before the chunk's newest
  // Outcome (the server's answer to a contribution).
  std::map<int, int64_t> before_outcome;
  // The value of `before_outcome` at the newest Claim, the worker's request
  // for a lease. The worker had received these versions when it sent the
  // Claim.
  std::map<int, int64_t> at_lease_request;

  // Returns the smallest of the chunks' newest versions, or nullopt if a chunk
  // has none.
  std::optional<int64_t> Version() const;
  // Returns the fault of a contribution to a node of the summation tree that
  // was not assigned to the worker.
  std::optional<Fault> CheckAssigned(int64_t step, int node,
                                     int micro_batches) const;
  // Mode asynchronous only: returns the fault of a contribution from a version
  // that the worker has not received, or that was old when it requested the
  // lease.
  std::optional<Fault> CheckBaseVersion(const Contribution& contribution) const;
  // Returns how often the worker may send each contribution to a step.
  int Times(int64_t step) const;
  // Records a message with rows. Returns the fault of rows that were sent too
  // often.
  std::optional<Fault> OnRows(const RowContribution& rows);
  // Returns the fault of a contribution to a step before all servers have
  // announced that their tables are complete at this version.
  std::optional<Fault> CheckTables(int64_t step) const;
  // Returns the fault to report for a worker that sends no more messages; see
  // Conversation::Pending. `leases_steps` is as in Conversation.
  Fault Pending(bool leases_steps) const;

 private:
  // Returns a node whose gradient, but not its rows, has been sent to all
  // servers; a message about it, or nothing.
  std::optional<std::string> MissingRows() const;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_CONFORMANCE_WORKER_STAY_H_
