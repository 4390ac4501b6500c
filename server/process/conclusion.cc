#include "server/process/conclusion.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/buffer_pool.h"
#include "common/base/status_macros.h"
#include "common/job/exchange_traits.h"
#include "server/checkpoint/final_folder.h"
#include "server/process/final_model.h"

namespace tributary {
namespace {

// The metadata in the header of the model's file, for people.
std::map<std::string, std::string> MetadataOf(
    const JobSpec& job, const std::vector<NamedTensor>& untrained) {
  if (!job.model().has_external()) return {};
  if (!untrained.empty()) {
    return {{"contents",
             "trained parameters, running statistics, frozen parameters and "
             "buffers"}};
  }
  return {{"contents",
           "trained parameters and running statistics; frozen parameters and "
           "other buffers keep the values that the program gives them"}};
}

// The tensors of the final model that are no parameters.
struct Untrained {
  std::vector<NamedTensor> tensors;
  std::vector<UntrainedTensor> read;  // What `tensors` may point to.
};

// Returns those that a worker has sent or, if the job was finished before this
// attempt, those of the model that was written then.
absl::StatusOr<Untrained> UntrainedOf(const EndedAttempt& attempt,
                                      const AttemptFacts& facts) {
  Untrained untrained;
  untrained.tensors = facts.untrained;
  if (facts.complete_checkpoint.empty()) return untrained;
  TRIBUTARY_ASSIGN_OR_RETURN(
      untrained.read,
      ReadUntrained(FinalFolder(attempt.options->output_directory),
                    *facts.layout));
  for (const UntrainedTensor& tensor : untrained.read) {
    untrained.tensors.push_back(
        {tensor.name, tensor.shape, tensor.data.data(), tensor.dtype});
  }
  return untrained;
}

// Writes the moving average of the final weights. Does nothing if the job was
// finished before this attempt and has written it. Uses `arena` as a buffer.
absl::Status WriteAverage(const EndedAttempt& attempt,
                          const FinalModelSources& sources,
                          const std::vector<NamedTensor>& untrained,
                          const ArenaLayout& layout, const Buffer& arena) {
  const ServerOptions& options = *attempt.options;
  const std::string folder = FinalFolder(options.output_directory);
  if (sources.complete_checkpoint == folder) return absl::OkStatus();
  const absl::Status read = ReadFinalAverage(sources, options, layout, arena);
  if (!read.ok()) {
    return absl::Status(
        read.code(), absl::StrCat("the average of the weights cannot be read "
                                  "from the last checkpoint: ",
                                  read.message()));
  }
  return attempt.output
      ->WriteModel(kFinalAverageName, layout, arena.get(), untrained,
                   MetadataOf(options.job, untrained))
      .status();
}

// Writes the final model and returns its digest. After that, resuming treats
// the job as finished even if there is no checkpoint of its last step.
absl::StatusOr<std::string> WriteModel(const EndedAttempt& attempt) {
  const ServerOptions& options = *attempt.options;
  const Coordinator& coordinator = *attempt.coordinator;
  const AttemptFacts facts = coordinator.Facts();
  const ArenaLayout& layout = *facts.layout;
  BufferPool arenas(layout.arena_elements());
  const Buffer arena = arenas.Take();
  FinalModelSources sources;
  sources.version = facts.final_version;
  sources.complete_checkpoint = facts.complete_checkpoint;
  sources.engine = attempt.local->engine();
  sources.addresses = facts.server_addresses;
  sources.network = attempt.network;
  if (ResolveExchange(options.job).servers_hold_replicas) {
    sources.copies = [&](int shard, int holder, Snapshot* snapshot) {
      return attempt.local->replicator().ReadCopies(
          shard, sources.version, holder, sources.addresses[holder],
          {snapshot, /*tables=*/{}});
    };
  }
  const absl::Status read = ReadFinalModel(sources, options, layout, arena);
  // Servers that joined a newer attempt return its weights, so check the
  // attempt after reading.
  const absl::Status current = attempt.output->CheckAttempt(attempt.number);
  if (absl::IsFailedPrecondition(current)) return current;
  TRIBUTARY_RETURN_IF_ERROR(read);
  if (const auto& data = facts.data) {
    TRIBUTARY_RETURN_IF_ERROR(attempt.output->WriteEncoding(*data));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const Untrained untrained,
                             UntrainedOf(attempt, facts));
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::string digest,
      attempt.output->WriteModel(kFinalModelName, layout, arena.get(),
                                 untrained.tensors,
                                 MetadataOf(options.job, untrained.tensors)));
  // Before the manifest, which marks the job as finished.
  if (options.job.optimizer().average_decay() > 0) {
    TRIBUTARY_RETURN_IF_ERROR(
        WriteAverage(attempt, sources, untrained.tensors, layout, arena));
  }
  const absl::StatusOr<std::vector<CheckpointFile>> rows =
      WriteFinalRows(sources, options);
  if (!rows.ok()) {
    options.log->Warning(
        "the folder final has no rows of tables, which are in checkpoints "
        "only: %s",
        std::string(rows.status().message()));
  }
  const absl::Status described = WriteFinalManifest(
      FinalFolder(options.output_directory), coordinator.FinalManifest(),
      rows.value_or(std::vector<CheckpointFile>()), options.files);
  if (!described.ok()) {
    options.log->Warning("the final model has no manifest: %s",
                         std::string(described.message()));
  }
  return digest;
}

}  // namespace

absl::Status StoppedAt(int64_t checkpoint_step) {
  return absl::CancelledError(
      checkpoint_step < 0
          ? std::string("stopped by request")
          : absl::StrCat("stopped by request at step ", checkpoint_step,
                         "; --resume auto resumes from there"));
}

absl::Status Conclude(bool trained, bool begun, const EndedAttempt& attempt) {
  Coordinator* const coordinator = attempt.coordinator;
  absl::Status status = coordinator->status();
  std::string digest;
  if (status.ok() && trained) {
    absl::StatusOr<std::string> written = WriteModel(attempt);
    status = written.status();
    if (written.ok()) {
      digest = *std::move(written);
    } else if (absl::IsFailedPrecondition(
                   attempt.output->CheckAttempt(attempt.number))) {
      coordinator->Overtaken(status);
      return status;
    } else {
      coordinator->Fail(status);
    }
  }
  coordinator->FinishServers();
  ServerReport farewell;
  *farewell.mutable_farewell()->mutable_statistics() =
      attempt.local->Statistics();
  (void)coordinator->OnServerReport(0, farewell);
  coordinator->ServerGone(0);
  if (!coordinator->AwaitServersGone(DrainTimeout(*attempt.shutdown))) {
    attempt.options->log->Warning("some servers did not disconnect in time");
  }
  // When summary.json exists, metrics.jsonl must be complete.
  attempt.metrics->Flush();
  if (!begun) return status;
  const absl::Status written =
      attempt.output->WriteSummary(coordinator->Summary(digest));
  return status.ok() ? written : status;
}

}  // namespace tributary
