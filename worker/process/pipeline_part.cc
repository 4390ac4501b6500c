#include "worker/process/pipeline_part.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/os/local_host.h"
#include "common/os/logger.h"
#include "common/os/process.h"
#include "common/os/shared_memory.h"
#include "worker/exchange/stages/network/stage_connection.h"
#include "worker/models/stages/stage_model.h"
#include "worker/nn/network_cuts.h"
#include "worker/process/all_reduce_part.h"
#include "worker/process/stage_chunks.h"
#include "worker/process/worker_exchange.h"
#include "worker/training/measured_stages.h"

namespace tributary {
namespace {

constexpr int64_t kLastStep = std::numeric_limits<int64_t>::max();

// Marks the status with which a WorkState fails when a new Stage order arrives.
constexpr char kRestaged[] = "tributary/restaged";

absl::Status Restaged() {
  absl::Status status = absl::AbortedError("the worker gets other stages");
  status.SetPayload(kRestaged, absl::Cord());
  return status;
}

// The routes of all transfers, which are the same for all workers.
absl::StatusOr<TransferPlan> PlanTransfers(const TrainingSetup& setup,
                                           const Graph& graph,
                                           const StageSplit& split) {
  const int stages = static_cast<int>(split.stages.size());
  const int64_t sample_bytes =
      setup.max_samples() * setup.device(/*thread=*/0)->real_bytes();
  std::vector<TransferRoute> routes;
  for (int boundary = 0; boundary + 1 < stages; ++boundary) {
    int64_t bytes = 0;
    for (const ValueId value :
         CrossingValues(graph, split.stages[boundary].end)) {
      bytes += graph.values()[value] * sample_bytes;
    }
    for (const StageTransfer::Kind kind :
         {StageTransfer::ACTIVATION, StageTransfer::ACTIVATION_GRADIENT,
          StageTransfer::EVALUATION}) {
      routes.push_back({boundary, kind, bytes, kStageQueueCapacity});
    }
  }
  for (size_t i = 0; i < split.parts.size(); ++i) {
    // Later stages compute weights later, so a part seldom waits for the stage
    // that completes it. It does with fewer micro-batches than stages; then all
    // parts of the step have a place.
    routes.push_back({static_cast<int32_t>(i), StageTransfer::WEIGHT_GRADIENT,
                      split.parts[i].bytes(), stages + 1});
    if (!setup.traits().local_sgd) continue;
    // The stage that sends them may be ahead by as many micro-batches.
    routes.push_back({static_cast<int32_t>(i), StageTransfer::LOCAL_WEIGHTS,
                      split.parts[i].bytes(), stages + 1});
  }
  return TransferPlan::Create(
      std::move(routes),
      setup.traits().steps_per_round * setup.job().batch().micro_batches());
}

// Identifies the memory that AvailableMemoryBytes counts.
std::string MemoryPool() {
  return absl::StrCat(HostIdentity(), " ", ControlGroups());
}

}  // namespace

int64_t ReadyMemoryBytes(std::optional<int64_t> available) {
  return available.has_value() ? std::max<int64_t>(1, *available) : 0;
}

PipelinePart::PipelinePart(const WorkerOptions& options,
                           const Admission& admission, TrainingSetup* setup,
                           MembershipClient* membership)
    : options_(options),
      admission_(admission),
      setup_(*setup),
      membership_(membership),
      schedule_(ScheduleOf(admission.job().parallel().pipeline())) {}

PipelinePart::~PipelinePart() {
  // The port must not deliver to peers that are gone.
  port_.reset();
}

absl::StatusOr<std::unique_ptr<PipelinePart>> PipelinePart::Create(
    const WorkerOptions& options, const Admission& admission,
    TrainingSetup* setup, MembershipClient* membership) {
  auto part = std::unique_ptr<PipelinePart>(
      new PipelinePart(options, admission, setup, membership));
  if (setup->device(/*thread=*/0)->has_own_memory()) {
    return absl::InvalidArgumentError(
        "parallel.pipeline computes on CPUs only; start the workers with "
        "--device cpu, or leave parallel.pipeline out");
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const Graph graph, setup->BuildGraph());
  TRIBUTARY_ASSIGN_OR_RETURN(
      part->segments_,
      DescribeSegments(*setup, graph,
                       admission.measures_layers() ? options.clock : nullptr));
  StageHost::Options host;
  std::string local = options.host;
  if (local.empty()) {
    TRIBUTARY_ASSIGN_OR_RETURN(local, LocalHostTowards(options.coordinator));
  }
  if (options.security.any() || options.insecure_network || IsLoopback(local)) {
    host.listen = absl::StrCat(local, ":0");
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        "parallel.pipeline sends activations from ", local,
        " without "
        "encryption or authentication: use certificates or a token, or pass "
        "--insecure-network if the network is trusted"));
  }
  host.security = options.security;
  host.log = options.log;
  TRIBUTARY_ASSIGN_OR_RETURN(part->port_,
                             options.network->AcceptTransfers(host));
  return part;
}

void PipelinePart::FillReady(Ready* ready) const {
  for (const StageSegment& segment : segments_) *ready->add_segment() = segment;
  ready->set_memory_bytes(ReadyMemoryBytes(AvailableMemoryBytes()));
  ready->set_memory_pool(MemoryPool());
  ready->set_stage_address(port_->address());
  *ready->mutable_local_stage_address() = port_->local_address();
}

absl::Status PipelinePart::Run(
    WorkerPart* part, const Open& open, const WorkState::Options& state_options,
    WorkState* waiting, const std::function<void(WorkState*)>& on_state) {
  int64_t generation = 0;
  while (true) {
    part->Beat("idle");
    TRIBUTARY_ASSIGN_OR_RETURN(const Stage stage,
                               membership_->AwaitStage(generation));
    generation = stage.generation();
    if (stage.stage_begin() == stage.stage_end()) {
      options_.log->Info("waits as a spare worker of the pipeline");
      continue;
    }
    const absl::Status status =
        Compute(stage, part, open, state_options, waiting, on_state);
    if (!status.GetPayload(kRestaged).has_value()) return status;
  }
}

absl::Status PipelinePart::Adopt(const std::vector<int>& cuts) {
  if (plan_ != nullptr) return absl::OkStatus();
  TRIBUTARY_ASSIGN_OR_RETURN(const Graph graph, setup_.BuildGraph());
  TRIBUTARY_ASSIGN_OR_RETURN(split_,
                             SplitIntoStages(graph, setup_.layout(), cuts));
  TRIBUTARY_ASSIGN_OR_RETURN(TransferPlan plan,
                             PlanTransfers(setup_, graph, split_));
  plan_ = std::make_unique<TransferPlan>(std::move(plan));
  PipelinePeers::Options peers;
  peers.job.id = admission_.job_id();
  peers.job.signature = setup_.layout().signature();
  peers.job.plan_signature = plan_->signature();
  peers.job.incarnation = admission_.incarnation();
  peers.job.attempt = admission_.attempt();
  peers.patience = 2 * absl::Milliseconds(admission_.lease_ms());
  peers.open =
      MakeStageOpener(plan_.get(), admission_.job().exchange().transport(),
                      [network = options_.network](
                          const std::string& address, absl::Time deadline,
                          const std::function<bool()>& stop) {
                        return network->ConnectToStage(address, deadline, stop);
                      });
  peers_ = std::make_unique<PipelinePeers>(plan_.get(), std::move(peers));
  port_->Serve(peers_->receiver());
  return absl::OkStatus();
}

absl::Status PipelinePart::Compute(
    const Stage& stage, WorkerPart* part, const Open& open,
    const WorkState::Options& state_options, WorkState* waiting,
    const std::function<void(WorkState*)>& on_state) {
  std::vector<int> cuts;
  for (int s = 1; s < stage.stage_size(); ++s) {
    cuts.push_back(stage.stage(s).layer_begin());
  }
  TRIBUTARY_RETURN_IF_ERROR(Adopt(cuts));
  StagePart computed;
  computed.generation = stage.generation();
  computed.begin_stage = stage.stage_begin();
  computed.end_stage = stage.stage_end();
  computed.schedule = schedule_;
  computed.split = &split_;
  computed.transfers = peers_.get();
  computed.place = [this](int64_t generation) { return PlaceIn(generation); };
  computed.on_deal = [this](const Deal& deal) { OnDeal(deal); };
  NetworkPart network;
  network.begin = split_.stages[computed.begin_stage].begin;
  network.end = split_.stages[computed.end_stage - 1].end;
  network.recompute = setup_.job().parallel().recompute();
  network.separate_weights = TraitsOf(schedule_).splits_backward;
  network.in_flight = SlotsOf(
      {static_cast<int>(split_.stages.size()), computed.begin_stage}, schedule_,
      static_cast<int>(setup_.job().batch().micro_batches()));
  TRIBUTARY_ASSIGN_OR_RETURN(Graph graph, setup_.BuildGraph());
  options_.log->Info("computes stages %d to %d of %d: layers %s to %s",
                     computed.begin_stage, computed.end_stage - 1,
                     split_.stages.size(), graph.nodes()[network.begin].name,
                     graph.nodes()[network.end - 1].name);
  TRIBUTARY_ASSIGN_OR_RETURN(
      const std::unique_ptr<StageModel> model,
      StageModel::Create(std::move(graph), setup_.data().info(),
                         setup_.max_samples(), setup_.device(/*thread=*/0),
                         network));
  computed.model = model.get();
  WorkState::Options options = state_options;
  options.chunks =
      StageChunks(split_, computed.begin_stage, computed.end_stage).read;
  const std::unique_ptr<WorkState> state =
      WorkState::Create(setup_.job(), options, &setup_.layout());
  membership_->Attach(state.get());
  on_state(state.get());
  const absl::Cleanup detach = [&] {
    membership_->SetDeal(nullptr);
    membership_->SetStageOrdered(0, nullptr);
    membership_->SetStepComplete(nullptr);
    state->SetOver(nullptr);
    membership_->Attach(waiting);
    on_state(waiting);
  };
  // What waits for transfers, or to send them, goes on.
  state->SetOver([this] { peers_->EndStep(kLastStep); });
  membership_->SetStepComplete([this](int64_t step) { peers_->EndStep(step); });
  membership_->SetStageOrdered(stage.generation(),
                               [&] { state->Fail(Restaged()); });
  if (stage.initialize()) state->RequestInitialize();
  absl::StatusOr<std::unique_ptr<Exchange>> exchange =
      Connect(computed, part, open, state.get());
  if (!exchange.ok()) {
    // Tells whether other stages were ordered meanwhile.
    return state->status().ok() ? exchange.status() : state->status();
  }
  return part->Train(state.get(), exchange->get(), {&computed});
}

absl::StatusOr<std::unique_ptr<Exchange>> PipelinePart::Connect(
    const StagePart& stages, WorkerPart* part, const Open& open,
    WorkState* state) {
  if (!setup_.traits().workers_exchange_directly) {
    return ConnectToServers(
        options_, admission_, setup_, part->recorder(), state,
        StageChunks(split_, stages.begin_stage, stages.end_stage));
  }
  // The only assignment of an all-reduce arrives before WorkerPart::Train.
  membership_->SetDeal([this, part](const Deal& deal) {
    part->NoteAssignment(deal);
    OnDeal(deal);
  });
  return JoinAllReduce(options_, admission_, open, /*nccl=*/nullptr, &setup_,
                       part->recorder(), &stages, membership_, state);
}

void PipelinePart::OnDeal(const Deal& deal) {
  std::vector<PipelinePeer> peers;
  PipelinePlace place;
  place.workers = 1 + deal.peer_size();
  PipelinePeer self;
  self.incarnation = admission_.incarnation();
  self.stage_begin = deal.stage_begin();
  self.stage_end = deal.stage_end();
  peers.push_back(self);
  for (const StagePeer& peer : deal.peer()) {
    if (peer.stage_begin() < deal.stage_begin()) ++place.worker;
    peers.push_back({peer.incarnation(), peer.stage_begin(), peer.stage_end(),
                     peer.stage_address(), peer.local_stage_address().host(),
                     peer.local_stage_address().address(), peer.secret()});
  }
  {
    absl::MutexLock lock(&mu_);
    places_.clear();
    places_[deal.generation()] = place;
  }
  peers_->BeginEpoch(deal.generation(), deal.first_step(), peers);
}

PipelinePlace PipelinePart::PlaceIn(int64_t generation) const {
  absl::MutexLock lock(&mu_);
  const auto found = places_.find(generation);
  // A task of an older assignment, which is given up at its first transfer.
  return found == places_.end() ? PipelinePlace() : found->second;
}

}  // namespace tributary
