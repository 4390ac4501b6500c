// The command line of `tributary`, for programs with models and data sets of
// their own:
//
//   int main(int argc, char** argv) {
//     tributary::ModelRegistry models;
//     models.Add("spiral_network", &BuildSpiralNetwork);
//     tributary::DataRegistry data_sets;
//     data_sets.Add("spirals", &OpenSpirals);
//     return tributary::Main(argc, argv, models, data_sets);
//   }
//
// docs/cpp.md explains this function, and examples/cpp/own_network is a
// complete program.
#ifndef TRIBUTARY_MAIN_H_
#define TRIBUTARY_MAIN_H_

#include "tributary/registry.h"

namespace tributary {

// Runs the command that the arguments name, as the program `tributary` does:
// train, worker, plan, compare, bench and all others. Jobs can then select the
// registered models and data sets by name (model.external.name,
// data.external.name). `train`, `compare` and `bench` start servers and workers
// by running this program again, so main must call Main before it does anything
// else, with the same registries in every process.
//
// Call once, on the main thread. Ends the process with the command's exit code
// (docs/fault-tolerance.md lists the codes), or with code 2 if a name was
// registered twice. Does not return, because gRPC's threads live as long as the
// process. Does not run the destructors of static objects.
[[noreturn]] int Main(int argc, char** argv, const ModelRegistry& models = {},
                      const DataRegistry& data_sets = {});

}  // namespace tributary

#endif  // TRIBUTARY_MAIN_H_
