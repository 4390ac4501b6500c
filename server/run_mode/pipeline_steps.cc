#include "server/run_mode/pipeline_steps.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/parameters/arena_layout.h"
#include "server/run_mode/stage_choice.h"
#include "server/run_mode/stage_costs.h"

namespace tributary {
namespace {

bool SameSegments(const Ready& a, const Ready& b) {
  return std::equal(a.segment().begin(), a.segment().end(), b.segment().begin(),
                    b.segment().end(),
                    [](const StageSegment& x, const StageSegment& y) {
                      return x.parameters().SerializeAsString() ==
                             y.parameters().SerializeAsString();
                    });
}

bool SameStages(const StageMap& a, const StageMap& b) {
  return std::equal(a.stages().begin(), a.stages().end(), b.stages().begin(),
                    b.stages().end(),
                    [](const StageParameters& x, const StageParameters& y) {
                      return x.SerializeAsString() == y.SerializeAsString();
                    });
}

// Returns what a worker has said about its segments and its memory.
Ready WithoutModel(const Ready& ready) {
  Ready report;
  *report.mutable_segment() = ready.segment();
  report.set_memory_bytes(ready.memory_bytes());
  report.set_memory_pool(ready.memory_pool());
  return report;
}

}  // namespace

PipelineSteps::PipelineSteps(const JobSpec& job, int stages,
                             Membership* membership, ServerRoster* servers)
    : RunMode(job, membership, servers),
      assignment_(stages, static_cast<int>(job.batch().micro_batches())) {}

absl::Status PipelineSteps::OnReady(int64_t worker, const Ready& ready) {
  TRIBUTARY_RETURN_IF_ERROR(CheckSegments(job().parallel().pipeline(), ready));
  TRIBUTARY_ASSIGN_OR_RETURN(const StageMap segments, SegmentsOf(ready));
  if (!segments_.has_value() || SameStages(segments, *segments_)) {
    if (!map_.has_value()) reports_[worker] = WithoutModel(ready);
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the model has ", segments.layers(), " layers in ",
                   segments.stages().size(), " segments at the worker, ",
                   segments_->layers(), " in ", segments_->stages().size(),
                   " in the job: use the same release everywhere"));
}

absl::StatusOr<StageMap> PipelineSteps::SegmentsOf(const Ready& ready) const {
  TRIBUTARY_ASSIGN_OR_RETURN(const ArenaLayout layout,
                             ArenaLayout::Create(ready.table()));
  StageMap::Stages segments;
  for (const StageSegment& segment : ready.segment()) {
    *segments.Add() = segment.parameters();
  }
  return StageMap::Create(segments, layout.chunk_count());
}

void PipelineSteps::Begin(int64_t version, const Ready& ready) {
  segments_ = *SegmentsOf(ready);
  job_report_ = WithoutModel(ready);
  next_step_ = version;
  initialized_ = version > 0;
}

absl::StatusOr<std::vector<std::string>> PipelineSteps::ChooseStages() {
  const std::vector<Member*> members = OpenedMembers();
  std::vector<StageWorker> workers;
  for (const Member* const member : members) {
    StageWorker worker;
    worker.name =
        absl::StrCat("worker ", member->rank, " (", member->host,
                     member->device.empty() ? "" : ", ", member->device, ")");
    const auto report = reports_.find(member->incarnation);
    if (report != reports_.end() && SameSegments(report->second, job_report_)) {
      worker.report = &report->second;
    }
    workers.push_back(std::move(worker));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      const StageChoice choice,
      tributary::ChooseStages(job().parallel().pipeline(), assignment_,
                              *segments_, job_report_, workers));
  for (size_t place = 0; place < choice.order.size(); ++place) {
    places_[members[choice.order[place]]->incarnation] = place;
  }
  map_ = choice.stages;
  reports_.clear();
  job_report_.Clear();
  return choice.table;
}

std::vector<Member*> PipelineSteps::OpenedMembers() const {
  std::vector<Member*> members;
  for (const auto& [incarnation, listed] : membership().members()) {
    if (listed.opened) members.push_back(membership().Find(incarnation));
  }
  const auto key = [this](const Member* member) {
    const auto place = places_.find(member->incarnation);
    return std::make_pair(
        place == places_.end() ? places_.size() : place->second, member->rank);
  };
  std::sort(
      members.begin(), members.end(),
      [&key](const Member* a, const Member* b) { return key(a) < key(b); });
  return members;
}

PipelineSteps::Lineup PipelineSteps::LineUp() const {
  Lineup lineup;
  lineup.members = OpenedMembers();
  for (const Member* const member : lineup.members) {
    const auto worker = workers_.find(member->incarnation);
    const bool known = worker != workers_.end();
    lineup.shares.push_back(known ? worker->second.share : StageShare());
    lineup.synced.push_back(known && worker->second.synced);
  }
  for (const StageShare& share : lineup.shares) {
    if (share.spare() || lineup.complete.count(share.replica) > 0) continue;
    std::vector<size_t> workers =
        assignment_.Complete(share.replica, lineup.shares, lineup.synced);
    if (!workers.empty()) {
      lineup.complete[share.replica] = std::move(workers);
    }
  }
  return lineup;
}

bool PipelineSteps::MayChange(const Lineup& present,
                              const std::vector<StageShare>& target, size_t i) {
  const int replica = present.shares[i].replica;
  // A spare disturbs nobody, and a replica that is incomplete, or that is given
  // up, loses nothing.
  if (present.shares[i].spare() || target[i].replica != replica ||
      present.complete.count(replica) == 0) {
    return true;
  }
  for (size_t j = 0; j < target.size(); ++j) {
    if (target[j].replica != replica) continue;
    const bool waits = present.shares[j] == target[j] && !present.synced[j];
    if (waits || present.shares[j].replica != replica) return false;
  }
  return true;
}

CoordinatorOrder PipelineSteps::StageOrder(const StageShare& share) {
  CoordinatorOrder order;
  Stage* const stage = order.mutable_stage();
  stage->set_generation(++stage_generation_);
  *stage->mutable_stage() = map_->stages();
  if (share.spare()) return order;
  stage->set_stage_begin(share.stages.begin);
  stage->set_stage_end(share.stages.end);
  stage->set_initialize(!initialized_ && !workers_load_state());
  return order;
}

std::map<int64_t, std::vector<CoordinatorOrder>> PipelineSteps::OrderStages(
    absl::Time now) {
  std::map<int64_t, std::vector<CoordinatorOrder>> orders;
  if (!map_.has_value()) return orders;
  const Lineup lineup = LineUp();
  const std::vector<StageShare> target = assignment_.Place(lineup.shares);
  for (size_t i = 0; i < target.size(); ++i) {
    Member* const member = lineup.members[i];
    Worker& worker = workers_[member->incarnation];
    // A spare has all that it needs.
    if (target[i].spare() && worker.share.spare()) member->synced = true;
    if (target[i] == worker.share || !MayChange(lineup, target, i)) continue;
    const bool same_stages = target[i].stages == worker.share.stages;
    worker.share = target[i];
    if (same_stages) continue;
    const CoordinatorOrder order = StageOrder(target[i]);
    worker.generation = order.stage().generation();
    worker.synced = false;
    worker.deal.reset();
    member->synced = target[i].spare();
    member->opened_since = target[i].spare() ? absl::InfiniteFuture() : now;
    // What it has measured holds for the former stages.
    member->speed = WorkerSpeed();
    orders[member->incarnation].push_back(order);
  }
  return orders;
}

bool PipelineSteps::OnSynced(const Member& worker, const Synced& synced) {
  const auto found = workers_.find(worker.incarnation);
  if (found == workers_.end() || found->second.share.spare() ||
      found->second.generation != synced.stage_generation()) {
    return false;
  }
  found->second.synced = true;
  // Then the servers have all of the weights.
  if (!initialized_) initialized_ = !LineUp().complete.empty();
  return true;
}

StepCosts PipelineSteps::CostsOf(const Lineup& lineup, absl::Time now) const {
  std::vector<WorkerPace> paces;
  std::vector<double> measured;
  for (size_t i = 0; i < lineup.members.size(); ++i) {
    WorkerPace pace;
    pace.threads = lineup.members[i]->speed.threads();
    pace.micro_batch_seconds = 0;
    const auto seconds = lineup.members[i]->speed.micro_batch_seconds(now);
    if (seconds.has_value() && !lineup.shares[i].spare()) {
      pace.micro_batch_seconds = *seconds / lineup.shares[i].stages.size();
      measured.push_back(pace.micro_batch_seconds);
    }
    paces.push_back(pace);
  }
  std::sort(measured.begin(), measured.end());
  const double median = measured.empty() ? 1 : measured[measured.size() / 2];
  for (WorkerPace& pace : paces) {
    if (pace.micro_batch_seconds <= 0) pace.micro_batch_seconds = median;
  }
  StepCosts costs;
  for (const auto& [replica, workers] : lineup.complete) {
    costs.workers.push_back(
        StageAssignment::PaceOf(workers, lineup.shares, paces));
  }
  return costs;
}

std::map<int64_t, Deal> PipelineSteps::DealsFor(const Lineup& lineup,
                                                int64_t pieces,
                                                absl::Time now) const {
  std::map<int64_t, Deal> deals;
  for (size_t i = 0; i < lineup.members.size(); ++i) {
    if (!lineup.synced[i]) continue;
    // Workers of incomplete replicas compute nothing.
    Deal& deal = deals[lineup.members[i]->incarnation];
    deal.set_stage_begin(lineup.shares[i].stages.end);
    deal.set_stage_end(lineup.shares[i].stages.end);
  }
  const StepCosts costs = CostsOf(lineup, now);
  const Assignment leaves =
      ChooseAssignment(assignment_.micro_batches(), costs);
  const Assignment piece_counts = ChooseAssignment(pieces, costs);
  int leaf = 0;
  int64_t piece = 0;
  size_t place = 0;
  for (const auto& [replica, workers] : lineup.complete) {
    Deal replica_deal;
    replica_deal.set_leaf_begin(leaf);
    replica_deal.set_leaf_end(leaf += static_cast<int>(leaves[place]));
    replica_deal.set_piece_begin(piece);
    replica_deal.set_piece_end(piece += piece_counts[place]);
    ++place;
    for (const size_t i : workers) {
      const Member& member = *lineup.members[i];
      const StageRange& stages = lineup.shares[i].stages;
      Deal& deal = deals[member.incarnation];
      deal = replica_deal;
      deal.set_stage_begin(stages.begin);
      deal.set_stage_end(stages.end);
      const ChunkRange contributed = map_->Contributed(stages);
      deal.set_chunk_begin(contributed.begin());
      deal.set_chunk_end(contributed.end());
      for (const size_t j : workers) {
        if (j == i) continue;
        const Member& other = *lineup.members[j];
        StagePeer* const peer = deal.add_peer();
        peer->set_incarnation(other.incarnation);
        peer->set_stage_begin(lineup.shares[j].stages.begin);
        peer->set_stage_end(lineup.shares[j].stages.end);
        peer->set_leaf_begin(deal.leaf_begin());
        peer->set_leaf_end(deal.leaf_end());
        peer->set_stage_address(other.stage_address);
        *peer->mutable_local_stage_address() = other.local_stage_address;
      }
    }
  }
  return deals;
}

std::map<int64_t, std::vector<CoordinatorOrder>> PipelineSteps::Assign(
    int64_t pieces, absl::Time now) {
  auto orders = OrderStages(now);
  const Lineup lineup = LineUp();
  const std::map<int64_t, Deal> deals = DealsFor(lineup, pieces, now);
  bool changed = false;
  for (const auto& [incarnation, deal] : deals) {
    const std::optional<Deal>& last = workers_[incarnation].deal;
    // A worker that never had a Deal waits for one anyway.
    const bool same =
        last.has_value() ? deal.SerializeAsString() == last->SerializeAsString()
                         : deal.stage_end() == deal.stage_begin();
    changed = changed || !same;
  }
  if (!changed) return orders;
  const int64_t generation = membership().NextGeneration();
  for (Member* const member : lineup.members) {
    const auto found = deals.find(member->incarnation);
    membership().Record(found == deals.end() ? Deal() : found->second, now,
                        member);
    if (found == deals.end()) continue;
    workers_[member->incarnation].deal = found->second;
    CoordinatorOrder order;
    *order.mutable_deal() = found->second;
    order.mutable_deal()->set_generation(generation);
    order.mutable_deal()->set_first_step(next_step_);
    orders[member->incarnation].push_back(std::move(order));
  }
  announces_step_ = true;
  return orders;
}

int PipelineSteps::Places() const {
  const std::vector<StageShare> target = assignment_.Place(LineUp().shares);
  return static_cast<int>(
      std::count_if(target.begin(), target.end(),
                    [](const StageShare& share) { return !share.spare(); }));
}

bool PipelineSteps::AssignmentIsSlow(absl::Time now) const {
  const Lineup lineup = LineUp();
  if (lineup.complete.size() < 2) return false;
  Assignment leaves;
  for (const auto& [replica, workers] : lineup.complete) {
    for (const size_t i : workers) {
      if (!lineup.members[i]->speed.fresh()) return false;
    }
    leaves.push_back(lineup.members[workers[0]]->micro_batches);
  }
  return IsSlowAssignment(leaves, CostsOf(lineup, now));
}

const Member* PipelineSteps::Awaited(int64_t step) const {
  // Complete replicas compute all micro-batches.
  if (!LineUp().complete.empty()) return membership().Straggler(step);
  for (const auto& [incarnation, worker] : workers_) {
    if (!worker.share.spare() && !worker.synced) {
      return membership().Find(incarnation);
    }
  }
  return nullptr;
}

void PipelineSteps::OnStepComplete(int64_t step) {
  next_step_ = std::max(next_step_, step + 1);
  if (!std::exchange(announces_step_, false)) return;
  CoordinatorOrder order;
  order.mutable_step_complete()->set_step(step);
  for (const auto& [incarnation, worker] : workers_) {
    const Member* const member = membership().Find(incarnation);
    if (member != nullptr && worker.deal.has_value()) member->link->Send(order);
  }
}

}  // namespace tributary
