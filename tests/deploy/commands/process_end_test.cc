// How the program leaves main. A worker that found no coordinator died of
// SIGSEGV now and then: a gRPC thread, which tried to connect again, was in a
// TLS handshake while OpenSSL's exit handler ran.
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kWitnessed[] = "exit handlers run";

class ProcessEndTest : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizer's library must be the first that is loaded";
#endif
  }

  static CommandResult RunWatched(const std::vector<std::string>& arguments) {
    return RunCommand(arguments,
                      {"LD_PRELOAD=tests/deploy/commands/libexit_witness.so"});
  }
};

TEST_F(ProcessEndTest, TheWitnessSeesExitHandlers) {
  EXPECT_THAT(RunWatched({"/bin/true"}).standard_error, HasSubstr(kWitnessed));
}

TEST_F(ProcessEndTest, RunsNoExitHandlersWhileGrpcThreadsMayConnect) {
  const std::string folder = MakeTestFolder();
  const CommandResult certs =
      RunWatched({kTributary, "certs", folder + "/tls"});
  ASSERT_EQ(certs.exit_code, 0) << certs.standard_error;
  EXPECT_THAT(certs.standard_error, Not(HasSubstr(kWitnessed)));
  const CommandResult worker =
      RunWatched({kTributary, "worker", "--coordinator", "127.0.0.1:1",
                  "--tls-dir", folder + "/tls", "--connect-timeout", "0.5"});
  EXPECT_EQ(worker.exit_code, 1);
  EXPECT_THAT(worker.standard_error,
              HasSubstr("no coordinator at 127.0.0.1:1"));
  EXPECT_THAT(worker.standard_error, Not(HasSubstr(kWitnessed)));
}

TEST_F(ProcessEndTest, WritesOutWhatIsBuffered) {
  // To a file, and so buffered.
  const CommandResult version = RunWatched({kTributary, "--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.standard_output, StartsWith("tributary "));
  EXPECT_THAT(version.standard_error, Not(HasSubstr(kWitnessed)));
}

TEST_F(ProcessEndTest, KeepsTheExitCodeOfBadUsage) {
  const CommandResult unknown = RunWatched({kTributary, "trian"});
  EXPECT_EQ(unknown.exit_code, 2);
  EXPECT_THAT(unknown.standard_error, HasSubstr("unknown command trian"));
  EXPECT_THAT(unknown.standard_error, Not(HasSubstr(kWitnessed)));
}

}  // namespace
}  // namespace tributary
