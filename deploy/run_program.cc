#include "deploy/run_program.h"

#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/os/crash_handler.h"
#include "common/os/freed_memory.h"
#include "deploy/commands/commands.h"
#include "deploy/flags/environment.h"
#include "deploy/flags/exit_code.h"

namespace tributary {
namespace {

// Debian's Abseil checks every lock acquisition for deadlocks, including
// gRPC's. This costs 2 % of the CPU time of an exchange on the wire. Tests
// leave the check enabled.
void TrustLocks() {
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

// Returns the exit code of a process for which memory does not suffice. A
// launcher may restart a server or a worker.
int ExhaustedExitCode(int argc, char** argv) {
  const std::string command = argc > 1 ? argv[1] : "";
  return command == "server" || command == "worker" ? kExitPreempted
                                                    : kExitFailed;
}

}  // namespace

void RunProgram(int argc, char** argv, const TrainingSources& sources) {
  ReportCrashes(ExhaustedExitCode(argc, argv));
  KeepFreedMemory();
  TrustLocks();
  EndProcess(RunCommandLine(std::vector<std::string>(argv + 1, argv + argc),
                            ProcessEnvironment(), sources));
}

}  // namespace tributary
