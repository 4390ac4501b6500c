#include "worker/process/all_reduce_part.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/status_macros.h"
#include "common/job/rounds.h"
#include "common/os/local_host.h"
#include "common/parameters/reduction_tree.h"
#include "common/parameters/snapshot.h"
#include "common/stream/replica_stream.h"
#include "worker/exchange/all_reduce/all_reduce_exchange.h"
#include "worker/exchange/all_reduce/chunk_routes.h"
#include "worker/exchange/device_sums.h"
#include "worker/exchange/mesh/device_mesh.h"
#include "worker/exchange/mesh/gloo_mesh.h"
#include "worker/exchange/mesh/nccl_mesh.h"
#include "worker/exchange/worker_chunks.h"
#include "worker/models/stages/stage_split.h"
#include "worker/process/first_state.h"
#include "worker/process/stage_chunks.h"
#include "worker/process/worker_exchange.h"
#include "worker/process/worker_network.h"
#include "worker/training/threads/compute_thread_items.h"

namespace tributary {
namespace {

// CUDA streams of a compute thread: for its operations, for inputs, and for
// weights to and gradients from the device.
constexpr int kStreamsPerThread = 4;
// The ReductionStream of the exchange.
constexpr int kExchangeStreams = 1;

// Sends this member's part of the state to the server, and reports each version
// of which all chunks are stored. Thread-safe.
class StateSaver {
 public:
  StateSaver(size_t chunks, std::function<void(int64_t)> saved)
      : chunks_(chunks), saved_(std::move(saved)) {}
  ~StateSaver() { stream_->End(); }

  // Must be called once, before Save.
  void SetStream(std::unique_ptr<ReplicaStream> stream) {
    stream_ = std::move(stream);
  }
  void Save(int64_t version, const Snapshot::Chunk& chunk) {
    stream_->Send(version, chunk, [this, version] { OnKept(version); });
  }

 private:
  void OnKept(int64_t version) {
    {
      absl::MutexLock lock(&mu_);
      if (++kept_[version] < chunks_) return;
      kept_.erase(version);
    }
    saved_(version);
  }

  const size_t chunks_;
  const std::function<void(int64_t)> saved_;
  std::unique_ptr<ReplicaStream> stream_;
  absl::Mutex mu_;
  // Number of stored chunks, by version.
  std::map<int64_t, size_t> kept_ ABSL_GUARDED_BY(mu_);
};

absl::StatusOr<std::unique_ptr<PeerMesh>> ConnectOverNetwork(
    const WorkerOptions& options, const Admission& admission,
    const Group& group, MembershipClient* membership) {
  GlooMeshOptions mesh;
  mesh.rank = group.member();
  mesh.size = group.leaf_begin_size();
  // If a member is lost, the coordinator ends the attempt when the lease has
  // expired. The wait for the member must not end before that.
  mesh.connect_timeout = std::max(mesh.connect_timeout,
                                  2 * absl::Milliseconds(admission.lease_ms()));
  mesh.host = options.host;
  if (mesh.host.empty()) {
    TRIBUTARY_ASSIGN_OR_RETURN(mesh.host,
                               LocalHostTowards(options.coordinator));
  }
  if (options.security.any() && !options.insecure_network &&
      !IsLoopback(mesh.host)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "exchange.all_reduce sends gradients from ", mesh.host,
        " without encryption or authentication, but this job uses "
        "certificates or a token: use exchange.parameter_server, or pass "
        "--insecure-network if the network is trusted"));
  }
  mesh.publish = [membership](const std::string& name,
                              const std::string& bytes) {
    Publish(name, bytes, membership);
    return absl::OkStatus();
  };
  mesh.find = [membership](const std::string& name) {
    return membership->AwaitPublication(name);
  };
  return options.network->ConnectToMembers(mesh);
}

// Makes the compute threads allocate the sums of these micro-batches. Returns
// the number of arenas that they use in two consecutive steps, which overlap.
int PrepareThreads(const LeafRange& range, TrainingSetup* setup) {
  std::vector<int64_t> micro_batches(range.end - range.begin);
  std::iota(micro_batches.begin(), micro_batches.end(), range.begin);
  const ComputeThreadItems items(micro_batches, setup->threads(),
                                 ComputeThreadItems::Schedule::kStatic);
  const int leaves = static_cast<int>(setup->job().batch().micro_batches());
  size_t arenas = 0;
  for (int thread = 0; thread < items.threads(); ++thread) {
    const std::vector<int64_t> assigned = items.AssignedTo(thread);
    DeviceSums* const sums = setup->sums(thread);
    if (sums != nullptr) sums->Begin(assigned);
    arenas += 2 * MaximalSubtreesOf(assigned, leaves).size();
  }
  return static_cast<int>(arenas);
}

// Begins the exchange: in the GPU's memory if the group uses NCCL, otherwise in
// host memory. `mesh` connects the members over the network.
absl::StatusOr<std::unique_ptr<AllReduceExchange>> BeginExchange(
    const WorkerOptions& options, NcclLibrary* library,
    AllReduceExchange::Options exchange, const Group& group,
    std::unique_ptr<PeerMesh> mesh, TrainingSetup* setup, WorkState* state) {
  const ArenaLayout* const layout = &setup->layout();
  if (!group.nccl()) {
    return AllReduceExchange::Create(exchange, layout, state, std::move(mesh));
  }
  if (library == nullptr) {
    return absl::InternalError(
        "the all-reduce group uses NCCL, which this worker has not loaded");
  }
  Device* const device = setup->device(/*thread=*/0);
  TRIBUTARY_ASSIGN_OR_RETURN(
      const ReductionStream::Plan plan,
      AllReduceExchange::PlanFor(exchange.job, layout, mesh->rank(),
                                 mesh->size()));
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::unique_ptr<ReductionStream> stream,
      options.make_reduction_stream(device->bus_id(), plan));
  NcclMeshOptions nccl;
  nccl.library = library;
  nccl.device = device;
  nccl.other_streams = kStreamsPerThread * setup->threads() + kExchangeStreams;
  // Once the GPU exchanges chunks, an allocation could wait for other members.
  exchange.arenas = PrepareThreads(exchange.assignments[mesh->rank()], setup);
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<DeviceMesh> device_mesh,
                             ConnectNcclMesh(nccl, std::move(mesh)));
  return AllReduceExchange::CreateOnDevice(
      exchange, layout, state, std::move(device_mesh), std::move(stream));
}

// Returns the micro-batches of each member.
std::vector<LeafRange> AssignmentsOf(const Group& group, int micro_batches) {
  const int members = group.leaf_begin_size();
  std::vector<LeafRange> ranges(members);
  int end = micro_batches;
  for (int i = members - 1; i >= 0; --i) {
    // The members of a replica of a pipeline have the same micro-batches.
    if (i + 1 < members && group.leaf_begin(i) != group.leaf_begin(i + 1)) {
      end = group.leaf_begin(i + 1);
    }
    ranges[i] = {group.leaf_begin(i), end};
  }
  return ranges;
}

// Returns the chunks of each member of a pipeline.
absl::StatusOr<std::vector<WorkerChunks>> ChunksOf(const Group& group,
                                                   const StageSplit& split) {
  const int members = group.leaf_begin_size();
  const int stages = static_cast<int>(split.stages.size());
  std::vector<WorkerChunks> chunks;
  for (int i = 0; i < members && i < group.stage_begin_size(); ++i) {
    const int begin = group.stage_begin(i);
    const bool ends = i + 1 == members ||
                      group.leaf_begin(i) != group.leaf_begin(i + 1) ||
                      i + 1 == group.stage_begin_size();
    const int end = ends ? stages : group.stage_begin(i + 1);
    if (begin < 0 || begin >= end || end > stages) break;
    chunks.push_back(StageChunks(split, begin, end));
  }
  if (static_cast<int>(chunks.size()) == members) return chunks;
  return absl::InvalidArgumentError(
      absl::StrCat("the coordinator's Group does not divide ", stages,
                   " stages among ", members, " members"));
}

void SendSaved(int64_t version, bool passed, MembershipClient* membership) {
  WorkerReport report;
  report.mutable_saved()->set_version(version);
  report.mutable_saved()->set_passed(passed);
  membership->Send(report);
}

std::shared_ptr<StateSaver> OpenSaver(const WorkerOptions& options,
                                      const Admission& admission,
                                      const Open& open, size_t chunks,
                                      MembershipClient* membership,
                                      WorkState* state) {
  auto saver =
      std::make_shared<StateSaver>(chunks, [membership](int64_t version) {
        SendSaved(version, /*passed=*/false, membership);
      });
  JournalHello hello;
  *hello.mutable_scope() = open.scope();
  hello.set_attempt(admission.attempt());
  saver->SetStream(options.network->OpenReplicaStream(
      options.coordinator, hello,
      [state](const absl::Status& status) { state->Fail(status); }));
  return saver;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Exchange>> JoinAllReduce(
    const WorkerOptions& options, const Admission& admission, const Open& open,
    NcclLibrary* nccl, TrainingSetup* setup, TraceRecorder* trace,
    const StagePart* stages, MembershipClient* membership, WorkState* state) {
  const ArenaLayout& layout = setup->layout();
  ChunkRanges read;
  int64_t generation = 0;
  if (stages != nullptr) {
    read = StageChunks(*stages->split, stages->begin_stage, stages->end_stage)
               .read;
    generation = stages->generation;
  }
  AllReduceExchange::Options exchange;
  exchange.job = setup->job();
  exchange.steps = setup->rounds().count();
  exchange.first_step = open.version();
  exchange.attempt = admission.attempt();
  exchange.pin = setup->pin();
  exchange.trace = trace;
  exchange.rule = RuleOf(options);
  if (KeepsEvaluatedVersions(setup->job()) &&
      setup->facts().evaluation_pieces() > 0) {
    exchange.keep_every =
        setup->rounds().RoundsFor(setup->job().evaluation().every_steps());
  }
  bool late = false;
  if (open.version() == 0) {
    TRIBUTARY_RETURN_IF_ERROR(MakeFirst(*setup, read, state));
  } else {
    absl::StatusOr<Snapshot> first =
        ReadFirst(options, open, *setup, read, state);
    // The server removes the version when the members of the group have saved
    // newer ones. The worker has then joined too late for this attempt, and
    // waits for the next one like other workers without micro-batches.
    late = absl::IsNotFound(first.status());
    if (!late) {
      TRIBUTARY_RETURN_IF_ERROR(first.status());
      exchange.first = *std::move(first);
    }
  }
  WorkerReport synced;
  synced.mutable_synced()->set_version(open.version());
  synced.mutable_synced()->set_stage_generation(generation);
  membership->Send(synced);
  TRIBUTARY_ASSIGN_OR_RETURN(const Group group,
                             membership->AwaitGroup(generation));
  if (late) {
    return absl::UnavailableError(
        absl::StrCat("the coordinator has lost the state of version ",
                     open.version(), ", which the all-reduce begins with"));
  }
  const int micro_batches =
      static_cast<int>(setup->job().batch().micro_batches());
  exchange.assignments = AssignmentsOf(group, micro_batches);
  if (group.member() < 0 || group.member() >= group.leaf_begin_size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the coordinator's Group has no member ", group.member()));
  }
  if (stages != nullptr) {
    TRIBUTARY_ASSIGN_OR_RETURN(exchange.chunks,
                               ChunksOf(group, *stages->split));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      const ChunkRoutes routes,
      ChunkRoutes::Create(layout.chunk_count(), micro_batches,
                          exchange.assignments, exchange.chunks));
  if (open.version() == 0) {
    TRIBUTARY_RETURN_IF_ERROR(CompareFirst(state->Weights(/*version=*/0),
                                           group.member(), routes, layout,
                                           membership));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      std::unique_ptr<PeerMesh> mesh,
      ConnectOverNetwork(options, admission, group, membership));
  exchange.on_sums = [membership](const StepSums& sums) {
    WorkerReport report;
    *report.mutable_sums() = sums;
    membership->Send(report);
  };
  const size_t chunks = routes.OwnedBy(mesh->rank()).size();
  exchange.save =
      [saver = OpenSaver(options, admission, open, chunks, membership, state)](
          int64_t version, const Snapshot::Chunk& chunk) {
        saver->Save(version, chunk);
      };
  TRIBUTARY_ASSIGN_OR_RETURN(std::unique_ptr<AllReduceExchange> joined,
                             BeginExchange(options, nccl, exchange, group,
                                           std::move(mesh), setup, state));
  membership->SetSave([exchange = joined.get(), membership](int64_t version) {
    if (!exchange->SaveAt(version)) {
      SendSaved(version, /*passed=*/true, membership);
    }
  });
  // The server already holds the version that it provided.
  if (open.version() > 0 || chunks == 0) {
    SendSaved(chunks == 0 ? exchange.steps : open.version(), /*passed=*/false,
              membership);
  }
  return joined;
}

}  // namespace tributary
