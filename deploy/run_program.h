// The body of main in `tributary` and in programs that extend it.
#ifndef TRIBUTARY_DEPLOY_RUN_PROGRAM_H_
#define TRIBUTARY_DEPLOY_RUN_PROGRAM_H_

#include "worker/training/training_sources.h"

namespace tributary {

// Runs the command that the arguments name with the models and data sets of
// `sources`, and ends the process with its exit code. Call once, on the main
// thread.
[[noreturn]] void RunProgram(int argc, char** argv,
                             const TrainingSources& sources);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_RUN_PROGRAM_H_
