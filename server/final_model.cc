#include "server/final_model.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/monotonic_clock.h"
#include "common/status_macros.h"
#include "common/transport/channel.h"
#include "common/transport/chunk_codec.h"
#include "grpcpp/grpcpp.h"
#include "proto/parameter_server.grpc.pb.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/shard_files.h"

namespace tributary {
namespace {

constexpr absl::Duration kReadWeightsTimeout = absl::Minutes(10);
// For the last updates, which have all they need.
constexpr absl::Duration kUpdateTimeout = absl::Seconds(5);
constexpr absl::Duration kPoll = absl::Milliseconds(100);

// Reads a remote server's `chunks` chunks at `version` into the arena.
absl::Status ReadRemote(const std::string& address, const Security& security,
                        int64_t version, const ArenaLayout& layout,
                        size_t chunks, float* arena) {
  std::unique_ptr<ParameterServer::Stub> stub =
      ParameterServer::NewStub(CreateChannel(address, security));
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kReadWeightsTimeout));
  ReadWeightsRequest request;
  request.set_version(version);
  std::unique_ptr<grpc::ClientReader<ServerMessage>> reader =
      stub->ReadWeights(&context, request);
  ServerMessage message;
  size_t read = 0;
  for (; reader->Read(&message); ++read) {
    const Weights& weights = message.weights();
    if (weights.chunk() < 0 || weights.chunk() >= layout.chunk_count() ||
        weights.payload().size() !=
            layout.ChunkSize(weights.chunk()) * sizeof(float)) {
      return absl::DataLossError(
          absl::StrCat(address, ": chunk ", weights.chunk(), " of ",
                       weights.payload().size(), " bytes does not fit"));
    }
    std::copy_n(
        weights.payload().data(), weights.payload().size(),
        reinterpret_cast<char*>(arena + layout.ChunkBegin(weights.chunk())));
  }
  TRIBUTARY_RETURN_IF_ERROR(FromGrpc(reader->Finish(), address));
  if (read == chunks) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(address, " sent ", read, " of its ", chunks, " chunks"));
}

// The whole model at `version`, from this server and the others.
absl::Status ReadModel(ParameterStore* store, int64_t version,
                       const std::vector<std::string>& addresses,
                       const Security& security, float* arena) {
  for (const int chunk : store->chunk_numbers()) {
    TRIBUTARY_ASSIGN_OR_RETURN(const WeightsVersion weights,
                               store->Read(chunk, version));
    std::memcpy(arena + store->layout().ChunkBegin(chunk), weights.values.data,
                weights.values.bytes);
  }
  for (size_t shard = 1; shard < addresses.size(); ++shard) {
    const ArenaLayout& layout = store->layout();
    TRIBUTARY_RETURN_IF_ERROR(
        ReadRemote(addresses[shard], security, version, layout,
                   layout.ChunksOf(shard, addresses.size()).size(), arena));
  }
  return absl::OkStatus();
}

// ReadModel, once the servers have applied the last step. Every worker that
// says farewell has seen that; without one (the last was lost after its last
// push) it is a matter of milliseconds.
absl::Status AwaitModel(ParameterStore* store, int64_t version,
                        const std::vector<std::string>& addresses,
                        const Security& security, float* arena) {
  const absl::Time deadline = MonotonicNow() + kUpdateTimeout;
  absl::Status status;
  do {
    status = ReadModel(store, version, addresses, security, arena);
    if (!absl::IsFailedPrecondition(status)) return status;
    absl::SleepFor(kPoll);
  } while (MonotonicNow() < deadline);
  return status;
}

// The same from the job's last checkpoint, when a server is gone that has the
// model.
absl::Status ReadSavedModel(const ServerOptions& options, int64_t version,
                            const ArenaLayout& layout, const Buffer& arena) {
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::vector<CheckpointName> checkpoints,
      ListCheckpoints(CheckpointsFolder(options.output_directory)));
  const std::string folder =
      checkpoints.empty() ? options.resume_from : checkpoints.front().path;
  TRIBUTARY_ASSIGN_OR_RETURN(CheckpointManifest manifest, ReadManifest(folder));
  if (manifest.version() != version) return absl::NotFoundError(folder);
  manifest.clear_state();
  Snapshot model;
  for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
    model.chunks.push_back(
        {chunk,
         Buffer(arena, arena.get() + layout.ChunkBegin(chunk)),
         {},
         layout.ChunkSize(chunk)});
  }
  return ReadShard(folder, manifest, layout, &model);
}

}  // namespace

absl::Status ReadFinalModel(const FinalModelSources& sources,
                            const ServerOptions& options,
                            const ArenaLayout& layout, const Buffer& arena) {
  const absl::Status read =
      sources.store == nullptr
          ? absl::UnavailableError("the model is in the checkpoint")
          : AwaitModel(sources.store, sources.version, sources.addresses,
                       options.security, arena.get());
  if (read.ok()) return read;
  const absl::Status saved =
      ReadSavedModel(options, sources.version, layout, arena);
  if (saved.ok()) {
    options.log->Info("the model is that of the last checkpoint: %s",
                      std::string(read.message()));
    return absl::OkStatus();
  }
  return sources.store == nullptr ? saved : read;
}

}  // namespace tributary
