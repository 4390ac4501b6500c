// Records which updates were applied where, and checks that they are complete.
#ifndef TRIBUTARY_TESTS_SIMULATION_WORLD_LEDGER_H_
#define TRIBUTARY_TESTS_SIMULATION_WORLD_LEDGER_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "proto/checkpoint.pb.h"

namespace tributary::simulation {

// The updates, attempts and checkpoints of one history.
class Ledger {
 public:
  // Records that `step` was applied to `chunk`.
  void AddUpdate(int64_t attempt, int chunk, int64_t step,
                 int64_t sample_count);
  // Records that an attempt begins from `checkpoint`, or from step 0 if null.
  void AddAttempt(int64_t attempt, const CheckpointManifest* checkpoint);
  // Changes the attempt's beginning to the servers' in-memory replicas.
  void SetFromMemory(int64_t attempt, int64_t version);
  // Records that the attempt is about to commit a checkpoint.
  void AddCommit(int64_t attempt, const CheckpointManifest& checkpoint);

  int64_t newest_attempt() const { return newest_attempt_; }
  int64_t updates() const { return updates_; }

  // Checks that each step was applied to each chunk at most once in each
  // attempt. Also checks that on the path from step 0 over checkpoints to the
  // end of `attempt`, each step was applied exactly once, with the whole batch.
  // `sample_counts` lists the size of each step's batch. Returns an empty
  // string if all of this is true, and otherwise a description of the first
  // violation.
  std::string Check(int64_t attempt, int chunks,
                    const std::vector<int64_t>& sample_counts) const;

 private:
  struct Attempt {
    int64_t first = 0;  // First version.
    std::string checkpoint;
    bool from_memory = false;
  };
  struct Update {
    int times = 0;
    int64_t sample_count = 0;
  };

  // Checks that all steps of the chunk from step 0 to version `end` were
  // applied, in this attempt and in the attempts that it continues.
  std::string Trace(int64_t attempt, int64_t end, int chunk) const;

  std::map<std::tuple<int64_t, int, int64_t>, Update> applied_;
  std::map<int64_t, Attempt> attempts_;
  // Maps a checkpoint's contents to the attempt that committed it. If several
  // attempts wrote the same checkpoint, any of them is correct.
  std::map<std::string, int64_t> committed_by_;
  int64_t newest_attempt_ = 0;
  int64_t updates_ = 0;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_WORLD_LEDGER_H_
