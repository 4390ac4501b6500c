#include "worker/exchange/stages/stage_admission.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/sha256.h"
#include "common/base/status_macros.h"

namespace tributary {
namespace {

absl::Status CheckEqual(absl::string_view what, absl::string_view theirs,
                        absl::string_view ours) {
  if (theirs == ours) return absl::OkStatus();
  // As many digits as tell digests apart.
  constexpr size_t kDigits = 12;
  return absl::FailedPreconditionError(
      absl::StrCat("the sender's ", what, " is ", theirs.substr(0, kDigits),
                   ", this worker's is ", ours.substr(0, kDigits),
                   ": use the same job and release in all workers"));
}

}  // namespace

StageAdmission::StageAdmission(Job job) : job_(std::move(job)) {}

void StageAdmission::SetPeers(int64_t epoch,
                              std::map<int64_t, std::string> secrets) {
  absl::MutexLock lock(&mu_);
  if (epoch < epoch_) return;
  epoch_ = epoch;
  secrets_ = std::move(secrets);
}

absl::Status StageAdmission::Check(const StageHello& hello) const {
  TRIBUTARY_RETURN_IF_ERROR(CheckJob(hello));
  absl::MutexLock lock(&mu_);
  if (hello.epoch() < epoch_) {
    return absl::AbortedError(absl::StrCat("the sender follows assignment ",
                                           hello.epoch(), "; the newest is ",
                                           epoch_));
  }
  const auto peer = secrets_.find(hello.sender());
  if (peer == secrets_.end()) {
    if (hello.epoch() > epoch_) {
      return absl::UnavailableError(absl::StrCat(
          "this worker has not learned of assignment ", hello.epoch(), " yet"));
    }
    return absl::PermissionDeniedError(absl::StrCat(
        "worker ", hello.sender(), " has no part in assignment ", epoch_));
  }
  if (!EqualSecrets(hello.secret(), peer->second)) {
    return absl::PermissionDeniedError(
        absl::StrCat("the secret is not that of worker ", hello.sender(),
                     ": send the one "
                     "that the coordinator has given for these two workers"));
  }
  return absl::OkStatus();
}

absl::Status StageAdmission::CheckJob(const StageHello& hello) const {
  TRIBUTARY_RETURN_IF_ERROR(CheckEqual("job", hello.job_id(), job_.id));
  TRIBUTARY_RETURN_IF_ERROR(
      CheckEqual("model signature", hello.signature(), job_.signature));
  TRIBUTARY_RETURN_IF_ERROR(
      CheckEqual("transfer plan", hello.plan_signature(), job_.plan_signature));
  if (hello.attempt() != job_.attempt) {
    return absl::AbortedError(absl::StrCat("the sender takes part in attempt ",
                                           hello.attempt(), ", this worker in ",
                                           job_.attempt));
  }
  if (hello.receiver() == job_.incarnation) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("this is worker ", job_.incarnation,
                                         ", not worker ", hello.receiver(),
                                         ": it has this address now"));
}

}  // namespace tributary
