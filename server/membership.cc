#include "server/membership.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"

namespace tributary {

std::string Member::Name() const {
  return absl::StrCat("worker ", rank, " (host ", host, ", process ", pid, ")");
}

Membership::Membership(int leaves, absl::Duration lease)
    : leaves_(leaves), lease_(lease) {}

Membership::Admitted Membership::Add(const Join& join, absl::Time now) {
  Admitted admitted;
  std::set<int> taken;
  for (const auto& [incarnation, member] : members_) {
    taken.insert(member.rank);
    if (join.rank() >= 0 && member.rank == join.rank()) {
      admitted.fenced = incarnation;
    }
  }
  if (admitted.fenced.has_value()) members_.erase(*admitted.fenced);
  int rank = join.rank();
  if (rank < 0) {
    rank = 0;
    while (taken.count(rank) > 0) ++rank;
  }
  admitted.incarnation = next_incarnation_++;
  admitted.rank = rank;
  Member& member = members_[admitted.incarnation];
  member.incarnation = admitted.incarnation;
  member.rank = rank;
  member.host = join.host();
  member.pid = join.pid();
  member.last_heard = now;
  return admitted;
}

Member* Membership::Find(int64_t incarnation) {
  const auto found = members_.find(incarnation);
  return found == members_.end() ? nullptr : &found->second;
}

void Membership::Remove(int64_t incarnation) { members_.erase(incarnation); }

std::vector<int64_t> Membership::Expired(absl::Time now) const {
  std::vector<int64_t> expired;
  for (const auto& [incarnation, member] : members_) {
    if (now - member.last_heard > lease_) expired.push_back(incarnation);
  }
  return expired;
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

std::vector<WorkerPace> Membership::PacesOf(
    const std::vector<const Member*>& members, absl::Time now) {
  std::vector<double> measured;
  for (const Member* member : members) {
    const std::optional<double> seconds = member->speed.seconds(now);
    if (seconds.has_value()) measured.push_back(*seconds);
  }
  std::sort(measured.begin(), measured.end());
  const double median = measured.empty() ? 1 : measured[measured.size() / 2];
  std::vector<WorkerPace> paces;
  for (const Member* member : members) {
    paces.push_back(
        {member->speed.seconds(now).value_or(median), member->speed.threads()});
  }
  return paces;
}

std::map<int64_t, Deal> Membership::DealWork(int64_t pieces, absl::Time now) {
  const std::vector<const Member*> active = Active();
  const std::vector<WorkerPace> paces = PacesOf(active, now);
  const std::vector<int64_t> leaf_shares = ChooseShares(leaves_, paces);
  const std::vector<int64_t> piece_shares = ChooseShares(pieces, paces);
  ++generation_;
  int leaf = 0;
  int64_t piece = 0;
  std::map<int64_t, Deal> deals;
  for (size_t i = 0; i < active.size(); ++i) {
    Member& member = members_.at(active[i]->incarnation);
    member.leaves = static_cast<int>(leaf_shares[i]);
    member.speed.Restart(/*has_leaves=*/member.leaves > 0, now);
    Deal& deal = deals[member.incarnation];
    deal.set_generation(generation_);
    deal.set_leaf_begin(leaf);
    deal.set_leaf_end(leaf += member.leaves);
    deal.set_piece_begin(piece);
    deal.set_piece_end(piece += piece_shares[i]);
  }
  return deals;
}

bool Membership::DealIsSlow(absl::Time now) const {
  const std::vector<const Member*> active = Active();
  std::vector<int64_t> shares;
  for (const Member* member : active) {
    if (member->leaves > 0 && !member->speed.fresh()) return false;
    shares.push_back(member->leaves);
  }
  return SharesAreSlow(shares, PacesOf(active, now));
}

const Member* Membership::Straggler(int64_t step) const {
  const Member* straggler = nullptr;
  bool somebody_waits = false;
  for (const Member* member : Active()) {
    if (member->leaves == 0) continue;
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
