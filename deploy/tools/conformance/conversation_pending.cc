// What a worker that does nothing should have done.
#include "absl/strings/str_cat.h"
#include "deploy/tools/conformance/conversation.h"
#include "deploy/tools/conformance/rules.h"

namespace tributary {

Fault Conversation::Pending() const {
  absl::MutexLock lock(&mu_);
  if (joins_ == 0) {
    return {"it did not call Membership",
            absl::StrCat(kJobRule,
                         "a worker calls Membership and sends Join "
                         "(item 2); the address of server 0 is in "
                         "the variable TRIBUTARY_COORDINATOR")};
  }
  if (stay_.finished) {
    return {stay_.left ? "it sent Farewell, but did not exit"
                       : "it received Finished, but did not leave",
            absl::StrCat(kJobRule,
                         "each worker sends Farewell and half-closes "
                         "all streams (item 8); then it exits")};
  }
  if (!stay_.ended.empty()) {
    return {absl::StrCat("it did not join again after ", stay_.ended),
            absl::StrCat(kLostRule,
                         "wait with exponential backoff, and join again")};
  }
  if (!stay_.admission.has_value()) {
    return {"it joined, and received no Admission: the job has not begun",
            absl::StrCat(kJobRule, "item 2")};
  }
  if (!stay_.ready) {
    return {"it received Admission, but did not send Ready",
            absl::StrCat(kJobRule,
                         "the worker opens its data, builds the "
                         "model, and sends Ready (item 3)")};
  }
  if (!stay_.open.has_value()) {
    return {"it sent Ready, and received no Open: the job has not begun",
            absl::StrCat(kJobRule, "item 4")};
  }
  if (stay_.exchanges.size() <
      static_cast<size_t>(stay_.admission->server_address_size())) {
    return {absl::StrCat("it received Open, but sent Hello to ",
                         stay_.exchanges.size(), " of ",
                         stay_.admission->server_address_size(), " servers"),
            absl::StrCat(kJobRule,
                         "the worker calls Exchange on every server "
                         "and sends Hello (item 5)")};
  }
  const std::optional<int64_t> version = Version();
  if (!version.has_value()) {
    return {stay_.open->initialize()
                ? "it received Open with initialize set, but did not send "
                  "Initial for every chunk"
                : "it did not receive every chunk",
            absl::StrCat(kJobRule,
                         "one worker sends version 0 of every chunk "
                         "(item 4)")};
  }
  if (!stay_.synced) {
    return {absl::StrCat("it received version ", *version,
                         " of all chunks, but did not send Synced"),
            absl::StrCat(kJobRule,
                         "when the worker has all chunks at one "
                         "version, it sends Synced (item 6)")};
  }
  if (stay_.deals.empty()) {
    return {"it sent Synced, and received no Deal: the job has not begun",
            absl::StrCat(kJobRule, "item 6")};
  }
  return PendingWork(*version);
}

Fault Conversation::PendingWork(int64_t version) const {
  const Deal& deal = stay_.deals.back();
  if (leases_steps_) {
    const bool has_lease =
        stay_.leased.size() > static_cast<size_t>(stay_.completed);
    return {
        absl::StrCat(
            "it has version ", version, " and the Deal of evaluation pieces ",
            deal.piece_begin(), " to ", deal.piece_end() - 1,
            has_lease ? ", and did not complete the step that is "
                        "leased to it"
                      : ", and has no lease",
            stay_.lease_requests == 0 ? " because it sent no Claim" : ""),
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
