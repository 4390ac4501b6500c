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

std::map<int64_t, Deal> Membership::DealWork(int64_t pieces) {
  std::vector<const Member*> active;
  for (const auto& [incarnation, member] : members_) {
    if (member.synced) active.push_back(&member);
  }
  std::sort(active.begin(), active.end(),
            [](const Member* a, const Member* b) { return a->rank < b->rank; });
  ++generation_;
  const int64_t count = static_cast<int64_t>(active.size());
  const int64_t computing = std::min<int64_t>(count, leaves_);
  std::map<int64_t, Deal> deals;
  for (int64_t i = 0; i < count; ++i) {
    Deal& deal = deals[active[i]->incarnation];
    deal.set_generation(generation_);
    if (i < computing) {
      deal.set_leaf_begin(static_cast<int>(i * leaves_ / computing));
      deal.set_leaf_end(static_cast<int>((i + 1) * leaves_ / computing));
    }
    deal.set_piece_begin(i * pieces / count);
    deal.set_piece_end((i + 1) * pieces / count);
  }
  return deals;
}

}  // namespace tributary
