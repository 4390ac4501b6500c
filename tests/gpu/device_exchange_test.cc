// Whole jobs whose workers and server, in separate processes, share the memory
// of the emulated GPU.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kJob[] =
    "model { mlp { hidden: 300 } } data { random { shape: 20 classes: 3 "
    "samples: 128 } } optimizer { adamw { learning_rate: 0.01 } } batch { "
    "global: 32 micro_batches: 8 } exchange { parameter_server { chunk_bytes: "
    "4096 } } evaluation { every_steps: 2 } checkpoint { every_steps: 3 } "
    "steps: 6";

constexpr char kShares[] = "stay in the memory of the server's GPU";
constexpr char kCopies[] = "each step copies the weights to the worker's GPU";
constexpr char kFallsBack[] = "pass through the host's memory: ";

struct RunOptions {
  std::string device = "cuda";
  std::string server_device = "cuda";
  int workers = 2;
  std::string failure;
  std::vector<std::string> flags;
};

class DeviceExchangeTest : public testing::Test {
 protected:
  DeviceExchangeTest() { WriteWholeFile(Path("job.textproto"), kJob); }

  std::string Path(const std::string& name) const {
    return absl::StrCat(folder_, "/", name);
  }

  // Returns the digest of the weights.
  std::string Train(const std::string& name, const RunOptions& run) {
    if (!run.failure.empty()) WriteWholeFile(Path("failure"), run.failure);
    std::vector<std::string> command = {"tests/gpu/tributary_on_emulated_gpu",
                                        "train",
                                        Path("job.textproto"),
                                        "--workers",
                                        absl::StrCat(run.workers),
                                        "--device",
                                        run.device,
                                        "--server-device",
                                        run.server_device,
                                        "--output",
                                        Path(name)};
    command.insert(command.end(), run.flags.begin(), run.flags.end());
    const CommandResult result =
        RunExpecting(0, command, {"EMULATED_GPU_FAILURE=" + Path("failure")});
    standard_error_ = result.standard_error;
    return nlohmann::json::parse(ReadWholeFile(Path(name + "/summary.json")))
        .value("weights_sha256", "none");
  }
  std::string Log(const std::string& name, const std::string& process) const {
    return ReadWholeFile(absl::StrCat(Path(name), "/logs/", process, ".log"));
  }

  const std::string folder_ = MakeTestFolder();
  std::string standard_error_;
};

TEST_F(DeviceExchangeTest, TheWeightsHaveTheBitsOfTheHostsPath) {
  RunOptions host;
  host.server_device = "cpu";
  const std::string expected = Train("host", host);
  EXPECT_THAT(Log("host", "worker-0"), HasSubstr(kFallsBack));
  for (const int workers : {1, 2}) {
    const std::string name = absl::StrCat("device", workers);
    RunOptions run;
    run.workers = workers;
    EXPECT_EQ(Train(name, run), expected);
    for (int rank = 0; rank < workers; ++rank) {
      const std::string worker = absl::StrCat("worker-", rank);
      EXPECT_THAT(Log(name, worker), HasSubstr(kShares));
      EXPECT_THAT(Log(name, worker), Not(HasSubstr("had it mapped")));
    }
    EXPECT_THAT(Log(name, "server-0"), Not(HasSubstr("had it mapped")));
  }
}

TEST_F(DeviceExchangeTest, AWorkerOnADifferentGpuHasTheSameBits) {
  RunOptions apart;
  apart.device = "cuda:1";
  apart.server_device = "cuda:0";
  EXPECT_EQ(Train("apart", apart), Train("together", {}));
  EXPECT_THAT(Log("together", "worker-0"), Not(HasSubstr(kCopies)));
  EXPECT_THAT(Log("apart", "worker-0"), HasSubstr(kShares));
  EXPECT_THAT(Log("apart", "worker-0"), HasSubstr(kCopies));
}

TEST_F(DeviceExchangeTest, JobsThatClipGradientsHaveTheSameBitsToo) {
  RunOptions host;
  host.server_device = "cpu";
  host.flags = {"--set", "clip_norm=0.1"};
  RunOptions device = host;
  device.server_device = "cuda";
  EXPECT_EQ(Train("device", device), Train("host", host));
  EXPECT_THAT(Log("device", "worker-1"), HasSubstr(kShares));
}

TEST_F(DeviceExchangeTest, AWorkerThatCannotMapTheMemoryUsesTheHosts) {
  const std::string expected = Train("device", {});
  RunOptions refused;
  refused.failure = "mapping 0";  // Of one of the two workers.
  EXPECT_EQ(Train("refused", refused), expected);
  const std::string logs =
      Log("refused", "worker-0") + Log("refused", "worker-1");
  EXPECT_THAT(logs,
              HasSubstr(absl::StrCat(kFallsBack,
                                     "the memory of the server's GPU cannot be "
                                     "mapped for cuda:")));
  EXPECT_THAT(logs, HasSubstr(kShares));
}

TEST_F(DeviceExchangeTest, AJobWithSeveralServersUsesTheHostsMemory) {
  const std::string expected = Train("one", {});
  RunOptions several;
  several.flags = {"--servers", "2"};
  EXPECT_EQ(Train("two", several), expected);
  EXPECT_THAT(Log("two", "worker-0"), Not(HasSubstr(kShares)));
}

TEST_F(DeviceExchangeTest, ALostWorkerLeavesTheServerSound) {
  const std::string expected = Train("healthy", {});
  RunOptions lost;
  lost.failure = "product 2";  // Before graphs are captured.
  EXPECT_EQ(Train("lost", lost), expected);
  EXPECT_THAT(standard_error_, HasSubstr("restarting it (restart 1 of"));
  EXPECT_THAT(standard_error_, Not(HasSubstr("server-0 failed")));
}

}  // namespace
}  // namespace tributary
