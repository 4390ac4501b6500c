// What was applied where, and whether the whole of it is what it should be.
#ifndef TRIBUTARY_TESTS_SIMULATION_WORLD_LEDGER_H_
#define TRIBUTARY_TESTS_SIMULATION_WORLD_LEDGER_H_

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "proto/checkpoint.pb.h"

namespace tributary::simulation {

// Updates, attempts and checkpoints of one history.
class Ledger {
 public:
  // `step` was applied to `chunk`.
  void AddUpdate(int64_t attempt, int chunk, int64_t step,
                 int64_t sample_count);
  // An attempt begins, from `checkpoint` or, if that is null, from the start.
  void AddAttempt(int64_t attempt, const CheckpointManifest* checkpoint);
  // The same attempt, but with what servers have in memory of earlier ones.
  void SetFromMemory(int64_t attempt, int64_t version);
  // The attempt is about to commit this.
  void AddCommit(int64_t attempt, const CheckpointManifest& checkpoint);

  int64_t newest_attempt() const { return newest_attempt_; }
  int64_t updates() const { return updates_; }

  // Each step was applied to each chunk at most once in each attempt and, on
  // the way from the start over checkpoints to the end of `attempt`, exactly
  // once, with the whole batch. `sample_counts`: of each step's batch. Empty:
  // all is well.
  std::string Check(int64_t attempt, int chunks,
                    const std::vector<int64_t>& sample_counts) const;

 private:
  struct Attempt {
    int64_t first = 0;  // Version.
    std::string checkpoint;
    bool from_memory = false;
  };
  struct Update {
    int times = 0;
    int64_t sample_count = 0;
  };

  // The chunk's steps from the start to version `end` are all there, the last
  // of them in this attempt.
  std::string Trace(int64_t attempt, int64_t end, int chunk) const;

  std::map<std::tuple<int64_t, int, int64_t>, Update> applied_;
  std::map<int64_t, Attempt> attempts_;
  // By contents: who commits a checkpoint. Where several have made the same it
  // does not matter whose it is.
  std::map<std::string, int64_t> committed_by_;
  int64_t newest_attempt_ = 0;
  int64_t updates_ = 0;
};

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_WORLD_LEDGER_H_
