#include "deploy/launch/train/step_prediction.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "common/base/status_macros.h"
#include "common/job/rounds.h"
#include "common/os/file.h"
#include "common/os/process.h"
#include "deploy/flags/run_files.h"
#include "deploy/launch/plan/local_timing.h"
#include "nlohmann/json.hpp"

namespace tributary {

LocalRun RunOf(const JobLaunch& launch) {
  LocalRun run;
  run.job = launch.job;
  run.workers = static_cast<int>(launch.workers.most);
  run.servers = launch.servers;
  run.threads = launch.threads;
  run.server_threads = launch.ThreadsOfServer();
  run.cores = UsableCores();
  return run;
}

absl::Status AddPrediction(const JobLaunch& launch) {
  // The prediction measures the CPU's update.
  if (launch.server_device != "cpu") return absl::OkStatus();
  TRIBUTARY_ASSIGN_OR_RETURN(nlohmann::ordered_json summary,
                             ReadRunSummary(launch.output));
  const LocalRun run = RunOf(launch);
  TRIBUTARY_ASSIGN_OR_RETURN(
      const PassTiming pass,
      TimePass(JobOfRounds(run.job).optimizer(),
               summary.value("parameters", int64_t{0}), UpdatingThreads(run)));
  const absl::optional<nlohmann::ordered_json> predicted =
      PredictLocalRun(run, summary, pass);
  if (!predicted.has_value()) return absl::OkStatus();
  summary["predicted"] = *predicted;
  return WriteFileAtomically(absl::StrCat(launch.output, "/summary.json"),
                             {absl::StrCat(summary.dump(2), "\n")});
}

}  // namespace tributary
