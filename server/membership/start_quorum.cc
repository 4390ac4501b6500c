#include "server/membership/start_quorum.h"

#include <algorithm>
#include <iterator>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/membership/peer_checks.h"

namespace tributary {
namespace {

// Identifies a worker across restarts: by its rank, if it requested one.
// Otherwise each restart counts as another worker.
int64_t Place(const Member& member) {
  return member.ranked ? member.rank : -member.incarnation;
}

}  // namespace

StartQuorum::StartQuorum(int expected, int most, absl::Duration timeout,
                         bool data_known)
    : expected_(expected),
      most_(std::max(expected, most)),
      timeout_(timeout),
      data_known_(data_known) {}

void StartQuorum::Add(const Member& member, const Ready& ready,
                      const std::string& signature, absl::Time now) {
  Remove(member.incarnation);
  refused_.erase(Place(member));
  first_ready_ = std::min(first_ready_, now);
  Party& party =
      parties_[absl::StrCat(signature, ready.data().SerializeAsString())];
  party.ready = ready;
  party.names[member.incarnation] = member.Name();
}

void StartQuorum::Remove(int64_t incarnation) {
  for (auto it = parties_.begin(); it != parties_.end();) {
    it->second.names.erase(incarnation);
    it = it->second.names.empty() ? parties_.erase(it) : std::next(it);
  }
}

void StartQuorum::Refuse(const Member& member) {
  Remove(member.incarnation);
  refused_.insert(Place(member));
}

std::vector<const StartQuorum::Party*> StartQuorum::Parties() const {
  std::vector<const Party*> parties;
  for (const auto& [key, party] : parties_) parties.push_back(&party);
  std::sort(parties.begin(), parties.end(), [](const Party* a, const Party* b) {
    // Equally large parties: the one with the earlier worker first.
    return a->names.size() != b->names.size()
               ? a->names.size() > b->names.size()
               : a->names.begin()->first < b->names.begin()->first;
  });
  return parties;
}

int StartQuorum::ready_count() const {
  size_t count = 0;
  for (const auto& [key, party] : parties_) count += party.names.size();
  return static_cast<int>(count);
}

absl::StatusOr<std::optional<StartQuorum::Decision>> StartQuorum::Decide(
    absl::Time now) {
  const std::vector<const Party*> parties = Parties();
  if (parties.empty()) return std::nullopt;
  const Party& largest = *parties[0];
  const int ready = ready_count();
  const int agree = static_cast<int>(largest.names.size());
  const std::string& first = largest.names.begin()->second;
  if (2 * agree <= expected_ && !data_known_) {
    const bool late = now - first_ready_ >= timeout_;
    if (!late && ready + static_cast<int>(refused_.size()) < expected_) {
      return std::nullopt;
    }
    if (late) arrived_ = ready;
    if (2 * agree <= ready) {
      const Party& other = *parties[1];
      const std::string model =
          DescribeModelDifference(other.ready, largest.ready);
      return absl::InvalidArgumentError(absl::StrCat(
          "workers have different models or data, and no majority agrees: ",
          first, " has ", DescribeReady(largest.ready), "; ",
          other.names.begin()->second, " has ", DescribeReady(other.ready),
          model.empty() ? "" : " whose ", model,
          ": copy the same files, and use the same release, on every machine, "
          "and start the job again"));
    }
  }
  Decision decision;
  decision.ready = largest.ready;
  decision.whose =
      agree == 1 ? first : absl::StrCat(first, " and ", agree - 1, " more");
  for (size_t i = 1; i < parties.size(); ++i) {
    for (const auto& [incarnation, name] : parties[i]->names) {
      decision.outvoted[incarnation] = parties[i]->ready;
    }
  }
  return decision;
}

int StartQuorum::awaited() const {
  return std::max(
      1, arrived_.value_or(expected_ - static_cast<int>(refused_.size())));
}

}  // namespace tributary
