#include "deploy/tools/status/run_address.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/os/listener.h"
#include "common/os/local_host.h"
#include "deploy/flags/environment.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

constexpr char kFile[] = "server.json";
constexpr int64_t kMaxBytes = 4096;

// Returns the address in server.json, unchecked.
absl::StatusOr<HostPort> ReadAddress(const UntrustedFolder& folder) {
  const absl::StatusOr<std::string> text = folder.Read(kFile, kMaxBytes);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(absl::StrCat(
        folder.path(),
        " has no server.json: its job does not run, or runs where server 0 "
        "does not share this folder; `tributary dashboard` shows runs that "
        "have ended"));
  }
  TRIBUTARY_RETURN_IF_ERROR(text.status());
  const nlohmann::ordered_json json = ParseOrderedJson(*text);
  absl::StatusOr<HostPort> address =
      ParseHostPort(StringMember(json, "address"));
  if (address.ok()) return address;
  return absl::FailedPreconditionError(
      absl::StrCat(folder.PathOf(kFile),
                   " has no address of a server; remove the file if the job "
                   "does not run"));
}

std::string HowToName(const std::string& address) {
  return absl::StrCat(
      "if it is server 0 of this job, name it yourself: `tributary status ",
      address, "`, or `tributary dashboard --coordinator ", address, "`");
}

// Returns the numeric form of `host` if it is an address of this machine; an
// empty string otherwise.
std::string NumericHostOfThisMachine(const std::string& host) {
  if (host == "localhost" || host == "0.0.0.0") return "127.0.0.1";
  if (host == "::") return "::1";
  if (IsOfThisMachine(host)) return host;
  // The resolution of any other name may take long, and its owner decides what
  // it returns.
  char own[256] = "";
  if (gethostname(own, sizeof(own) - 1) != 0 || host != own) return "";
  const absl::StatusOr<std::string> numeric =
      LocalHostTowards(absl::StrCat(host, ":1"));
  return numeric.ok() && IsOfThisMachine(*numeric) ? *numeric : "";
}

}  // namespace

absl::StatusOr<std::string> AddressOfRun(const UntrustedFolder& folder,
                                         const RunAddressRules& rules) {
  TRIBUTARY_ASSIGN_OR_RETURN(const HostPort found, ReadAddress(folder));
  const std::string address = JoinHostPort(found.host, found.port);
  if (std::find(rules.named.begin(), rules.named.end(), address) !=
      rules.named.end()) {
    return address;
  }
  const std::string host = NumericHostOfThisMachine(found.host);
  if (host.empty()) {
    return absl::FailedPreconditionError(absl::StrCat(
        folder.PathOf(kFile), " names ", address,
        ", which is not an address of this machine, so it is not asked; ",
        HowToName(address)));
  }
  const absl::StatusOr<std::set<uid_t>> users =
      ListenersAt(host, static_cast<int>(found.port));
  if (users.ok() && users->empty()) {
    return absl::UnavailableError(absl::StrCat(
        "nobody listens at ", address, ", which ", folder.PathOf(kFile),
        " names: server 0 was killed, or runs elsewhere"));
  }
  if (rules.security.any()) {
    if (!users.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat(address, " is not sent the job's credentials: ",
                       users.status().message(), "; ", HowToName(address)));
    }
    for (const uid_t user : *users) {
      if (rules.trusted.count(user) > 0) continue;
      return absl::FailedPreconditionError(absl::StrCat(
          folder.PathOf(kFile), " names ", address,
          ", where a process of user ", user,
          " listens, so the job's credentials are not sent there; ",
          HowToName(address)));
    }
  }
  return JoinHostPort(host, found.port);
}

}  // namespace tributary
