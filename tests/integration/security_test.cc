// Authentication: a job with certificates and a token trains to the same bits,
// and a peer with wrong credentials receives an error that says what to do.
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/transport/channel.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/parameter_server.pb.h"
#include "proto/rendezvous.pb.h"
#include "tests/support/byte_call.h"
#include "tests/support/certificates.h"
#include "tests/support/local_cluster.h"
#include "tests/support/status_matchers.h"
#include "tests/support/tiny_jobs.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";
constexpr char kHealthCheck[] = "/grpc.health.v1.Health/Check";

std::string SecurityDirectory(const std::string& name) {
  const std::string path = absl::StrCat(
      testing::TempDir(), "/security-",
      testing::UnitTest::GetInstance()->current_test_info()->name(), "-", name);
  std::filesystem::create_directories(path);
  return path;
}

JobSpec Job() {
  JobSpec job = TinyJob("mlp", SecurityDirectory("data"));
  // Shared memory would bypass TLS and the token.
  job.mutable_exchange()->set_transport(ExchangeSpec::WIRE);
  return job;
}

ClusterSecurity SecurityIn(const std::string& tls, const std::string& token) {
  return {TestSecurity(tls, Role::kServer, token),
          TestSecurity(tls, Role::kWorker, token)};
}

// Returns the status of a call with an empty message.
grpc::Status Call(const std::string& address, const Security& security,
                  const std::string& method) {
  return CallInBytes(CreateChannel(address, security), method, "");
}

std::vector<std::string> AllMethods() {
  std::vector<std::string> methods;
  for (const auto* file :
       {WorkerReport::descriptor()->file(), Hello::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        methods.push_back(absl::StrCat("/", file->service(s)->full_name(), "/",
                                       file->service(s)->method(m)->name()));
      }
    }
  }
  return methods;
}

class SecurityTest : public testing::Test {
 protected:
  SecurityTest() : tls_(SecurityDirectory("tls")) {
    WriteTlsDirectory(tls_, authority_, authority_.certificate);
  }

  // Trains the job and returns the digest of its weights.
  std::string Train(const ClusterSecurity& security, int servers) {
    LocalCluster cluster(Job(), servers, /*expected_workers=*/2,
                         SecurityDirectory("run"), security);
    cluster.StartWorker();
    cluster.StartWorker();
    EXPECT_EQ(cluster.Await(), absl::OkStatus());
    return cluster.Summary().value("weights_sha256", "");
  }

  // Returns a cluster whose job waits for workers, with TLS and the token.
  std::unique_ptr<LocalCluster> WaitingCluster(
      const ClusterSecurity& security) {
    return std::make_unique<LocalCluster>(Job(), /*servers=*/1,
                                          /*expected_workers=*/2,
                                          SecurityDirectory("run"), security);
  }

  // Expects that a worker with these credentials gets this error, rather than
  // that it has tried for too long.
  static void ExpectRefused(LocalCluster* cluster, const Security& worker,
                            absl::StatusCode code, const std::string& name) {
    EXPECT_THAT(cluster->AwaitWorker(cluster->StartWorkerWith(worker)),
                StatusIs(code, HasSubstr(name)));
  }

  const CertificateAndKey authority_ = TestAuthority();
  const std::string tls_;
};

TEST_F(SecurityTest, TheResultIsTheSame) {
  const std::string plain = Train({}, /*servers=*/1);
  EXPECT_EQ(plain.size(), 64u);
  EXPECT_EQ(Train(SecurityIn(tls_, kToken), /*servers=*/2), plain);
  EXPECT_EQ(Train(SecurityIn("", kToken), /*servers=*/2), plain);
}

// The kernel protects the Unix socket and shared memory.
TEST_F(SecurityTest, ProcessesOfOneHostMayUseTheSocketAndItsMemory) {
  for (const auto transport :
       {ExchangeSpec::UNIX_SOCKET, ExchangeSpec::MEMORY}) {
    JobSpec job = Job();
    job.mutable_exchange()->set_transport(transport);
    LocalCluster cluster(job, /*servers=*/2, /*expected_workers=*/1,
                         SecurityDirectory("run"), SecurityIn(tls_, kToken));
    cluster.StartWorker();
    EXPECT_EQ(cluster.Await(), absl::OkStatus());
  }
}

TEST_F(SecurityTest, EveryMethodRefusesWhoHasNoToken) {
  std::vector<std::string> methods = AllMethods();
  methods.push_back(kHealthCheck);
  for (const std::string& tls : {std::string(), tls_}) {
    const auto cluster = WaitingCluster(SecurityIn(tls, kToken));
    for (const std::string& method : methods) {
      for (const char* token : {"", "0123456789abcdef"}) {
        const grpc::Status status =
            Call(cluster->coordinator(),
                 TestSecurity(tls, Role::kServer, token), method);
        EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED)
            << method << ": " << status.error_message();
        EXPECT_THAT(status.error_message(), HasSubstr("--token-file"));
        EXPECT_EQ(status.error_message().find(kToken), std::string::npos);
      }
    }
    EXPECT_EQ(HealthOf(CreateChannel(cluster->coordinator(),
                                     TestSecurity(tls, Role::kAdmin, kToken)),
                       ""),
              "SERVING");
  }
}

TEST_F(SecurityTest, EveryMethodRefusesWhoHasNoCertificate) {
  const auto cluster = WaitingCluster(SecurityIn(tls_, ""));
  std::vector<std::string> methods = AllMethods();
  methods.push_back(kHealthCheck);
  for (const std::string& method : methods) {
    EXPECT_EQ(Call(cluster->coordinator(), Security(), method).error_code(),
              grpc::StatusCode::UNAVAILABLE)
        << method;
  }
}

TEST_F(SecurityTest, EveryMethodRefusesTheWrongRole) {
  const auto cluster = WaitingCluster(SecurityIn(tls_, ""));
  int refused = 0;
  for (const std::string& method : AllMethods()) {
    const grpc::Status status =
        Call(cluster->coordinator(), TestSecurity(tls_, Role::kAdmin), method);
    if (status.error_code() == grpc::StatusCode::PERMISSION_DENIED) {
      ++refused;
      EXPECT_THAT(status.error_message(), HasSubstr("certificate for admin"));
    }
  }
  EXPECT_EQ(refused, 3);  // An admin may get the status and read weights.
}

TEST_F(SecurityTest, MethodsThatAreNotThereAreRefused) {
  const auto cluster = WaitingCluster({});
  for (const char* method : {"/tributary.Rendezvous/Stop",
                             "/grpc.channelz.v1.Channelz/GetServers"}) {
    EXPECT_EQ(Call(cluster->coordinator(), Security(), method).error_code(),
              grpc::StatusCode::PERMISSION_DENIED);
  }
}

TEST_F(SecurityTest, WrongCredentialsAreRefusedAndNamed) {
  const std::string other = SecurityDirectory("other");
  WriteTlsDirectory(other);
  // It trusts the server, but the server does not trust it.
  const std::string stranger = SecurityDirectory("stranger");
  WriteTlsDirectory(stranger, TestAuthority(), authority_.certificate);
  const std::string expired = SecurityDirectory("expired");
  WriteTlsDirectory(expired, authority_, authority_.certificate,
                    absl::Minutes(30));
  const auto worker = [](const std::string& tls) {
    return TestSecurity(tls, Role::kWorker);
  };
  const ClusterSecurity right = SecurityIn(tls_, "");
  const ClusterSecurity impostor = {worker(tls_), worker(tls_)};
  constexpr auto kFailed = absl::StatusCode::kFailedPrecondition;
  const struct {
    ClusterSecurity servers;
    Security worker;
    absl::StatusCode code;
    const char* name;
  } kCases[] = {
      {right, Security(), kFailed, "add --tls-dir"},
      {{}, worker(tls_), kFailed, "the server does not speak TLS"},
      {right, worker(other), kFailed, "the server's certificate is refused"},
      {right, worker(stranger), kFailed, "the server refuses"},
      {SecurityIn(expired, ""), worker(tls_), kFailed, "expired"},
      {right, worker(expired), kFailed, "the server refuses"},
      {impostor, worker(tls_), kFailed, "the peer is not a server"},
      {right, TestSecurity(tls_, Role::kAdmin),
       absl::StatusCode::kPermissionDenied, "one for worker"},
      {SecurityIn(tls_, kToken), TestSecurity(tls_, Role::kWorker, "another"),
       absl::StatusCode::kUnauthenticated, "token"},
  };
  for (const auto& wrong : kCases) {
    SCOPED_TRACE(wrong.name);
    const auto cluster = WaitingCluster(wrong.servers);
    ExpectRefused(cluster.get(), wrong.worker, wrong.code, wrong.name);
  }
}

// New connections use the new files; existing connections stay open.
TEST_F(SecurityTest, FilesAreReadAgainWhileTheJobRuns) {
  const std::string mine = SecurityDirectory("mine");
  WriteTlsDirectory(mine, authority_, authority_.certificate);
  const auto cluster = WaitingCluster(
      {TestSecurity(tls_, Role::kServer), TestSecurity(mine, Role::kWorker)});
  cluster->StartWorker();
  const auto old =
      CreateChannel(cluster->coordinator(), TestSecurity(mine, Role::kWorker));
  ASSERT_TRUE(old->WaitForConnected(
      absl::ToChronoTime(absl::Now() + absl::Seconds(20))));

  const CertificateAndKey next = TestAuthority();
  WriteTlsDirectory(tls_, next, next.certificate);
  const std::string theirs = SecurityDirectory("theirs");
  WriteTlsDirectory(theirs, next, next.certificate);
  // The worker's credentials are from the new authority. It joins once the
  // server has read its files again, and completes the job with the first
  // worker.
  const auto renewed = CreateChannel(cluster->coordinator(),
                                     TestSecurity(theirs, Role::kWorker));
  ASSERT_TRUE(renewed->WaitForConnected(
      absl::ToChronoTime(absl::Now() + absl::Seconds(30))));
  ExpectRefused(cluster.get(), TestSecurity(mine, Role::kWorker),
                absl::StatusCode::kFailedPrecondition,
                "the server's certificate is refused");
  EXPECT_EQ(old->GetState(/*try_to_connect=*/false), GRPC_CHANNEL_READY);
}

}  // namespace
}  // namespace tributary
