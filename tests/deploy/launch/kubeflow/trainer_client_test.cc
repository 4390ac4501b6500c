#include "deploy/launch/kubeflow/trainer_client.h"

#include <map>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/transport/certificates.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/certificates.h"
#include "tests/support/command_runner.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr char kPython[] = "/usr/bin/python3";
constexpr char kServer[] = "tests/deploy/launch/kubeflow/trainer_server.py";
constexpr char kBody[] = R"({"trainerStatus":{"progressPercentage":7}})";
constexpr absl::Duration kPatience = absl::Seconds(60);

TEST(FindTrainerServerTest, FindsNothingUnlessTheUrlIsSet) {
  std::map<std::string, std::string> variables = {
      {"KUBEFLOW_TRAINER_SERVER_TOKEN", "/token"}};
  const Environment environment = [&](const std::string& name) {
    const auto found = variables.find(name);
    return found == variables.end() ? absl::nullopt
                                    : absl::make_optional(found->second);
  };
  EXPECT_FALSE(FindTrainerServer(environment).has_value());
  variables["KUBEFLOW_TRAINER_SERVER_URL"] = "https://trainer:8082/status";
  variables["KUBEFLOW_TRAINER_SERVER_CA_CERT"] = "/ca.crt";
  const absl::optional<TrainerServer> server = FindTrainerServer(environment);
  EXPECT_EQ(server->url, "https://trainer:8082/status");
  EXPECT_EQ(server->ca_file, "/ca.crt");
  EXPECT_EQ(server->token_file, "/token");
}

class PostJsonTest : public testing::Test {
 protected:
  // Starts a server whose certificate names `name`.
  void Start(const std::string& name = "localhost") {
    CertificateRequest request;
    request.common_name = "trainer";
    request.dns_name = name;
    request.not_before = absl::Now() - absl::Hours(1);
    request.not_after = absl::Now() + absl::Hours(1);
    const CertificateAndKey issued =
        IssueCertificate(request, authority_).value();
    WriteWholeFile(folder_ + "/ca.pem", authority_.certificate);
    WriteWholeFile(folder_ + "/server.pem", issued.certificate);
    WriteWholeFile(folder_ + "/server-key.pem", issued.key);
    WriteWholeFile(folder_ + "/token", "first\n");
    process_ = std::make_unique<BackgroundCommand>(
        std::vector<std::string>{kPython, kServer, folder_ + "/server.pem",
                                 folder_ + "/server-key.pem"});
    const std::string line = process_->AwaitStandardError("port ");
    ASSERT_FALSE(line.empty());
    port_ = line.substr(5, line.find('.') - 5);
  }

  absl::Status Post(const std::string& path,
                    absl::Duration timeout = kPatience) {
    TrainerServer server;
    server.url = absl::StrCat("https://localhost:", port_, path);
    server.ca_file = folder_ + "/ca.pem";
    server.token_file = folder_ + "/token";
    return PostJson(server, kBody, timeout);
  }

  // Returns the requests that the server has received.
  std::string Received() const { return process_->StandardOutput(); }

  const std::string folder_ = MakeTestFolder();
  const CertificateAndKey authority_ = TestAuthority();
  std::unique_ptr<BackgroundCommand> process_;
  std::string port_;
};

TEST_F(PostJsonTest, SendsTheReportWithTheNewestToken) {
  Start();
  const absl::Status status = Post("/ok/namespaces/a/trainjobs/b/status?x=1");
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(Received(),
            "{\"path\": \"/ok/namespaces/a/trainjobs/b/status?x=1\", "
            "\"token\": \"Bearer first\", \"type\": \"application/json\", "
            "\"body\": \"{\\\"trainerStatus\\\":{\\\"progressPercentage\\\":"
            "7}}\"}\n");
  WriteWholeFile(folder_ + "/token", "second");
  EXPECT_TRUE(Post("/ok").ok());
  EXPECT_THAT(Received(), HasSubstr("Bearer second"));
}

TEST_F(PostJsonTest, AcceptsEverySuccess) {
  Start();
  for (const char* path : {"/ok", "/empty", "/accepted", "/nothing"}) {
    const absl::Status status = Post(path);
    EXPECT_TRUE(status.ok()) << path << ": " << status;
  }
}

TEST_F(PostJsonTest, ReportsOtherAnswers) {
  Start();
  for (const auto& [path, code] : std::map<std::string, std::string>{
           {"/forbidden", "403"}, {"/broken", "500"}, {"/moved", ""}}) {
    const absl::Status status = Post(path);
    EXPECT_THAT(status,
                StatusIs(absl::StatusCode::kUnavailable, HasSubstr(code)))
        << path;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat("localhost:", port_, ": ")));
  }
}

TEST_F(PostJsonTest, GivesUpOnAServerThatDoesNotAnswer) {
  Start();
  const absl::Time begin = absl::Now();
  const absl::Status status = Post("/hang", absl::Seconds(1));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_LT(absl::Now() - begin, kPatience);
}

TEST_F(PostJsonTest, GivesTheTokenOnlyToTheServerThatIsMeant) {
  Start(/*name=*/"other.example");
  EXPECT_EQ(Post("/ok").code(), absl::StatusCode::kUnavailable);
  process_.reset();
  Start();
  WriteWholeFile(folder_ + "/ca.pem", TestAuthority().certificate);
  EXPECT_THAT(Post("/ok"), StatusIs(absl::StatusCode::kUnavailable,
                                    HasSubstr("certificate verify failed")));
  EXPECT_EQ(Received(), "");
}

TEST_F(PostJsonTest, NamesAWrongUrlAndAMissingFile) {
  for (const char* url : {"http://localhost/", "https://", "trainer:8082"}) {
    TrainerServer server;
    server.url = url;
    const absl::Status status = PostJson(server, kBody, kPatience);
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                                 HasSubstr("KUBEFLOW_TRAINER_SERVER_URL")))
        << url;
  }
  TrainerServer server;
  server.url = "https://localhost:1/";
  server.token_file = folder_ + "/none";
  EXPECT_EQ(PostJson(server, kBody, kPatience).code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace tributary
