// Exit codes of Tributary's processes. The protobuf message Failure also
// carries an exit code. Scripts depend on the values; docs/fault-tolerance.md
// lists them.
#ifndef TRIBUTARY_COMMON_BASE_EXIT_CODE_H_
#define TRIBUTARY_COMMON_BASE_EXIT_CODE_H_

namespace tributary {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
// The command line or the job file is invalid, or the job file names files that
// do not exist. A restart would fail again for the same reason.
inline constexpr int kExitUsage = 2;

// The process was stopped by SIGTERM, SIGUSR1 or SIGUSR2, which cluster
// schedulers send, or because the whole job was stopped. To continue the job,
// start it again with --resume auto. A worker whose device has failed also
// exits with this code; start a new worker to replace it.
inline constexpr int kExitPreempted = 75;

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_EXIT_CODE_H_
