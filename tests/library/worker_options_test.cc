#include <cstdlib>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tributary/worker.h"

namespace tributary {
namespace {

// Sets variables of this process for the time of a test.
class WorkerOptionsTest : public testing::Test {
 protected:
  ~WorkerOptionsTest() override {
    for (const std::string& name : set_) unsetenv(name.c_str());
  }
  void Set(const std::string& name, const std::string& value) {
    setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
    set_.push_back(name);
  }

 private:
  std::vector<std::string> set_;
};

TEST_F(WorkerOptionsTest, DefaultsToTheServerOnThisMachine) {
  const auto options = Worker::Options::FromEnvironment();
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->coordinator, "127.0.0.1:29400");
  EXPECT_EQ(options->rank, -1);
  EXPECT_EQ(options->log_level, "info");
}

TEST_F(WorkerOptionsTest, ReadsTheVariablesOfTheLauncher) {
  Set("TRIBUTARY_COORDINATOR", "node1");
  Set("TRIBUTARY_RANK", "3");
  Set("TRIBUTARY_TLS_DIR", "tls");
  Set("TRIBUTARY_TOKEN_FILE", "token");
  Set("TRIBUTARY_ADVERTISE", "node2");
  Set("TRIBUTARY_INSECURE_NETWORK", "true");
  Set("TRIBUTARY_LOG_LEVEL", "debug");
  Set("TRIBUTARY_LOG_FORMAT", "json");
  Set("TRIBUTARY_WARNING_FD", "4");
  const auto options = Worker::Options::FromEnvironment();
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->coordinator, "node1:29400");
  EXPECT_EQ(options->rank, 3);
  EXPECT_EQ(options->tls_dir, "tls");
  EXPECT_EQ(options->token_file, "token");
  EXPECT_EQ(options->advertise, "node2");
  EXPECT_TRUE(options->insecure_network);
  EXPECT_EQ(options->log_level, "debug");
  EXPECT_EQ(options->log_format, "json");
  EXPECT_EQ(options->warning_fd, 4);
}

TEST_F(WorkerOptionsTest, OwnVariablesTakePrecedenceOverTorchrun) {
  Set("MASTER_ADDR", "master");
  Set("MASTER_PORT", "1234");
  Set("RANK", "5");
  auto options = Worker::Options::FromEnvironment();
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->coordinator, "master:1234");
  EXPECT_EQ(options->rank, 5);
  Set("TRIBUTARY_COORDINATOR", "other:1");
  Set("TRIBUTARY_RANK", "2");
  options = Worker::Options::FromEnvironment();
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->coordinator, "other:1");
  EXPECT_EQ(options->rank, 2);
}

TEST_F(WorkerOptionsTest, RefusesAWrongNumberByItsVariable) {
  Set("TRIBUTARY_RANK", "first");
  EXPECT_THAT(Worker::Options::FromEnvironment().status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::HasSubstr("TRIBUTARY_RANK is 'first'")));
}

TEST_F(WorkerOptionsTest, RefusesWrongWordsByTheirVariables) {
  Set("TRIBUTARY_INSECURE_NETWORK", "maybe");
  EXPECT_THAT(
      Worker::Options::FromEnvironment().status(),
      StatusIs(absl::StatusCode::kInvalidArgument,
               testing::HasSubstr("TRIBUTARY_INSECURE_NETWORK is 'maybe'")));
  Set("TRIBUTARY_INSECURE_NETWORK", "yes");
  Set("TRIBUTARY_LOG_FORMAT", "xml");
  const auto options = Worker::Options::FromEnvironment();
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_TRUE(options->insecure_network);
  EXPECT_THAT(Worker::Connect(*options).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       testing::HasSubstr("TRIBUTARY_LOG_FORMAT")));
}

}  // namespace
}  // namespace tributary
