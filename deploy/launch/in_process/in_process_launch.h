// Trains a job in this process.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_IN_PROCESS_IN_PROCESS_LAUNCH_H_
#define TRIBUTARY_DEPLOY_LAUNCH_IN_PROCESS_IN_PROCESS_LAUNCH_H_

#include <string>
#include <vector>

#include "common/update/block_pass.h"
#include "common/update/chunk_pass.h"
#include "deploy/flags/signal_queue.h"
#include "deploy/launch/in_process/in_process_network.h"
#include "deploy/launch/job/job_launch.h"
#include "deploy/launch/job/job_runner.h"
#include "deploy/launch/job/progress_display.h"
#include "worker/device/factory/device_factory.h"
#include "worker/training/training_sources.h"

namespace tributary {

// What RunInProcess adds to a JobLaunch.
struct InProcessDevices {
  // The device of each worker, also of the spares, indexed by rank.
  std::vector<DeviceName> workers;
  // The name of the device of the servers, and how they compute there; see
  // ServerOptions.
  std::string server = "cpu";
  ChunkPassMaker make_passes = &MakeBlockPasses;
};

// Returns options for a job in this process, whose members `network` connects.
// The caller sets the callbacks, and runs the job with a ProcessThreads. All
// arguments must outlive the job.
JobRunnerOptions InProcessRunnerOptions(const JobLaunch& launch,
                                        const InProcessDevices& devices,
                                        const TrainingSources& sources,
                                        InProcessNetwork* network);

// Does what RunJob does, without child processes and sockets. Fields of
// `launch` that describe processes, addresses and credentials are not used. A
// second signal that ends a process immediately (see EndsImmediately) ends this
// one.
JobEnd RunInProcess(const JobLaunch& launch, const InProcessDevices& devices,
                    const TrainingSources& sources, SignalQueue* signals,
                    ProgressDisplay* display);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_IN_PROCESS_IN_PROCESS_LAUNCH_H_
