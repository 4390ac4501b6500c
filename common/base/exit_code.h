// Exit codes of the process, which also stand in Failure messages. Scripts rely
// on them; docs/fault-tolerance.md lists them.
#ifndef TRIBUTARY_COMMON_BASE_EXIT_CODE_H_
#define TRIBUTARY_COMMON_BASE_EXIT_CODE_H_

namespace tributary {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
// Invalid usage, an invalid job, or a job that names files that do not exist. A
// restart would fail again for the same reason.
inline constexpr int kExitUsage = 2;

// Stopped by SIGTERM, SIGUSR1 or SIGUSR2, usually sent by a scheduler: start
// again with --resume auto. Also the exit code of a worker whose device has
// failed: start a new worker.
inline constexpr int kExitPreempted = 75;

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_EXIT_CODE_H_
