// Servers and workers as a cluster's scheduler runs them: health checks in
// plaintext, a server that is stopped and started again, a replaced token.
#include <signal.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/transport/certificates.h"
#include "common/transport/channel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/byte_call.h"
#include "tests/support/certificates.h"
#include "tests/support/command_runner.h"
#include "tests/support/network/reserved_port.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Minutes(2);
// Steps of a job that must not end before it is stopped, however late that is.
constexpr int kEndless = 10'000'000;
constexpr char kOldToken[] = "old-0123456789abcdef";
constexpr char kNewToken[] = "new-0123456789abcdef";

// Returns the address in the line of a process's log that contains `before`;
// the address follows this text.
std::string AddressIn(const BackgroundCommand& process,
                      const std::string& before) {
  const std::string line = process.AwaitStandardError(before);
  const size_t begin = line.find(before) + before.size();
  return line.substr(begin, line.find_first_of(" \n", begin) - begin);
}

std::string Health(const std::string& address, const std::string& service) {
  return HealthOf(CreateChannel(address), service);
}

// Waits until the health of "tributary.ready" is `expected`.
void AwaitReady(const std::string& address, const std::string& expected) {
  const absl::Time deadline = absl::Now() + kPatience;
  while (Health(address, "tributary.ready") != expected &&
         absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(20));
  }
  EXPECT_EQ(Health(address, "tributary.ready"), expected);
}

class PodTest : public testing::Test {
 protected:
  PodTest() {
    job_ = TinyJob("mlp", folder_);
    // Shared memory would bypass the token.
    job_.mutable_exchange()->set_transport(ExchangeSpec::WIRE);
    job_.mutable_checkpoint()->set_every_steps(1000);
    job_.mutable_output()->set_log_every_steps(1);
    WriteWholeFile(folder_ + "/job.textproto", job_.DebugString());
    WriteWholeFile(folder_ + "/token", kOldToken);
  }

  std::unique_ptr<BackgroundCommand> StartServer(const std::string& listen,
                                                 int64_t steps) {
    return std::make_unique<BackgroundCommand>(std::vector<std::string>{
        kTributary, "server", folder_ + "/job.textproto", "--steps",
        absl::StrCat(steps), "--listen", listen, "--output", folder_ + "/run",
        "--resume", "auto", "--token-file", folder_ + "/token",
        "--health-listen", "127.0.0.1:0"});
  }

  std::unique_ptr<BackgroundCommand> StartWorker(const std::string& server) {
    return std::make_unique<BackgroundCommand>(
        std::vector<std::string>{kTributary, "worker", "--coordinator", server,
                                 "--threads", "1", "--token-file",
                                 folder_ + "/token", "--health-listen",
                                 "127.0.0.1:0", "--await-resume"},
        std::vector<std::string>{"JOB_COMPLETION_INDEX=0"});
  }

  nlohmann::json Summary(const std::string& run) {
    return nlohmann::json::parse(ReadWholeFile(run + "/summary.json"));
  }

  // Returns the digest of `steps` steps of the job when nothing disturbs it.
  std::string UndisturbedDigest(int64_t steps) {
    const std::string run = folder_ + "/undisturbed";
    RunExpecting(0, {kTributary, "train", folder_ + "/job.textproto", "--steps",
                     absl::StrCat(steps), "--workers", "1", "--output", run});
    return Summary(run)["weights_sha256"];
  }

  const std::string folder_ = MakeTestFolder();
  JobSpec job_;
};

TEST_F(PodTest, AWorkerOutlivesAStoppedServerAndAReplacedToken) {
  // No other process may take it while the server is stopped.
  const ReservedPort port;
  auto server = StartServer(port.address(), kEndless);
  const std::string health = AddressIn(*server, "health checks at ");
  EXPECT_EQ(Health(health, ""), "SERVING");
  AwaitReady(health, "SERVING");
  const auto worker = StartWorker(port.address());
  const std::string worker_health = AddressIn(*worker, "health checks at ");
  AwaitReady(worker_health, "SERVING");
  ASSERT_TRUE(AwaitLines(folder_ + "/run/metrics.jsonl", 20));

  // The new server knows only the new token, and the worker learns it later.
  WriteWholeFile(folder_ + "/token.new", kNewToken);
  server->Signal(SIGTERM);
  EXPECT_EQ(server->Wait(kPatience).exit_code, 75);
  AwaitReady(worker_health, "NOT_SERVING");
  EXPECT_EQ(Health(worker_health, ""), "SERVING");
  ASSERT_EQ(
      rename((folder_ + "/token.new").c_str(), (folder_ + "/token").c_str()),
      0);
  const std::string run = folder_ + "/run";
  const int64_t steps = Summary(run).value("steps", int64_t{0}) + 500;
  server = StartServer(port.address(), steps);
  const CommandResult served = server->Wait(kPatience);
  EXPECT_EQ(served.exit_code, 0) << served.standard_error;
  // What `kubectl logs -f` shows.
  const std::string last =
      absl::StrCat("\nstep ", steps, "/", steps, " 100% | loss ");
  for (const std::string& line : std::vector<std::string>{
           "waiting: 1 server", "worker 0", " has joined\n", last,
           "\nfinal loss ", "/run/final/model.safetensors\n"}) {
    EXPECT_THAT(served.standard_output, HasSubstr(line));
  }
  const CommandResult ended = worker->Wait(kPatience);
  EXPECT_EQ(ended.exit_code, 0) << ended.standard_error;
  EXPECT_THAT(ended.standard_error, HasSubstr("the job was stopped; joining"));
  EXPECT_EQ(Summary(run)["weights_sha256"], UndisturbedDigest(steps));
}

TEST_F(PodTest, TheWorkerOfRank0ReportsToKubeflow) {
  CertificateRequest request;
  request.common_name = "trainer";
  request.dns_name = "localhost";
  request.not_before = absl::Now() - absl::Hours(1);
  request.not_after = absl::Now() + absl::Hours(1);
  const CertificateAndKey authority = TestAuthority();
  const CertificateAndKey issued = IssueCertificate(request, authority).value();
  WriteWholeFile(folder_ + "/ca.crt", authority.certificate);
  WriteWholeFile(folder_ + "/trainer.pem", issued.certificate);
  WriteWholeFile(folder_ + "/trainer-key.pem", issued.key);
  const BackgroundCommand trainer(
      {"/usr/bin/python3", "tests/deploy/launch/kubeflow/trainer_server.py",
       folder_ + "/trainer.pem", folder_ + "/trainer-key.pem"});
  const std::string line = trainer.AwaitStandardError("port ");
  const std::string port = line.substr(5, line.find('.') - 5);
  auto server = StartServer("127.0.0.1:0", /*steps=*/3000);
  const std::string address = AddressIn(*server, "coordinator listens on ");
  const size_t colon = address.rfind(':');
  BackgroundCommand worker(
      {kTributary, "worker", "--threads", "1", "--token-file",
       folder_ + "/token"},
      {"PET_NNODES=1", "PET_NODE_RANK=0",
       "PET_MASTER_ADDR=" + address.substr(0, colon),
       "PET_MASTER_PORT=" + address.substr(colon + 1),
       absl::StrCat("KUBEFLOW_TRAINER_SERVER_URL=https://localhost:", port,
                    "/ok/status"),
       "KUBEFLOW_TRAINER_SERVER_CA_CERT=" + folder_ + "/ca.crt",
       "KUBEFLOW_TRAINER_SERVER_TOKEN=" + folder_ + "/token"});
  EXPECT_EQ(worker.Wait(kPatience).exit_code, 0) << worker.StandardError();
  EXPECT_EQ(server->Wait(kPatience).exit_code, 0) << server->StandardError();
  EXPECT_THAT(trainer.StandardOutput(),
              HasSubstr("\\\"progressPercentage\\\":100,"));
}

TEST_F(PodTest, AServerTakesItsNumberFromItsPodIfThereAreSeveral) {
  const auto log = [this](const std::string& servers) {
    return std::make_unique<BackgroundCommand>(
        std::vector<std::string>{kTributary, "server", "--servers", servers,
                                 "--coordinator", "127.0.0.1:1", "--listen",
                                 "127.0.0.1:0", "--output", folder_ + "/run"},
        std::vector<std::string>{"JOB_COMPLETION_INDEX=1"});
  };
  EXPECT_THAT(log("2")->AwaitStandardError("shard"),
              HasSubstr("shard 1 from JOB_COMPLETION_INDEX"));
  // The only server is server 0, whatever the number of the pod.
  EXPECT_THAT(log("1")->AwaitStandardError("listens on"),
              HasSubstr("coordinator listens on"));
}

TEST_F(PodTest, NamesAHealthAddressThatCannotBeUsed) {
  const CommandResult malformed =
      RunExpecting(2, {kTributary, "worker", "--health-listen", "29500"});
  EXPECT_THAT(malformed.standard_error, HasSubstr("'29500'"));
  auto server = StartServer("127.0.0.1:0", kEndless);
  const std::string taken = AddressIn(*server, "health checks at ");
  const CommandResult second =
      RunExpecting(1, {kTributary, "worker", "--health-listen", taken});
  EXPECT_THAT(second.standard_error,
              HasSubstr(absl::StrCat("error: cannot listen on ", taken,
                                     " for health checks")));
}

}  // namespace
}  // namespace tributary
