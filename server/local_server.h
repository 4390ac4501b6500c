// What every server does, coordinator or not: gets the table, builds its store,
// serves it, applies norms, writes its part of checkpoints.
#ifndef TRIBUTARY_SERVER_LOCAL_SERVER_H_
#define TRIBUTARY_SERVER_LOCAL_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/thread_pool.h"
#include "proto/rendezvous.pb.h"
#include "server/parameter_server_service.h"
#include "server/parameter_store.h"

namespace tributary {

// Follows the coordinator's orders. Thread-safe.
class LocalServer {
 public:
  // Reports go to `report`, from threads of its own; it must not block. Must
  // outlive the gRPC server that `service` belongs to; `service` must outlive
  // this object.
  LocalServer(int shard, int threads, ParameterServerService* service,
              std::function<void(const ServerReport&)> report);
  // Ends what is under way first.
  ~LocalServer();

  // Returns at once; the work is done on threads of its own. Orders that make
  // no sense are errors.
  absl::Status Handle(const ServerOrder& order) ABSL_LOCKS_EXCLUDED(mu_);

  ProcessStatistics Statistics() const;

  // Null before the first Configure.
  ParameterStore* store() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  absl::Status OnConfigure(const Configure& configure) ABSL_LOCKS_EXCLUDED(mu_);
  absl::Status OnSnapshot(const TakeSnapshot& order) ABSL_LOCKS_EXCLUDED(mu_);
  // Writes the files and reports.
  void WriteSnapshot(const std::string& folder, const Snapshot& snapshot);
  void ReportSnapshot(int64_t version, SnapshotReport::Outcome outcome,
                      const std::string& message = "",
                      const std::vector<CheckpointFile>& files = {});

  const int shard_;
  ParameterServerService* const service_;
  const std::function<void(const ServerReport&)> report_;

  mutable absl::Mutex mu_;
  std::unique_ptr<ParameterStore> store_ ABSL_GUARDED_BY(mu_);
  int servers_ ABSL_GUARDED_BY(mu_) = 1;
  // Waits for the disk, so that nobody else does.
  std::unique_ptr<ThreadPool> writer_;
  // Its tasks use the store and the writer, so it ends first.
  std::unique_ptr<ThreadPool> pool_;
};

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_LOCAL_SERVER_H_
