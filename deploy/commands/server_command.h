// `tributary server`: runs one server.
#ifndef TRIBUTARY_DEPLOY_COMMANDS_SERVER_COMMAND_H_
#define TRIBUTARY_DEPLOY_COMMANDS_SERVER_COMMAND_H_

#include <string>
#include <vector>

#include "common/update/chunk_pass.h"
#include "deploy/flags/environment.h"
#include "worker/device/factory/device_factory.h"

namespace tributary {

// Returns the default number of threads of a server on a machine with `cores`
// cores.
int DefaultServerThreads(int cores);

// Returns how a server computes on `device`, for ServerOptions::make_passes.
// `streams` is the number of the server's threads.
ChunkPassMaker PassesOn(const DeviceName& device, int streams);

// Runs `tributary server` with the arguments after the command's name. Returns
// the exit code.
int RunServerCommand(const std::vector<std::string>& arguments,
                     const Environment& environment);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_COMMANDS_SERVER_COMMAND_H_
