// Holds a server's part of the tables of a job, and applies gradients to them.
#ifndef TRIBUTARY_COMMON_UPDATE_TABLES_TABLE_ENGINE_H_
#define TRIBUTARY_COMMON_UPDATE_TABLES_TABLE_ENGINE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/base/buffer_pool.h"
#include "common/base/executor.h"
#include "common/optimizer/stated_rates.h"
#include "common/optimizer/update_recipe.h"
#include "common/sparse/bucket_rows.h"
#include "common/sparse/row_gradients.h"
#include "common/sparse/server/server_tables.h"
#include "common/sparse/sparse_table.h"
#include "common/update/aggregation/chunk_aggregator.h"
#include "common/update/consistency/consistency_policy.h"
#include "proto/job.pb.h"
#include "proto/parameter_server.pb.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// The rows of all tables that belong to one server. All tables take a step
// together: when the contributions to the step cover the reduction tree, their
// rows are added in its order, and each row that has a gradient is updated
// once. Version v is the state after v steps.
//
// A worker contributes to step s only after every server has announced that it
// has all contributions to step s - 1 (Listener). Until then, the worker may
// have to compute step s - 1 again, for a worker that was lost. It computes
// step s from rows of version s - SparseSpec.fixed_lag, which it reads from
// every server, also if it needs no row of it. So when a server has all
// contributions to step s, each server has those to step s - 1 and version s -
// fixed_lag, and no worker needs a version before s - 1 - fixed_lag any more.
// The server is at most at version s + 1, so the 2 fixed_lag + 2 newest
// versions suffice.
//
// With SetReplicator, a server announces a step, and reports the sums of the
// next one, after another process has a copy of what the step has changed. All
// updates of a step wait for the sums of all servers (the norm), so when one
// server has version s + 1, every server and every copy has version s at least.
//
// In mode `asynchronous`, a contribution is the gradient of a whole batch, and
// each step is applied when its contribution arrives, exactly once; the version
// is the number of steps that were applied.
//
// Thread-safe. No method blocks, except that CheckKeys and AddContribution take
// time for each key.
class TableEngine {
 public:
  struct Options {
    JobSpec job;  // A result of ResolveJob with `sparse`.
    int64_t steps = 0;
    int shard = 0;
    int servers = 1;
    int64_t first_version = 0;
    // True if updates wait for SetGradientNorm.
    bool awaits_norm = false;
    // True in mode `asynchronous`; see ExchangeTraits.
    bool whole_batches = false;
    // For the ledger of tests: the number of the attempt, and what stands for
    // the tables of this server in place of a chunk.
    int64_t attempt = 1;
    int ledger_place = 0;
    // Returns the error of a contribution whose step, node, sample count or
    // sender is wrong. If null, they are not checked. Called with a lock of the
    // engine held, so that DropFrom finds every contribution that was accepted.
    std::function<absl::Status(const NodeSum&)> check;
    // The learning rates that workers state. Must outlive the engine.
    StatedRates* rates = nullptr;
    // Called at most once, on any thread, with no lock held, if the rows do not
    // fit into memory or cannot be read from the disk. The engine then makes no
    // progress.
    std::function<void(const absl::Status&)> on_failure;
    // Called once for each step, in their order, with the fields that concern
    // rows, on any thread.
    std::function<void(const StepSums&)> on_sums;
  };
  // `pool` must outlive the engine, and be drained before it is destroyed.
  // Returns the errors of SparseTable::Create.
  static absl::StatusOr<std::unique_ptr<TableEngine>> Create(Options options,
                                                             Executor* pool);

  const SparseSpec& sparse() const { return options_.job.sparse(); }
  RowDims dims() const { return RowDimsOf(options_.job.sparse()); }
  SparseTable* table(int number) const { return tables_[number].get(); }
  const ServerTables& server_tables() const { return tables_; }

  // Takes other tables, which have the rows of first_version, in place of empty
  // ones. Call it before any method that changes or reads rows.
  void Adopt(ServerTables tables) { tables_ = std::move(tables); }
  // Copies what each step changes to another process: calls `replicate` after
  // each step, on any thread, with the SparseTable::LastStep of each table. The
  // step is announced, and its rows can be read, when `kept` is called: by
  // `replicate` itself or later, on any thread. Call it before AddContribution,
  // in a job with recovery.journal.
  using ReplicateCallback =
      std::function<void(int64_t version, std::vector<BucketRows> changes,
                         std::function<void()> kept)>;
  void SetReplicator(ReplicateCallback replicate) {
    replicate_ = std::move(replicate);
  }

  // Returns InvalidArgument, naming the table, if there are not as many lists
  // as tables, or for keys that SparseTable::CheckKeys refuses.
  absl::Status CheckKeys(const TableKeys& keys) const;

  // Adds a contribution, whose `gradient` is a RowSource with valid keys. Drops
  // it if it is not needed any more. Returns InvalidArgument, or
  // FailedPrecondition for a step that its sender cannot have reached, for a
  // contribution that no correct worker sends, and the errors of
  // Options::check.
  absl::Status AddContribution(NodeSum sum) ABSL_LOCKS_EXCLUDED(mu_);
  // Drops the contributions of this worker to steps that are not complete.
  void DropFrom(int64_t incarnation) ABSL_LOCKS_EXCLUDED(mu_);
  // Updates the rows of a step that waits for the norm.
  void SetGradientNorm(int64_t step, double norm) ABSL_LOCKS_EXCLUDED(mu_);

  // Calls `listener` with the number of steps whose contributions are complete,
  // now and whenever it grows, until RemoveListener(id) has returned. The calls
  // come from any thread, in order, with a lock of the engine held.
  using Listener = std::function<void(int64_t complete)>;
  void AddListener(int64_t id, Listener listener) ABSL_LOCKS_EXCLUDED(mu_);
  void RemoveListener(int64_t id) ABSL_LOCKS_EXCLUDED(mu_);

  int64_t version() const ABSL_LOCKS_EXCLUDED(mu_);
  // Returns a micro-batch that the tables wait for; nullopt if they wait for
  // none, or if steps have no order.
  std::optional<MissingWork> FindMissingWork() const ABSL_LOCKS_EXCLUDED(mu_);
  // Reads rows of a version (or kNewestRows) as soon as it exists, and calls
  // `done` on the pool with their values: those of the first table, [keys,
  // dim], then those of the next. `keys` must be valid. `done` receives
  // FailedPrecondition if the version does not exist any more. Not called if
  // the engine fails or is destroyed before.
  using ReadCallback = std::function<void(absl::StatusOr<Buffer> values)>;
  void Read(int64_t version, TableKeys keys, ReadCallback done)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Takes the changes of each table up to a version, as soon as it exists (see
  // SparseTable::TakeChanges), and calls `done` on the pool or in this call.
  // Returns false, and does not call `done`, if there is a newer version
  // already. Replaces an earlier call whose `done` was not called.
  using ChangesCallback =
      std::function<void(std::vector<SparseTable::Changes> tables)>;
  bool TakeChanges(int64_t version, ChangesCallback done)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Call it when the changes up to `version` are safe.
  void ConfirmChanges(int64_t version);
  // Lets all rows count as changed.
  void ChangeAll();

 private:
  // What the engine does with the step after its version.
  enum class State {
    kCollecting,  // Waits for contributions.
    kSumming,     // Adds them up.
    kAwaitingNorm,
    kUpdating,
    kReplicating,  // Waits until the changes of the step are copied.
  };
  struct Waiting {
    TableKeys keys;
    ReadCallback done;
  };

  TableEngine(Options options, Executor* pool, ServerTables tables);

  // Begins the next step if its contributions are complete.
  void Advance() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Adds up the contributions to the step; then updates the rows, or reports
  // the sums and waits for the norm.
  void Sum() ABSL_LOCKS_EXCLUDED(mu_);
  // Applies the step, and passes its changes to `replicate_`.
  void Update(double norm) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends the step: the engine has the next version.
  void Publish() ABSL_LOCKS_EXCLUDED(mu_);
  // Returns the number of steps that Listeners know to be complete.
  int64_t Announced() const ABSL_SHARED_LOCKS_REQUIRED(mu_);
  void ReadNow(int64_t version, const TableKeys& keys,
               const ReadCallback& done) const;

  const Options options_;
  Executor* const pool_;
  const Encoding encoding_;  // Of the gradients that it receives.
  const UpdateRecipe recipe_;
  ServerTables tables_;
  ReplicateCallback replicate_;  // Null in jobs without replicas.

  // The contributions to the step, and their sum. Set by the thread that takes
  // the engine from one state to the next.
  ChunkUpdate step_;
  TableGradients total_;

  mutable absl::Mutex mu_;
  std::unique_ptr<ContributionQueue> queue_ ABSL_GUARDED_BY(mu_);
  State state_ ABSL_GUARDED_BY(mu_) = State::kCollecting;
  int64_t version_ ABSL_GUARDED_BY(mu_);
  std::map<int64_t, Listener> listeners_ ABSL_GUARDED_BY(mu_);
  // Reads of versions that do not exist yet, by version.
  std::multimap<int64_t, Waiting> waiting_ ABSL_GUARDED_BY(mu_);
  // The version that TakeChanges waits for; -1: none.
  int64_t taken_version_ ABSL_GUARDED_BY(mu_) = -1;
  ChangesCallback taken_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_UPDATE_TABLES_TABLE_ENGINE_H_
