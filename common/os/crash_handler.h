// Says in one line why a process crashes.
#ifndef TRIBUTARY_COMMON_OS_CRASH_HANDLER_H_
#define TRIBUTARY_COMMON_OS_CRASH_HANDLER_H_

namespace tributary {

// From now on, a crash of this process writes one line "error: ..." to stderr:
//
// - A segmentation fault, a bus error, an arithmetic error or an illegal
//   instruction: the line names the layer, the pass, the micro-batch and the
//   step that the thread computes, if any (see common/base/crash_context.h).
//   The signal then ends the process, as it would have done without this
//   function. The same holds for abort() on a thread that computes a layer;
//   otherwise, code that aborts has said why.
// - An exception that nothing catches: the line contains its text. The process
//   then aborts. If memory, or the number of threads, did not suffice, the line
//   says how much memory the process uses and how much it may use, and the
//   process exits with `exhausted_exit_code` instead.
//
// The handlers of signals call only async-signal-safe functions. Has no effect
// in builds with a sanitizer, which reports crashes itself. Call it at most
// once, at the start of main.
void ReportCrashes(int exhausted_exit_code);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_OS_CRASH_HANDLER_H_
