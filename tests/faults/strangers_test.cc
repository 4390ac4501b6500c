// Strangers that connect to a server do not slow its job down, the server's
// memory stays bounded, and afterwards new peers are served at once. Prints a
// row of RESULTS.md for each case.
//
// TRIBUTARY_STRANGERS is the number of strangers. The default of 300 is for a
// test of half a minute on a busy machine; RESULTS.md describes how to measure.
#include "tests/faults/strangers.h"

#include <poll.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/transport/channel.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/rendezvous.grpc.pb.h"
#include "tests/support/certificates.h"
#include "tests/support/command_runner.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::_;
using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr char kToken[] = "0123456789abcdef0123456789abcdef";
// Large enough that a step takes longer than a turn of the scheduler.
constexpr char kJob[] = R"(
model { mlp { hidden: [ 256, 256 ] } loss: MEAN_SQUARED_ERROR }
data { csv { train: "examples/data/waves.train.csv" label_column: -1 } }
batch { global: 1024 micro_batches: 4 }
optimizer { sgd { learning_rate: 0.01 } }
steps: 100000000
evaluation { disabled: true }
exchange { transport: WIRE }
)";

int StrangerCount() {
  constexpr int kFew = 300;
  const char* text = std::getenv("TRIBUTARY_STRANGERS");
  int count = kFew;
  if (text != nullptr) {
    EXPECT_TRUE(absl::SimpleAtoi(text, &count)) << text;
  }
  return count;
}

// The memory by which a server may grow because of `strangers` connections, in
// KiB.
int64_t MostGrowthKb(int strangers) {
  int64_t kb = (96 << 10) + strangers * 32;
#ifdef __SANITIZE_ADDRESS__
  kb += 256 << 10;  // AddressSanitizer keeps this much freed memory.
#endif
  return kb;
}

// With many strangers this is a measurement, which needs an idle machine.
bool IsMeasurement() { return StrangerCount() >= 1000; }

enum class Kind { kIdle, kSlow, kRandom, kOversized, kUnauthenticated };

struct Case {
  const char* name;
  Kind kind;
  bool tls;
};

class StrangersTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    rlimit limit = {};
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    WriteWholeFile(folder_ + "/job.textproto", kJob);
    WriteWholeFile(folder_ + "/token", kToken);
    if (GetParam().tls) {
      tls_ = folder_ + "/tls";
      WriteTlsDirectory(tls_);
    }
    server_ = Start({"server", folder_ + "/job.textproto", "--listen",
                     "127.0.0.1:0", "--output", folder_ + "/run"});
    const std::string line = server_->AwaitStandardError("listens on ");
    address_ = line.substr(line.rfind(' ') + 1);
    ASSERT_TRUE(
        absl::SimpleAtoi(address_.substr(address_.rfind(':') + 1), &port_))
        << server_->StandardError();
    worker_ = Start({"worker", "--coordinator", address_, "--threads", "1"});
    status_ = Connect(kToken);
    AwaitStep(20);
  }

  std::unique_ptr<BackgroundCommand> Start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), kTributary);
    arguments.insert(arguments.end(), {"--token-file", folder_ + "/token"});
    if (!tls_.empty()) {
      arguments.insert(arguments.end(), {"--tls-dir", tls_});
    }
    return std::make_unique<BackgroundCommand>(arguments);
  }

  // Returns a stub with its own connection, as a worker has.
  std::unique_ptr<Rendezvous::Stub> Connect(const std::string& token) {
    return Rendezvous::NewStub(
        CreateChannel(address_, TestSecurity(tls_, Role::kWorker, token)));
  }

  static grpc::Status Ask(Rendezvous::Stub* stub, StatusReply* reply,
                          size_t metadata_bytes = 0) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(20)));
    if (metadata_bytes > 0) {
      context.AddMetadata("x-large", std::string(metadata_bytes, 'x'));
    }
    return stub->GetStatus(&context, StatusRequest(), reply);
  }

  int64_t Step() {
    StatusReply reply;
    const grpc::Status status = Ask(status_.get(), &reply);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return status.ok() ? reply.step() : -1;
  }

  void AwaitStep(int64_t step) {
    const absl::Time deadline = absl::Now() + absl::Seconds(60);
    for (int64_t now = 0; now < step; now = Step()) {
      ASSERT_LT(absl::Now(), deadline);
      ASSERT_GE(now, 0);
      poll(nullptr, 0, /*timeout_ms=*/10);
    }
  }

  // Returns the mean wall time of a step over `window`, or over a longer time
  // if no step ends in it. Also updates the peak of the server's memory.
  absl::Duration StepTime(absl::Duration window) {
    const int64_t first = Step();
    const absl::Time begin = absl::Now();
    while (absl::Now() - begin < window) {
      most_kb_ = std::max(most_kb_, ServerKb());
      poll(nullptr, 0, /*timeout_ms=*/50);
    }
    int64_t last = Step();
    while (last == first && absl::Now() - begin < kCommandPatience) {
      poll(nullptr, 0, /*timeout_ms=*/50);
      last = Step();
    }
    EXPECT_GT(last, first) << "no step within " << absl::Now() - begin;
    return (absl::Now() - begin) / std::max<int64_t>(1, last - first);
  }

  // Returns the first StepTime below `bound` or, if there is none, the smallest
  // of several: on a busy machine, any process may stand still for a while.
  absl::Duration StepTimeBelow(absl::Duration bound, absl::Duration window) {
    constexpr int kMostWindows = 5;
    absl::Duration smallest = StepTime(window);
    for (int i = 1; i < kMostWindows && smallest >= bound; ++i) {
      smallest = std::min(smallest, StepTime(window));
    }
    return smallest;
  }

  // Resident memory of the server, in KiB.
  int64_t ServerKb() const {
    std::ifstream file(absl::StrCat("/proc/", server_->pid(), "/status"));
    std::string word;
    int64_t kb = 0;
    while (file >> word) {
      if (word == "VmRSS:" && file >> kb) break;
    }
    return kb;
  }

  // Matches the errors that gRPC reports, in its own words, if the server
  // closes the connection, for example because there are too many, or has no
  // time for it.
  static testing::Matcher<absl::Status> IsCutOff() {
    return AnyOf(StatusIs(absl::StatusCode::kUnavailable, _),
                 StatusIs(absl::StatusCode::kInternal, _),
                 StatusIs(absl::StatusCode::kUnknown, _),
                 StatusIs(absl::StatusCode::kCancelled, _),
                 StatusIs(absl::StatusCode::kDeadlineExceeded, _));
  }

  std::unique_ptr<Strangers> Let(Kind kind) {
    // The beginning of a connection, which SlowStrangers send byte by byte.
    std::string slow = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    if (!tls_.empty()) slow = std::string("\x16\x03\x01\x02\x00\x01", 6);
    slow.resize(4096, '\0');
    switch (kind) {
      case Kind::kIdle:
        return std::make_unique<SlowStrangers>(port_, StrangerCount(), "");
      case Kind::kSlow:
        return std::make_unique<SlowStrangers>(
            port_, std::min(StrangerCount(), 1000), slow);
      case Kind::kRandom:
        return std::make_unique<RandomStrangers>(port_);
      case Kind::kOversized:
        return std::make_unique<CallingStrangers>([this] {
          StatusReply reply;
          // Metadata of several times the limit, and a message of twice the
          // limit.
          EXPECT_THAT(FromGrpc(Ask(Connect(kToken).get(), &reply, 64 << 10)),
                      AnyOf(StatusIs(absl::StatusCode::kResourceExhausted, _),
                            IsCutOff()));
          SendTooMuch();
        });
      case Kind::kUnauthenticated:
        break;
    }
    return std::make_unique<CallingStrangers>([this] {
      StatusReply reply;
      // Calls without a token are refused, or rejected by the rate limit.
      EXPECT_THAT(FromGrpc(Ask(Connect("").get(), &reply)),
                  AnyOf(StatusIs(absl::StatusCode::kUnauthenticated,
                                 HasSubstr("--token-file")),
                        IsCutOff()));
    });
  }

  void SendTooMuch() {
    const std::unique_ptr<Rendezvous::Stub> stub = Connect(kToken);
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(20)));
    const auto stream = stub->Membership(&context);
    WorkerReport report;
    report.mutable_failure()->set_message(std::string(8 << 20, 'x'));
    stream->Write(report);
    EXPECT_THAT(
        FromGrpc(stream->Finish()),
        AnyOf(StatusIs(absl::StatusCode::kResourceExhausted, _), IsCutOff()));
  }

  const std::string folder_ = MakeTestFolder();
  std::string tls_;
  std::string address_;
  int port_ = 0;
  int64_t most_kb_ = 0;
  std::unique_ptr<BackgroundCommand> server_;
  std::unique_ptr<BackgroundCommand> worker_;
  std::unique_ptr<Rendezvous::Stub> status_;
};

INSTANTIATE_TEST_SUITE_P(
    All, StrangersTest,
    testing::ValuesIn(std::vector<Case>{
        {"Idle", Kind::kIdle, false},
        {"IdleTls", Kind::kIdle, true},
        {"SlowLoris", Kind::kSlow, false},
        {"SlowLorisTls", Kind::kSlow, true},
        {"RandomBytes", Kind::kRandom, false},
        {"RandomBytesTls", Kind::kRandom, true},
        {"OversizedTls", Kind::kOversized, true},
        {"Unauthenticated", Kind::kUnauthenticated, false},
        {"UnauthenticatedTls", Kind::kUnauthenticated, true}}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(StrangersTest, DoNotHoldTheJobUp) {
  const absl::Duration window = absl::Seconds(IsMeasurement() ? 5 : 1);
  // On a busy machine other processes take time, too, so the bound is larger.
  const double most = IsMeasurement() ? 2 : 4;
  const absl::Duration before = StepTime(window);
  const int64_t before_kb = std::exchange(most_kb_, 0);
  absl::Duration during;
  {
    const std::unique_ptr<Strangers> strangers = Let(GetParam().kind);
    // Longer than the handshake timeout, if the strangers run into that.
    during =
        StepTimeBelow(most * before, IsMeasurement() ? 3 * window : window);
  }
  const int64_t during_kb = std::exchange(most_kb_, 0);
  // A new peer is served at once.
  StatusReply reply;
  const absl::Time asked = absl::Now();
  grpc::Status status;
  do {
    status = Ask(Connect(kToken).get(), &reply);
  } while (!status.ok() && absl::Now() - asked < absl::Seconds(20));
  const absl::Duration answer = absl::Now() - asked;
  EXPECT_TRUE(status.ok()) << status.error_message();
  // Before the handshakes of the strangers time out.
  EXPECT_LT(answer, absl::Seconds(8));
  const absl::Duration after = StepTimeBelow(most * before, window);
  absl::PrintF(
      "| %s | %.1f | %.1f | %.1f | %.2f | %d | %d | %.2f |\n", GetParam().name,
      absl::ToDoubleMilliseconds(before), absl::ToDoubleMilliseconds(during),
      absl::ToDoubleMilliseconds(after), absl::FDivDuration(during, before),
      before_kb / 1024, during_kb / 1024, absl::ToDoubleSeconds(answer));

  EXPECT_LT(absl::FDivDuration(during, before), most);
  EXPECT_LT(absl::FDivDuration(after, before), most);
  EXPECT_LT(during_kb - before_kb, MostGrowthKb(StrangerCount()));
}

}  // namespace
}  // namespace tributary
