// Where a worker of a pipeline receives the transfers of workers of its
// process.
#ifndef TRIBUTARY_WORKER_EXCHANGE_STAGES_LOCAL_STAGE_PORT_H_
#define TRIBUTARY_WORKER_EXCHANGE_STAGES_LOCAL_STAGE_PORT_H_

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/base/executor.h"
#include "common/stream/local_calls.h"
#include "worker/exchange/stages/stage_receiver.h"
#include "worker/exchange/stages/stream_stage_link.h"

namespace tributary {

// Shared by the port's owner and by those who call it. Thread-safe.
class LocalStagePort {
 public:
  // For `executor`, see LocalCalls.
  explicit LocalStagePort(Executor* executor)
      : calls_(std::make_shared<LocalCalls>(executor)) {}

  // See StagePort.
  void Serve(const StageReceiver::Worker& worker) ABSL_LOCKS_EXCLUDED(mu_);
  // Ends all calls. Blocks until they have ended.
  void ShutDown() { calls_->ShutDown(absl::ZeroDuration()); }

  // Opens a call to the worker of `port`.
  static std::unique_ptr<StageStream> Open(
      const std::shared_ptr<LocalStagePort>& port);

 private:
  const std::shared_ptr<LocalCalls> calls_;
  absl::Mutex mu_;
  StageReceiver::Worker worker_ ABSL_GUARDED_BY(mu_);
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_EXCHANGE_STAGES_LOCAL_STAGE_PORT_H_
