// Decides which workers may send transfers to this worker.
#ifndef TRIBUTARY_WORKER_EXCHANGE_STAGES_STAGE_ADMISSION_H_
#define TRIBUTARY_WORKER_EXCHANGE_STAGES_STAGE_ADMISSION_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "proto/pipeline.pb.h"

namespace tributary {

// Checks the StageHello of workers that connect. Thread-safe; never blocks.
class StageAdmission {
 public:
  // What this worker has in common with the workers that may send to it.
  struct Job {
    std::string id;              // Admission.job_id
    std::string signature;       // Of the parameter table.
    std::string plan_signature;  // TransferPlan::signature
    int64_t incarnation = 0;     // This worker's.
    // Each attempt counts incarnations and epochs anew.
    int64_t attempt = 0;
  };

  explicit StageAdmission(Job job);

  // Sets the workers that may send to this one in epoch `epoch` and later
  // epochs: their incarnations, and the secret that each of them shares with
  // this worker. Ignored if a later epoch was set.
  void SetPeers(int64_t epoch, std::map<int64_t, std::string> secrets)
      ABSL_LOCKS_EXCLUDED(mu_);

  // Returns OK if the sender of `hello` may send transfers, and otherwise an
  // error that proto/pipeline.proto describes at StageExchange.Transfer.
  absl::Status Check(const StageHello& hello) const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::Status CheckJob(const StageHello& hello) const;

  const Job job_;
  mutable absl::Mutex mu_;
  int64_t epoch_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<int64_t, std::string> secrets_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_STAGES_STAGE_ADMISSION_H_
