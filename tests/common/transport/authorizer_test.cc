#include "common/transport/authorizer.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/journal.pb.h"
#include "proto/parameter_server.pb.h"
#include "proto/pipeline.pb.h"
#include "proto/rendezvous.pb.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";
constexpr char kHealth[] = "/grpc.health.v1.Health/Check";
const std::vector<absl::string_view> kNoNames;

// Returns an Authorizer that requires certificates, or a token, or both.
Authorizer Requiring(bool certificates, const std::string& token) {
  Security security;
  if (certificates) security.tls_directory = "tls";
  security.token = token;
  return Authorizer(security);
}

// "/package.Service/Method" of all there are.
std::vector<std::string> AllMethods() {
  std::vector<std::string> methods;
  for (const auto* file :
       {WorkerReport::descriptor()->file(), Hello::descriptor()->file(),
        JournalHello::descriptor()->file(), StageHello::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      const auto* service = file->service(s);
      for (int m = 0; m < service->method_count(); ++m) {
        methods.push_back(absl::StrCat("/", service->full_name(), "/",
                                       service->method(m)->name()));
      }
    }
  }
  return methods;
}

class EveryMethodTest : public testing::TestWithParam<std::string> {
 protected:
  absl::Status Check(const Authorizer& authorizer,
                     const std::string& authorization,
                     const std::vector<absl::string_view>& names) {
    return authorizer.Check(GetParam(), authorization, names);
  }
};

INSTANTIATE_TEST_SUITE_P(All, EveryMethodTest, testing::ValuesIn(AllMethods()),
                         [](const auto& info) {
                           const size_t slash = info.param.rfind('/');
                           return info.param.substr(slash + 1);
                         });

TEST_P(EveryMethodTest, IsOpenWhereNothingIsAsked) {
  EXPECT_TRUE(Check(Requiring(false, ""), "", kNoNames).ok());
}

TEST_P(EveryMethodTest, RefusesWithoutToken) {
  EXPECT_THAT(
      Check(Requiring(false, kToken), "", kNoNames),
      StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("--token-file")));
}

TEST_P(EveryMethodTest, RefusesAnotherToken) {
  for (const std::string& wrong :
       {absl::StrCat(kToken, "0"), std::string(kToken, 31), std::string("x")}) {
    EXPECT_THAT(
        Check(Requiring(false, kToken), AuthorizationValue(wrong), kNoNames),
        StatusIs(absl::StatusCode::kUnauthenticated,
                 HasSubstr("the token is not this job's")));
  }
}

TEST_P(EveryMethodTest, TakesTheToken) {
  EXPECT_TRUE(
      Check(Requiring(false, kToken), AuthorizationValue(kToken), kNoNames)
          .ok());
}

TEST_P(EveryMethodTest, RefusesACertificateWithoutRole) {
  for (const std::vector<absl::string_view>& names :
       {kNoNames, {"example.com"}, {"tributary"}, {"root.tributary"}}) {
    EXPECT_THAT(
        Check(Requiring(true, ""), "", names),
        StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("--tls-dir")));
  }
}

TEST_P(EveryMethodTest, WantsBothWhereBothAreGiven) {
  const Authorizer authorizer = Requiring(true, kToken);
  const std::vector<absl::string_view> all = {
      "server.tributary", "worker.tributary", "admin.tributary"};
  EXPECT_THAT(
      Check(authorizer, "", all),
      StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("--token-file")));
  EXPECT_THAT(
      Check(authorizer, AuthorizationValue(kToken), kNoNames),
      StatusIs(absl::StatusCode::kUnauthenticated, HasSubstr("--tls-dir")));
  EXPECT_TRUE(Check(authorizer, AuthorizationValue(kToken), all).ok());
}

TEST_P(EveryMethodTest, IsForSomeRoles) {
  const Authorizer authorizer = Requiring(true, "");
  int allowed = 0;
  for (const Role role : kAllRoles) {
    const std::string name = RoleDnsName(role);
    const absl::Status status = Check(authorizer, "", {name});
    if (status.ok()) {
      ++allowed;
      continue;
    }
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kPermissionDenied,
                                 HasSubstr(absl::StrCat("a certificate for ",
                                                        RoleName(role)))));
  }
  EXPECT_GE(allowed, 1);
}

TEST(AuthorizerTest, KeepsRolesApart) {
  const Authorizer authorizer = Requiring(true, "");
  const auto check = [&](Role role, const std::string& method) {
    const std::string name = RoleDnsName(role);
    return authorizer.Check(absl::StrCat("/tributary.", method), "", {name});
  };
  const auto expect_allowed = [&](Role role, const std::string& method) {
    EXPECT_EQ(check(role, method), absl::OkStatus());
  };
  const auto expect_refused = [&](Role role, const std::string& method) {
    EXPECT_THAT(
        check(role, method),
        StatusIs(absl::StatusCode::kPermissionDenied,
                 HasSubstr(absl::StrCat("a certificate for ", RoleName(role),
                                        " may not call /tributary.", method))));
  };
  expect_allowed(Role::kWorker, "ParameterServer/Exchange");
  expect_allowed(Role::kWorker, "Rendezvous/Membership");
  expect_refused(Role::kWorker, "Rendezvous/Enlistment");
  expect_refused(Role::kWorker, "ParameterServer/ReadWeights");
  expect_allowed(Role::kServer, "Rendezvous/Enlistment");
  expect_refused(Role::kServer, "Rendezvous/Membership");
  expect_allowed(Role::kAdmin, "Rendezvous/GetStatus");
  expect_refused(Role::kAdmin, "ParameterServer/Exchange");
  expect_allowed(Role::kServer, "Journal/ReadJournal");
  expect_refused(Role::kWorker, "Journal/Replicate");
  expect_allowed(Role::kWorker, "StageExchange/Transfer");
  expect_refused(Role::kServer, "StageExchange/Transfer");
  expect_refused(Role::kAdmin, "StageExchange/Transfer");
}

TEST(AuthorizerTest, RefusesMethodsThatItDoesNotKnow) {
  for (const char* path :
       {"", "/", "/tributary.Rendezvous/Stop", "tributary.Rendezvous/GetStatus",
        "/tributary.Rendezvous/GetStatus/", "/grpc.health.v1.Healthy/Check",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}) {
    EXPECT_EQ(Requiring(false, "").Check(path, "", kNoNames).code(),
              absl::StatusCode::kPermissionDenied)
        << path;
  }
}

TEST(AuthorizerTest, AnswersHealthChecksOfEveryRoleThatHasTheToken) {
  const Authorizer authorizer = Requiring(true, kToken);
  EXPECT_TRUE(
      authorizer.Check(kHealth, AuthorizationValue(kToken), kNoNames).ok());
  EXPECT_EQ(authorizer.Check(kHealth, "", kNoNames).code(),
            absl::StatusCode::kUnauthenticated);
}

}  // namespace
}  // namespace tributary
