// The subcommands of `tributary`. Each function parses `arguments`, which
// follow the subcommand's name, runs the subcommand and returns the exit code
// (deploy/flags/exit_code.h). NAME_command.cc defines Run<Name>Command.
// `sources` opens the data and creates the models that jobs name.
#ifndef TRIBUTARY_DEPLOY_COMMANDS_SUBCOMMANDS_H_
#define TRIBUTARY_DEPLOY_COMMANDS_SUBCOMMANDS_H_

#include <string>
#include <vector>

#include "deploy/flags/environment.h"

namespace tributary {

struct TrainingSources;  // worker/training/training_sources.h

// `tributary certs`: creates a certificate authority and certificates for
// tests.
int RunCertsCommand(const std::vector<std::string>& arguments,
                    const Environment& environment);

// `tributary checkpoint`: lists, verifies and compares checkpoints.
int RunCheckpointCommand(const std::vector<std::string>& arguments,
                         const Environment& environment);

// `tributary compare`: trains one job once with each way to exchange gradients,
// such as `synchronous` or `all_reduce`, and compares the results.
int RunCompareCommand(const std::vector<std::string>& arguments,
                      const Environment& environment,
                      const TrainingSources& sources);

// `tributary conformance`: checks that a worker, written in any language,
// follows the protocol.
int RunConformanceCommand(const std::vector<std::string>& arguments,
                          const Environment& environment,
                          const TrainingSources& sources);

// `tributary dashboard`: serves a web page that shows runs.
int RunDashboardCommand(const std::vector<std::string>& arguments,
                        const Environment& environment);

// `tributary evaluate`: evaluates a trained model.
int RunEvaluateCommand(const std::vector<std::string>& arguments,
                       const Environment& environment,
                       const TrainingSources& sources);

// `tributary export`: writes a trained model in a format of other programs.
int RunExportCommand(const std::vector<std::string>& arguments,
                     const Environment& environment);

// `tributary predict`: computes the outputs of a trained model.
int RunPredictCommand(const std::vector<std::string>& arguments,
                      const Environment& environment,
                      const TrainingSources& sources);

// `tributary plan`: predicts the step time of a job on a cluster.
int RunPlanCommand(const std::vector<std::string>& arguments,
                   const Environment& environment,
                   const TrainingSources& sources);

// `tributary runs`: lists and compares runs.
int RunRunsCommand(const std::vector<std::string>& arguments,
                   const Environment& environment);

// `tributary sample`: generates text with a trained model.
int RunSampleCommand(const std::vector<std::string>& arguments,
                     const Environment& environment);

// `tributary sparse`: looks into the tables of a run.
int RunSparseCommand(const std::vector<std::string>& arguments,
                     const Environment& environment);

// `tributary status`: shows the status of a job to users, scripts and health
// checks of containers.
int RunStatusCommand(const std::vector<std::string>& arguments,
                     const Environment& environment);

// `tributary tokenize`: converts text files to a file of token ids.
int RunTokenizeCommand(const std::vector<std::string>& arguments,
                       const Environment& environment);

// `tributary train`: runs a whole job, on this machine or on the nodes of a
// Slurm allocation.
int RunTrainCommand(const std::vector<std::string>& arguments,
                    const Environment& environment,
                    const TrainingSources& sources);

// `tributary tune`: searches for the best values of fields of a job.
int RunTuneCommand(const std::vector<std::string>& arguments,
                   const Environment& environment,
                   const TrainingSources& sources);

// `tributary worker`: runs one worker.
int RunWorkerCommand(const std::vector<std::string>& arguments,
                     const Environment& environment,
                     const TrainingSources& sources);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_SUBCOMMANDS_H_
