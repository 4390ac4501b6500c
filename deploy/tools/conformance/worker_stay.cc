#include "deploy/tools/conformance/worker_stay.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "deploy/tools/conformance/rules.h"

namespace tributary {

std::optional<int64_t> WorkerStay::Version() const {
  if (versions.empty() || versions.size() < announced.size()) {
    return std::nullopt;
  }
  int64_t least = versions.begin()->second;
  for (const auto& [chunk, version] : versions) {
    least = std::min(least, version);
  }
  return least;
}

std::optional<Fault> WorkerStay::CheckAssigned(int64_t step, int node,
                                               int micro_batches) const {
  // The leaves below the node.
  int begin = node;
  int end = begin + 1;
  while (begin > 0 && begin < micro_batches) {
    begin *= 2;
    end *= 2;
  }
  begin -= micro_batches;
  end -= micro_batches;
  const bool assigned =
      std::any_of(deals.begin(), deals.end(), [begin, end](const Deal& deal) {
        return begin >= deal.leaf_begin() && end <= deal.leaf_end();
      });
  // The server reports nodes that do not exist.
  if (assigned || begin < 0) return std::nullopt;
  return Fault{
      absl::StrCat("step ", step, ": it sent node ", node, " (micro-batches ",
                   begin, " to ", end - 1, "), which no Deal assigned to it"),
      absl::StrCat(kStepRule,
                   "a worker computes the micro-batches that it "
                   "is assigned (items 1 and 2)")};
}

std::optional<Fault> WorkerStay::CheckBaseVersion(
    const Contribution& contribution) const {
  const int chunk = contribution.chunk();
  const int64_t base = contribution.base_version();
  const std::string what =
      absl::StrCat("step ", contribution.step(), ": the base_version of chunk ",
                   chunk, " is ", base);
  const auto newest = versions.find(chunk);
  if (newest == versions.end() || base > newest->second) {
    return Fault{absl::StrCat(what, ", a version that it has not received"),
                 absl::StrCat(kAsynchronousRule,
                              "base_version is the version that the gradient "
                              "was computed from (item 2)")};
  }
  const auto requested = at_lease_request.find(chunk);
  if (leases_ahead || requested == at_lease_request.end() ||
      base >= requested->second) {
    return std::nullopt;
  }
  return Fault{
      absl::StrCat(what, ", but it had received version ", requested->second,
                   " when it requested the lease"),
      absl::StrCat(kStatesRule,
                   "in mode asynchronous, compute the step from the newest "
                   "versions")};
}

int WorkerStay::Times(int64_t step) const {
  const auto found = refusals.find(step);
  return 1 + (found == refusals.end() ? 0 : found->second);
}

std::optional<Fault> WorkerStay::OnRows(const RowContribution& rows) {
  if (!rows.last()) return std::nullopt;
  const int servers = ++rows_sent[{rows.step(), rows.node()}];
  if (!admission.has_value() ||
      servers <= Times(rows.step()) * admission->server_address_size()) {
    return std::nullopt;
  }
  return Fault{absl::StrCat("step ", rows.step(), ": it sent the rows of node ",
                            rows.node(), " to a server twice"),
               absl::StrCat(kTablesRule,
                            "a worker sends one RowContribution to each server "
                            "for each node")};
}

std::optional<Fault> WorkerStay::CheckTables(int64_t step) const {
  // A server is at most one step ahead of another, so a later version of one
  // is enough.
  if (tables_complete.empty() || tables_complete.rbegin()->first > step) {
    return std::nullopt;
  }
  const auto found = tables_complete.find(step);
  if (found != tables_complete.end() && admission.has_value() &&
      found->second >= admission->server_address_size()) {
    return std::nullopt;
  }
  return Fault{absl::StrCat("it contributed to step ", step,
                            " before all servers had announced TablesComplete "
                            "of this version"),
               absl::StrCat(kTablesRule,
                            "only when all servers have announced a version "
                            "does a worker contribute to the step")};
}

std::optional<std::string> WorkerStay::MissingRows() const {
  if (tables_complete.empty()) return std::nullopt;
  for (const auto& [contribution, count] : sent) {
    const auto& [step, chunk, node] = contribution;
    const auto found = rows_sent.find({step, node});
    const int servers = found == rows_sent.end() ? 0 : found->second;
    if (servers >= admission->server_address_size()) continue;
    return absl::StrCat("step ", step, ": it sent a Contribution of node ",
                        node, ", but its RowContribution to ", servers, " of ",
                        admission->server_address_size(), " servers");
  }
  return std::nullopt;
}

Fault WorkerStay::Pending(bool leases_steps) const {
  if (finished) {
    return {left ? "it sent Farewell, but did not exit"
                 : "it received Finished, but did not leave",
            absl::StrCat(kJobRule,
                         "each worker sends Farewell and half-closes "
                         "all streams (item 8); then it exits")};
  }
  if (!ended.empty()) {
    return {absl::StrCat("it did not join again after ", ended),
            absl::StrCat(kLostRule,
                         "wait with exponential backoff, and join again")};
  }
  if (!admission.has_value()) {
    return {"it joined, and received no Admission: the job has not begun",
            absl::StrCat(kJobRule, "item 2")};
  }
  if (!ready) {
    return {"it received Admission, but did not send Ready",
            absl::StrCat(kJobRule,
                         "the worker opens its data, builds the "
                         "model, and sends Ready (item 3)")};
  }
  if (!open.has_value()) {
    return {"it sent Ready, and received no Open: the job has not begun",
            absl::StrCat(kJobRule, "item 4")};
  }
  if (exchanges.size() <
      static_cast<size_t>(admission->server_address_size())) {
    return {
        absl::StrCat("it received Open, but sent Hello to ", exchanges.size(),
                     " of ", admission->server_address_size(), " servers"),
        absl::StrCat(kJobRule,
                     "the worker calls Exchange on every server "
                     "and sends Hello (item 5)")};
  }
  const std::optional<int64_t> newest = Version();
  if (!newest.has_value()) {
    return {open->initialize()
                ? "it received Open with initialize set, but did not send "
                  "Initial for every chunk"
                : "it did not receive every chunk",
            absl::StrCat(kJobRule,
                         "one worker sends version 0 of every chunk, which "
                         "a second Open may ask for, too (item 4)")};
  }
  if (!synced) {
    return {absl::StrCat("it received version ", *newest,
                         " of all chunks, but did not send Synced"),
            absl::StrCat(kJobRule,
                         "when the worker has all chunks at one "
                         "version, it sends Synced (item 6)")};
  }
  if (deals.empty()) {
    return {"it sent Synced, and received no Deal: the job has not begun",
            absl::StrCat(kJobRule, "item 6")};
  }
  if (const std::optional<std::string> missing = MissingRows()) {
    return {*missing,
            absl::StrCat(kTablesRule,
                         "a worker sends one RowContribution to each server "
                         "for each node, also if no row of the server has a "
                         "gradient")};
  }
  const int64_t version = *newest;
  const Deal& deal = deals.back();
  if (leases_steps) {
    const bool has_lease = leased.size() > static_cast<size_t>(completed);
    return {
        absl::StrCat("it has version ", version,
                     " and the Deal of evaluation pieces ", deal.piece_begin(),
                     " to ", deal.piece_end() - 1,
                     has_lease ? ", and did not complete the step that is "
                                 "leased to it"
                               : ", and has no lease",
                     lease_requests == 0 ? " because it sent no Claim" : ""),
        absl::StrCat(kStatesRule,
                     "in mode asynchronous, send Claim, compute the step "
                     "and await an Outcome for every chunk")};
  }
  return {absl::StrCat("it has version ", version, " and the Deal of ",
                       "micro-batches ", deal.leaf_begin(), " to ",
                       deal.leaf_end() - 1, " and evaluation pieces ",
                       deal.piece_begin(), " to ", deal.piece_end() - 1,
                       ", but did not compute all of them"),
          absl::StrCat(kStatesRule,
                       "the newest Deal applies to every step "
                       "that is not complete; an evaluation "
                       "precedes the next step")};
}

}  // namespace tributary
