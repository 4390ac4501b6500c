#include "server/membership/peer_checks.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/counted.h"
#include "common/base/digest.h"
#include "common/base/status_macros.h"
#include "common/job/rounds.h"
#include "common/optimizer/optimizer.h"
#include "common/transport/channel.h"

namespace tributary {
namespace {

std::string DescribeData(const DataFacts& facts) {
  return absl::StrCat(facts.train_samples(), " training samples, ",
                      facts.evaluation_pieces(),
                      " evaluation pieces, fingerprint ", facts.fingerprint());
}

template <typename... What>
absl::Status CannotResume(const CheckpointManifest& manifest,
                          const What&... what) {
  return absl::InvalidArgumentError(
      absl::StrCat("cannot resume from the checkpoint at step ",
                   manifest.step(), ": ", what...));
}

}  // namespace

std::string JobId(const JobSpec& job) {
  JobSpec result = job;
  // The output folder does not affect the result.
  result.clear_output();
  return Sha256Hex(result.SerializeAsString());
}

absl::Status CheckJob(const std::string& worker, const std::string& server) {
  if (worker.empty() || worker == server) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "this worker's job (", worker.substr(0, 12),
      ") is not the one served here (", server.substr(0, 12),
      "): another job's server has this address now; start the worker again"));
}

absl::Status CheckProtocol(int32_t version) {
  if (version == kProtocolVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "this process speaks protocol version ", version, ", the coordinator ",
      kProtocolVersion, ": use the same release everywhere"));
}

absl::Status CheckModel(const ParameterTable& table, const ArenaLayout& job) {
  const absl::StatusOr<ArenaLayout> layout = ArenaLayout::Create(table);
  if (!layout.ok()) return layout.status();
  if (layout->signature() == job.signature()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "this worker's model (",
      Counted(layout->parameters().size(), "parameter"), ", signature ",
      layout->signature().substr(0, 12), ") is not the job's (",
      Counted(job.parameters().size(), "parameter"), ", signature ",
      job.signature().substr(0, 12), "): use the same release everywhere"));
}

absl::Status CheckData(const DataFacts& facts, const DataFacts& job,
                       const std::string& whose) {
  if (facts.SerializeAsString() == job.SerializeAsString()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "this worker's data (", DescribeData(facts), ") differ from the job's (",
      DescribeData(job), "), which are those of ", whose,
      ": copy the same files to this machine and start this worker again; if "
      "this worker's are the right ones, copy them to every machine and start "
      "the job again"));
}

std::string DescribeReady(const Ready& ready) {
  const absl::StatusOr<ArenaLayout> layout = ArenaLayout::Create(ready.table());
  return absl::StrCat(
      DescribeData(ready.data()), ", model ",
      layout.ok() ? layout->signature().substr(0, 12) : "unknown");
}

std::vector<std::string> StateNames(const JobSpec& job) {
  const auto optimizer = Optimizer::Create(JobOfRounds(job).optimizer());
  return optimizer.ok() ? (*optimizer)->slot_names()
                        : std::vector<std::string>();
}

absl::Status CheckState(const CheckpointManifest& manifest,
                        const JobSpec& job) {
  const std::vector<std::string> state = StateNames(job);
  if (std::equal(state.begin(), state.end(), manifest.state().begin(),
                 manifest.state().end())) {
    return absl::OkStatus();
  }
  return CannotResume(manifest, "it is of another optimizer, whose state is {",
                      absl::StrJoin(manifest.state(), ", "),
                      "}; this job's is {", absl::StrJoin(state, ", "), "}");
}

absl::Status CheckSteps(const CheckpointManifest& manifest, const JobSpec& job,
                        int64_t steps) {
  const Rounds rounds(job, steps);
  if (manifest.version() <= rounds.count() &&
      rounds.StepsAfter(manifest.version()) == manifest.step()) {
    return absl::OkStatus();
  }
  return CannotResume(
      manifest, "this job ends at step ", steps,
      rounds.count() < manifest.version()
          ? "; ask for more steps"
          : " and counts steps in other rounds; keep inner_steps");
}

absl::Status CheckResume(const CheckpointManifest& manifest, const Ready& ready,
                         const JobSpec& job) {
  const ParameterTable& saved = manifest.table();
  const ParameterTable& ours = ready.table();
  for (int i = 0; i < std::max(saved.parameter_size(), ours.parameter_size());
       ++i) {
    const std::string was = i < saved.parameter_size()
                                ? saved.parameter(i).ShortDebugString()
                                : "nothing";
    const std::string is = i < ours.parameter_size()
                               ? ours.parameter(i).ShortDebugString()
                               : "nothing";
    if (was != is) {
      return CannotResume(manifest, "it is of another model: parameter ", i,
                          " was {", was, "}, is {", is, "}");
    }
  }
  TRIBUTARY_RETURN_IF_ERROR(CheckState(manifest, job));
  return CheckSteps(manifest, job, ready.data().steps());
}

}  // namespace tributary
