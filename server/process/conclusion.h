// The end of a job on server 0: the final model and the summary.
#ifndef TRIBUTARY_SERVER_PROCESS_CONCLUSION_H_
#define TRIBUTARY_SERVER_PROCESS_CONCLUSION_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/shutdown.h"
#include "server/coordinator/coordinator.h"
#include "server/process/local_server.h"
#include "server/process/metrics_writer.h"
#include "server/process/run_output.h"
#include "server/process/server_network.h"
#include "server/process/server_options.h"

namespace tributary {

// The time within which peers must end their calls after they were told that
// the job has ended. After this time, the calls are cancelled.
inline constexpr absl::Duration kDrainTimeout = absl::Seconds(5);
// Like kDrainTimeout, but if this process was told to stop: the launcher or the
// user waits for its end.
inline constexpr absl::Duration kStoppedTimeout = absl::Milliseconds(500);
inline absl::Duration DrainTimeout(const Shutdown& shutdown) {
  return shutdown.requested() ? kStoppedTimeout : kDrainTimeout;
}
// Like kDrainTimeout, but if another attempt follows: it must not be delayed.
inline constexpr absl::Duration kCutTimeout = absl::Milliseconds(200);

// The objects of an attempt (one run of the protocol) that has ended. All must
// outlive the call of Conclude.
struct EndedAttempt {
  int64_t number = 0;
  const LocalServer* local = nullptr;
  const ServerOptions* options = nullptr;
  ServerNetwork* network = nullptr;
  Coordinator* coordinator = nullptr;
  RunOutput* output = nullptr;
  MetricsWriter* metrics = nullptr;
  const Shutdown* shutdown = nullptr;
};

// Returns Cancelled for a job that was stopped. `checkpoint_step` is the step
// of its newest checkpoint, or negative if there is none.
absl::Status StoppedAt(int64_t checkpoint_step);

// Ends the job for all processes and writes its results. `trained` is true if
// all steps are done. `begun` is false if the job was to resume an existing
// run, but ended before it was known from which state (see
// AttemptOptions::on_begin). Conclude then writes no summary, so the summary of
// the existing run is kept. Returns the status of the job, or the error that
// prevented writing its results. Blocks while it reads the final model, up to
// some minutes per server, until the other servers have disconnected, up to
// DrainTimeout, and until the results are written.
absl::Status Conclude(bool trained, bool begun, const EndedAttempt& attempt);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_PROCESS_CONCLUSION_H_
