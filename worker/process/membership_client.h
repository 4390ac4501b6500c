// A worker's tie to the coordinator: joins, renews the lease, brings deals to
// the WorkState and reports back.
#ifndef TRIBUTARY_WORKER_PROCESS_MEMBERSHIP_CLIENT_H_
#define TRIBUTARY_WORKER_PROCESS_MEMBERSHIP_CLIENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/transport/client_stream.h"
#include "proto/rendezvous.grpc.pb.h"
#include "worker/state/work_state.h"

namespace tributary {

// Keep until AwaitDone has returned. Thread-safe.
class MembershipClient final
    : public ClientStream<CoordinatorOrder, WorkerReport> {
 public:
  // Connects and joins. `stub` must outlive this object. `address` is for
  // messages.
  void Begin(Rendezvous::Stub* stub, const std::string& address,
             const Join& join);

  // Waits for the coordinator's Admission, which comes when all servers are
  // there; or for the end of the connection.
  absl::StatusOr<Admission> AwaitAdmission() ABSL_LOCKS_EXCLUDED(mu_);

  // From here to Detach, orders reach `state`, and so does the connection's
  // end. To be called before Ready is sent.
  void Attach(WorkState* state) ABSL_LOCKS_EXCLUDED(mu_);
  void Detach() ABSL_LOCKS_EXCLUDED(mu_);
  // Waits for Open: the servers know the model. Requests to initialize are in
  // the state then.
  absl::StatusOr<Open> AwaitOpen() ABSL_LOCKS_EXCLUDED(mu_);

  // ---- All-reduce only.
  // Waits until there is a group with this worker. OutOfRange if the job is
  // done without.
  absl::StatusOr<Group> AwaitGroup() ABSL_LOCKS_EXCLUDED(mu_);
  // Waits for what some member publishes under this name.
  absl::StatusOr<std::string> AwaitPublication(const std::string& name)
      ABSL_LOCKS_EXCLUDED(mu_);
  // Is told of every Save, those included that came before; null: nobody is.
  // Not called any more when this returns.
  void SetSave(std::function<void(int64_t version)> save)
      ABSL_LOCKS_EXCLUDED(mu_);

  // The coordinator said Admission.
  bool admitted() const ABSL_LOCKS_EXCLUDED(mu_);
  // The job was stopped before its end.
  bool stopped() const ABSL_LOCKS_EXCLUDED(mu_);
  // The coordinator said Finished.
  bool finished() const ABSL_LOCKS_EXCLUDED(mu_);

 private:
  bool OnMessage(CoordinatorOrder* order) override ABSL_LOCKS_EXCLUDED(mu_);
  void OnGone(const grpc::Status& status) override ABSL_LOCKS_EXCLUDED(mu_);

  std::string address_;
  mutable absl::Mutex mu_;
  WorkState* state_ ABSL_GUARDED_BY(mu_) = nullptr;
  std::optional<Admission> admission_ ABSL_GUARDED_BY(mu_);
  std::optional<Open> open_ ABSL_GUARDED_BY(mu_);
  std::optional<Group> group_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, std::string> published_ ABSL_GUARDED_BY(mu_);
  std::function<void(int64_t)> save_ ABSL_GUARDED_BY(mu_);
  std::vector<int64_t> saves_ ABSL_GUARDED_BY(mu_);  // Before that was set.
  bool finished_ ABSL_GUARDED_BY(mu_) = false;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status ended_ ABSL_GUARDED_BY(mu_);  // Not OK: the connection is over.
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_PROCESS_MEMBERSHIP_CLIENT_H_
