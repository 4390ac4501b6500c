// A job over TCP on a loopback interface that loses packets, in a network
// namespace of its own.
#include <unistd.h>

#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/job/job.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/command_runner.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

class PacketLossTest : public testing::TestWithParam<int> {
 protected:
  // Runs a shell script in a new network namespace.
  static CommandResult InNamespace(const std::string& script) {
    return RunCommand({"/usr/bin/unshare", "--net", "sh", "-ec",
                       absl::StrCat("PATH=$PATH:/usr/sbin:/sbin; "
                                    "ip link set lo up; ",
                                    script)});
  }

  static std::string Lose(int percent) {
    return absl::StrCat(
        "iptables-legacy -A INPUT -i lo -p tcp -m statistic --mode random "
        "--probability 0.",
        percent < 10 ? "0" : "", percent, " -j DROP; ");
  }

  std::string Train(const std::string& output, const std::string& before) {
    const CommandResult result = InNamespace(absl::StrCat(
        before, kTributary, " train ", folder_, "/job.textproto --output ",
        folder_, "/", output, " --workers 2 --servers 2 --quiet"));
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    std::ifstream file(folder_ + "/" + output + "/summary.json");
    return nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false)
        .value("weights_sha256", "");
  }

  const std::string folder_ = MakeTestFolder();
};

TEST_P(PacketLossTest, TheResultIsTheSame) {
  const CommandResult possible = InNamespace(Lose(1));
  if (possible.exit_code != 0) {
    GTEST_SKIP() << "needs root, ip, and iptables-legacy with the kernel's "
                    "statistic match: "
                 << possible.standard_error;
  }
  JobSpec job = TinyJob("mlp", folder_);
  job.set_steps(30);
  job.mutable_exchange()->set_transport(ExchangeSpec::WIRE);
  std::ofstream(folder_ + "/job.textproto") << PrintJob(job);
  const std::string digest = Train("calm", "");
  EXPECT_EQ(digest.size(), 64u);
  EXPECT_EQ(Train("lossy", Lose(GetParam())), digest);
}

INSTANTIATE_TEST_SUITE_P(Percent, PacketLossTest, testing::Values(1, 10));

}  // namespace
}  // namespace tributary
