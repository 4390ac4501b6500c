// Sends the status of a job to the server of Kubeflow Trainer.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_KUBEFLOW_TRAINER_CLIENT_H_
#define TRIBUTARY_DEPLOY_LAUNCH_KUBEFLOW_TRAINER_CLIENT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "deploy/flags/environment.h"

namespace tributary {

// Where Kubeflow Trainer accepts the status of this TrainJob.
struct TrainerServer {
  std::string url;  // https://HOST[:PORT]/PATH
  // File with the certificate authorities (PEM) that may have issued the
  // server's certificate. If empty, the system's authorities are used.
  std::string ca_file;
  // File with the bearer token, which Kubernetes replaces from time to time. If
  // empty, no token is sent.
  std::string token_file;
};

// Reads where to send the status of this TrainJob from the variables
// KUBEFLOW_TRAINER_SERVER_URL, KUBEFLOW_TRAINER_SERVER_CA_CERT and
// KUBEFLOW_TRAINER_SERVER_TOKEN. Returns nullopt if the URL is not set.
absl::optional<TrainerServer> FindTrainerServer(const Environment& environment);

// Posts `json` to the server. Each call reads the files of `server`, because
// their contents may change. Blocks for at most `timeout`, in whole seconds,
// not counting the lookup of the host's name. Returns InvalidArgument if the
// URL is malformed or not https, the system's error if a file cannot be read,
// and Unavailable, with the reason, if the server cannot be reached or
// authenticated, or answers with a status other than 2xx.
absl::Status PostJson(const TrainerServer& server, const std::string& json,
                      absl::Duration timeout);

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_KUBEFLOW_TRAINER_CLIENT_H_
