#include "common/transport/authorizer.h"

#include <grpc/grpc_security_constants.h>
#include <openssl/crypto.h>

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/sha256.h"
#include "grpcpp/support/status.h"

namespace tributary {
namespace {

constexpr char kPathKey[] = ":path";
constexpr char kHealthService[] = "/grpc.health.v1.Health/";

using AccessTable = absl::flat_hash_map<absl::string_view, std::vector<Role>>;

const AccessTable& Access() {
  static const auto* const table = new AccessTable{
      {"/tributary.Rendezvous/Membership", {Role::kWorker}},
      {"/tributary.Rendezvous/Enlistment", {Role::kServer}},
      {"/tributary.Rendezvous/GetStatus",
       {Role::kAdmin, Role::kServer, Role::kWorker}},
      {"/tributary.Rendezvous/GetRecords",
       {Role::kAdmin, Role::kServer, Role::kWorker}},
      {"/tributary.Rendezvous/ReportEvent", {Role::kAdmin, Role::kServer}},
      {"/tributary.ParameterServer/Exchange", {Role::kWorker}},
      {"/tributary.ParameterServer/ReadWeights", {Role::kServer, Role::kAdmin}},
      {"/tributary.Journal/Replicate", {Role::kServer}},
      {"/tributary.Journal/ReadJournal", {Role::kServer}},
      {"/tributary.Journal/SaveState", {Role::kWorker}},
      {"/tributary.Journal/ReadState", {Role::kWorker}},
      {"/tributary.NodeAgents/Attend", {Role::kWorker}},
      {"/tributary.StageExchange/Transfer", {Role::kWorker}},
  };
  return *table;
}

absl::string_view View(grpc::string_ref text) {
  return absl::string_view(text.data(), text.size());
}

class CallGuard final : public grpc::AuthMetadataProcessor {
 public:
  explicit CallGuard(std::shared_ptr<const Authorizer> authorizer)
      : authorizer_(std::move(authorizer)) {}

  bool IsBlocking() const override { return false; }

  grpc::Status Process(const InputMetadata& metadata,
                       grpc::AuthContext* context, OutputMetadata* consumed,
                       OutputMetadata*) override {
    const auto path = metadata.find(kPathKey);
    const auto authorization = metadata.find(kAuthorizationHeader);
    std::vector<grpc::string_ref> values;
    // Views of strings that `values` and the context own.
    std::vector<absl::string_view> dns_names;
    if (context != nullptr) {
      values = context->FindPropertyValues(GRPC_PEER_DNS_PROPERTY_NAME);
    }
    for (const grpc::string_ref& value : values) {
      dns_names.push_back(View(value));
    }
    const absl::Status status = authorizer_->Check(
        path == metadata.end() ? "" : View(path->second),
        authorization == metadata.end() ? "" : View(authorization->second),
        dns_names);
    if (authorization != metadata.end()) {
      // Consumed here, so that services do not see the token.
      consumed->emplace(kAuthorizationHeader,
                        std::string(View(authorization->second)));
    }
    return grpc::Status(static_cast<grpc::StatusCode>(status.code()),
                        std::string(status.message()));
  }

 private:
  const std::shared_ptr<const Authorizer> authorizer_;
};

}  // namespace

std::string AuthorizationValue(absl::string_view token) {
  return absl::StrCat("Bearer ", token);
}

Authorizer::Authorizer(const Security& security) : security_(security) {}

absl::Status Authorizer::Check(
    absl::string_view path, absl::string_view authorization,
    const std::vector<absl::string_view>& dns_names) const {
  const absl::Status token = CheckToken(authorization);
  if (!token.ok()) return token;
  if (absl::StartsWith(path, kHealthService)) return absl::OkStatus();
  const auto allowed = Access().find(path);
  if (allowed == Access().end()) {
    return absl::PermissionDeniedError(
        "this server has no such method, or no role may call it: run the same "
        "release in all processes");
  }
  return security_.tls() ? CheckRole(path, allowed->second, dns_names)
                         : absl::OkStatus();
}

absl::Status Authorizer::CheckToken(absl::string_view authorization) const {
  const std::vector<std::string> tokens = security_.Tokens();
  if (tokens.empty()) return absl::OkStatus();
  if (authorization.empty()) {
    return absl::UnauthenticatedError(
        "this job requires a token: add --token-file FILE with the token of "
        "its servers");
  }
  // Digests have equal lengths, so the comparison's time does not depend on the
  // token.
  const std::string digest = Sha256Hex(authorization);
  bool accepted = false;
  for (const std::string& token : tokens) {
    const std::string expected = Sha256Hex(AuthorizationValue(token));
    if (CRYPTO_memcmp(digest.data(), expected.data(), expected.size()) == 0) {
      accepted = true;
    }
  }
  if (accepted) return absl::OkStatus();
  return absl::UnauthenticatedError(
      "the token is not this job's: set --token-file to the token file of "
      "its servers, and check the address");
}

absl::Status Authorizer::CheckRole(
    absl::string_view path, const std::vector<Role>& allowed,
    const std::vector<absl::string_view>& dns_names) const {
  std::vector<absl::string_view> roles;
  for (const absl::string_view name : dns_names) {
    const absl::optional<Role> role = RoleOfDnsName(name);
    if (!role.has_value()) continue;
    if (std::find(allowed.begin(), allowed.end(), *role) != allowed.end()) {
      return absl::OkStatus();
    }
    roles.push_back(RoleName(*role));
  }
  const auto append = [](std::string* out, Role role) {
    absl::StrAppend(out, RoleName(role));
  };
  if (roles.empty()) {
    return absl::UnauthenticatedError(
        absl::StrCat("the caller has no certificate with a role: add --tls-dir "
                     "DIR with one that names ",
                     absl::StrJoin(allowed, " or ", append), ".tributary"));
  }
  return absl::PermissionDeniedError(
      absl::StrCat("a certificate for ", absl::StrJoin(roles, ", "),
                   " may not call ", path, ": start this process with one for ",
                   absl::StrJoin(allowed, " or ", append), " in --tls-dir"));
}

std::shared_ptr<grpc::AuthMetadataProcessor> MakeCallGuard(
    std::shared_ptr<const Authorizer> authorizer) {
  return std::make_shared<CallGuard>(std::move(authorizer));
}

}  // namespace tributary
