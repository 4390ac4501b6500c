#include "server/membership/membership.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/parameters/reduction_tree.h"

namespace tributary {
namespace {

// Beyond that, a worker's earlier pieces are forgotten, the oldest first.
constexpr size_t kMostEarlierPieces = 64;

std::optional<double> Median(std::vector<double> values) {
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

std::string Member::Name() const {
  return absl::StrCat("worker ", rank, " (host ", host, ", process ", pid, ")");
}

bool Member::WasAssignedPiece(int64_t piece) const {
  const auto has = [piece](const Pieces& range) {
    return range.begin <= piece && piece < range.end;
  };
  return has(pieces) ||
         std::any_of(earlier_pieces.begin(), earlier_pieces.end(), has);
}

Membership::Membership(int micro_batches, absl::Duration lease)
    : micro_batches_(micro_batches), lease_(lease) {}

Membership::Admitted Membership::Add(const Join& join, absl::Time now) {
  Admitted admitted;
  // The lowest free rank is at most the number of members.
  std::vector<bool> taken(members_.size() + 1);
  for (const auto& [incarnation, member] : members_) {
    if (member.rank < static_cast<int>(taken.size())) taken[member.rank] = true;
    if (join.rank() >= 0 && member.rank == join.rank()) {
      admitted.fenced = member;
    }
  }
  if (admitted.fenced.has_value()) {
    members_.erase(admitted.fenced->incarnation);
  }
  int rank = join.rank();
  if (rank < 0) {
    rank = 0;
    while (taken[rank]) ++rank;
  }
  admitted.incarnation = next_incarnation_++;
  admitted.rank = rank;
  Member& member = members_[admitted.incarnation];
  member.incarnation = admitted.incarnation;
  member.rank = rank;
  member.ranked = join.rank() >= 0;
  member.host = join.host();
  member.pid = join.pid();
  member.release = join.release();
  member.last_heard = now;
  return admitted;
}

Member* Membership::Find(int64_t incarnation) {
  const auto found = members_.find(incarnation);
  return found == members_.end() ? nullptr : &found->second;
}

void Membership::Remove(int64_t incarnation) { members_.erase(incarnation); }

void Membership::Close(const absl::Status& status) const {
  for (const auto& [incarnation, member] : members_) {
    member.link->Close(status);
  }
}

std::vector<int64_t> Membership::Expired(absl::Time now) const {
  std::vector<int64_t> expired;
  for (const auto& [incarnation, member] : members_) {
    if (now - member.last_heard > lease_) expired.push_back(incarnation);
  }
  return expired;
}

void Membership::ShortenLease(absl::Duration lease) {
  lease_ = std::min(lease_, lease);
}

void Membership::Forgive(absl::Duration gap) {
  for (auto& [incarnation, member] : members_) member.last_heard += gap;
}

bool Membership::HasRank(int rank) const {
  return std::any_of(
      members_.begin(), members_.end(),
      [rank](const auto& entry) { return entry.second.rank == rank; });
}

int Membership::synced_count() const {
  return static_cast<int>(
      std::count_if(members_.begin(), members_.end(),
                    [](const auto& entry) { return entry.second.synced; }));
}

std::vector<const Member*> Membership::Active() const {
  std::vector<const Member*> active;
  for (const auto& [incarnation, member] : members_) {
    if (member.synced) active.push_back(&member);
  }
  std::sort(active.begin(), active.end(),
            [](const Member* a, const Member* b) { return a->rank < b->rank; });
  return active;
}

bool Membership::AllFresh() const {
  return std::all_of(members_.begin(), members_.end(), [](const auto& entry) {
    return entry.second.micro_batches == 0 || entry.second.speed.fresh();
  });
}

void Membership::AddHeartbeat(Member* member, const Heartbeat& heartbeat,
                              double waiting_seconds, absl::Time now) {
  if (heartbeat.statistics().leaves() >
      member->heartbeat.statistics().leaves()) {
    member->last_computed = now;
  }
  member->heartbeat = heartbeat;
  // Only the histogram in the Farewell is used. Without it, a status stays
  // small.
  member->heartbeat.mutable_statistics()->clear_chunk_latency();
  member->speed.Add(heartbeat.statistics(), waiting_seconds);
  if (++unseen_heartbeats_ * kLooksPerRound < count()) return;
  unseen_heartbeats_ = 0;
  if (!AllFresh()) return;
  std::vector<double> transfers;
  for (const auto& [incarnation, other] : members_) {
    if (other.micro_batches == 0) continue;
    // Its contributions are sent, and the weights are received once.
    transfers.push_back(other.speed.exchange_seconds() /
                        (other.contributions + 1));
  }
  const double transfer = Median(transfers).value_or(0);
  if (transfer < HalvedByAge(transfer_seconds_, now - transfer_measured_))
    return;
  transfer_seconds_ = transfer;
  transfer_measured_ = now;
}

StepCosts Membership::CostsOf(const std::vector<const Member*>& members,
                              absl::Time now) const {
  std::vector<double> measured;
  for (const Member* member : members) {
    const std::optional<double> seconds =
        member->speed.micro_batch_seconds(now);
    if (seconds.has_value()) measured.push_back(*seconds);
  }
  const double median = Median(measured).value_or(1);
  StepCosts costs;
  for (const Member* member : members) {
    costs.workers.push_back(
        {member->speed.micro_batch_seconds(now).value_or(median),
         member->speed.threads()});
  }
  costs.transfer_seconds =
      HalvedByAge(transfer_seconds_, now - transfer_measured_);
  return costs;
}

std::map<int64_t, Deal> Membership::AssignWork(int64_t pieces, absl::Time now,
                                               bool spares_rest) {
  std::vector<const Member*> active = Active();
  if (spares_rest && active.size() > static_cast<size_t>(micro_batches_)) {
    active.resize(micro_batches_);
  }
  StepCosts costs = CostsOf(active, now);
  const Assignment micro_batch_assignment =
      ChooseAssignment(micro_batches_, costs);
  costs.transfer_seconds = 0;  // Evaluation transfers almost nothing.
  const Assignment piece_assignment = ChooseAssignment(pieces, costs);
  const int64_t generation = NextGeneration();
  int micro_batch = 0;
  int64_t piece = 0;
  std::map<int64_t, Deal> assignments;
  for (size_t i = 0; i < active.size(); ++i) {
    Deal& assignment = assignments[active[i]->incarnation];
    assignment.set_generation(generation);
    assignment.set_leaf_begin(micro_batch);
    assignment.set_leaf_end(micro_batch +=
                            static_cast<int>(micro_batch_assignment[i]));
    assignment.set_piece_begin(piece);
    assignment.set_piece_end(piece += piece_assignment[i]);
    Record(assignment, now, &members_.at(active[i]->incarnation));
  }
  return assignments;
}

void Membership::Record(const Deal& deal, absl::Time now,
                        Member* member) const {
  const LeafRange leaves = {deal.leaf_begin(), deal.leaf_end()};
  member->first_micro_batch = leaves.begin;
  member->micro_batches = leaves.end - leaves.begin;
  member->contributions =
      static_cast<int>(MaximalSubtrees(leaves, micro_batches_).size());
  member->speed.Restart(/*has_micro_batches=*/member->micro_batches > 0, now);
  if (member->earlier_pieces.size() >= kMostEarlierPieces) {
    member->earlier_pieces.erase(member->earlier_pieces.begin());
  }
  member->earlier_pieces.push_back(member->pieces);
  member->pieces = {deal.piece_begin(), deal.piece_end()};
}

bool Membership::AssignmentIsSlow(absl::Time now) const {
  if (unseen_heartbeats_ > 0 || !AllFresh()) return false;
  const std::vector<const Member*> active = Active();
  Assignment assignment;
  for (const Member* member : active) {
    assignment.push_back(member->micro_batches);
  }
  return IsSlowAssignment(assignment, CostsOf(active, now));
}

absl::Time Membership::last_computed() const {
  absl::Time last = absl::InfinitePast();
  for (const auto& [incarnation, member] : members_) {
    last = std::max(last, member.last_computed);
  }
  return last;
}

const Member* Membership::LastInSteps() const {
  const Member* last = nullptr;
  int64_t most = 0;
  for (const Member* member : Active()) {
    if (member->micro_batches == 0) continue;
    const int64_t steps = member->heartbeat.statistics().steps();
    most = std::max(most, steps);
    if (last == nullptr || steps < last->heartbeat.statistics().steps()) {
      last = member;
    }
  }
  return last != nullptr && last->heartbeat.statistics().steps() < most
             ? last
             : nullptr;
}

const Member* Membership::WorkerOf(int micro_batch) const {
  for (const Member* member : Active()) {
    const int place = micro_batch - member->first_micro_batch;
    if (0 <= place && place < member->micro_batches) return member;
  }
  return nullptr;
}

const Member* Membership::WorkerOfPiece(int64_t piece) const {
  for (const Member* member : Active()) {
    if (member->pieces.begin <= piece && piece < member->pieces.end) {
      return member;
    }
  }
  return nullptr;
}

const Member* Membership::Straggler(int64_t step) const {
  const Member* straggler = nullptr;
  bool somebody_waits = false;
  for (const Member* member : Active()) {
    if (member->micro_batches == 0) continue;
    if (member->heartbeat.step() >= step &&
        member->heartbeat.phase() == "exchange") {
      somebody_waits = true;
    } else if (straggler == nullptr) {
      straggler = member;
    }
  }
  return somebody_waits ? straggler : nullptr;
}

}  // namespace tributary
