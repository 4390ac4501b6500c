// The body of main in `tributary` and in programs that extend it.
#ifndef TRIBUTARY_DEPLOY_RUN_PROGRAM_H_
#define TRIBUTARY_DEPLOY_RUN_PROGRAM_H_

#include "worker/training/training_sources.h"

namespace tributary {

// Runs the subcommand that `argv` names, such as `train`, with the models and
// data sets of `sources`, and ends the process with the subcommand's exit code.
// Call it once, on the main thread.
[[noreturn]] void RunProgram(int argc, char** argv,
                             const TrainingSources& sources);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_RUN_PROGRAM_H_
