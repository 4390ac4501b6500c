// Measures transfers of 1 MiB at one boundary between two processes on one
// host, over each transport: the time from the call of Send to the return of
// Receive, and the time for each transfer if many follow each other. Usage:
//   stage_transfers [BYTES]
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/base/limits.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/os/logger.h"
#include "worker/exchange/stages/network/stage_connection.h"
#include "worker/exchange/stages/network/stage_connector.h"
#include "worker/exchange/stages/network/stage_host.h"

namespace tributary {
namespace {

constexpr int kSlots = 4;
constexpr int kMicroBatches = 8;
constexpr int kWarmUp = 100;
constexpr int kCount = 1000;
constexpr auto kForward = StageTransfer::ACTIVATION;
constexpr auto kBackward = StageTransfer::ACTIVATION_GRADIENT;

// One of the two workers, which exchange their addresses over a socket.
class Worker {
 public:
  Worker(int64_t bytes, int64_t self, int64_t other)
      : plan_(*TransferPlan::Create(
            {{0, kForward, bytes, kSlots}, {0, kBackward, bytes, kSlots}},
            kMicroBatches)),
        self_(self),
        other_(other),
        admission_({"job", "model", plan_.signature(), self}),
        data_(static_cast<size_t>(bytes), 'x') {
    LogOptions quiet;
    quiet.standard_error = false;
    log_ = *Logger::Create(quiet);
    inbox_.BeginEpoch(1, 0);
    admission_.SetPeers(1, {{other, "secret"}});
  }

  absl::Status Connect(ExchangeSpec::Transport transport, int socket) {
    StageHost::Options options;
    options.listen = "127.0.0.1:0";
    options.limits = kDefaultLimits;
    options.log = log_.get();
    TRIBUTARY_ASSIGN_OR_RETURN(host_, StageHost::Start(options));
    host_->Serve({&plan_, &inbox_, &admission_});
    const std::string own =
        absl::StrCat(host_->address(), "\n", host_->local_address().host(),
                     "\n", host_->local_address().address());
    char text[1000];
    if (write(socket, own.data(), own.size()) < 0) abort();
    const ssize_t size = read(socket, text, sizeof(text));
    const std::vector<std::string> lines = absl::StrSplit(
        absl::string_view(text, std::max<ssize_t>(size, 0)), '\n');
    if (lines.size() != 3) return absl::InternalError("the other has ended");
    StageConnection connection;
    connection.plan = &plan_;
    connection.hello.set_job_id("job");
    connection.hello.set_signature("model");
    connection.hello.set_plan_signature(plan_.signature());
    connection.hello.set_sender(self_);
    connection.hello.set_receiver(other_);
    connection.hello.set_secret("secret");
    connection.hello.set_epoch(1);
    connection.address = lines[0];
    connection.local.set_host(lines[1]);
    connection.local.set_address(lines[2]);
    connection.transport = transport;
    connection.connect = GrpcStageConnector(/*security=*/{});
    TRIBUTARY_ASSIGN_OR_RETURN(link_,
                               OpenStageLink(connection, [] { return false; }));
    link_->BeginEpoch(1, 0);
    return absl::OkStatus();
  }

  absl::Status Send(int i, StageTransfer::Kind kind) {
    return link_->Send(1, KeyOf(i, kind), {}, {data_});
  }
  absl::Status Receive(int i, StageTransfer::Kind kind) {
    TRIBUTARY_RETURN_IF_ERROR(
        inbox_.Receive(1, other_, KeyOf(i, kind)).status());
    if (i % kMicroBatches == kMicroBatches - 1) {
      inbox_.EndStep(/*epoch=*/1, i / kMicroBatches - 1);
    }
    return absl::OkStatus();
  }
  absl::Status Flush() { return link_->Flush(); }

 private:
  static TransferKey KeyOf(int i, StageTransfer::Kind kind) {
    return {i / kMicroBatches, i % kMicroBatches, 0, kind};
  }

  const TransferPlan plan_;
  const int64_t self_;
  const int64_t other_;
  std::unique_ptr<Logger> log_;
  TransferInbox inbox_;
  StageAdmission admission_;
  std::unique_ptr<StageHost> host_;
  std::unique_ptr<StreamStageLink> link_;
  const std::string data_;
};

double CpuSeconds() {
  double seconds = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage;
    getrusage(who, &usage);
    for (const timeval& time : {usage.ru_utime, usage.ru_stime}) {
      seconds += static_cast<double>(time.tv_sec) + 1e-6 * time.tv_usec;
    }
  }
  return seconds;
}

// Answers each transfer, and then only receives.
absl::Status Answer(Worker* worker) {
  int i = 0;
  for (; i < kWarmUp + kCount; ++i) {
    TRIBUTARY_RETURN_IF_ERROR(worker->Receive(i, kForward));
    TRIBUTARY_RETURN_IF_ERROR(worker->Send(i, kBackward));
  }
  for (; i < kWarmUp + 2 * kCount; ++i) {
    TRIBUTARY_RETURN_IF_ERROR(worker->Receive(i, kForward));
  }
  return worker->Flush();
}

absl::Status Measure(Worker* worker, const char* name) {
  std::vector<double> micros;
  int i = 0;
  for (; i < kWarmUp + kCount; ++i) {
    const absl::Time begin = MonotonicNow();
    TRIBUTARY_RETURN_IF_ERROR(worker->Send(i, kForward));
    TRIBUTARY_RETURN_IF_ERROR(worker->Receive(i, kBackward));
    if (i < kWarmUp) continue;
    micros.push_back(absl::ToDoubleMicroseconds(MonotonicNow() - begin) / 2);
  }
  const absl::Time begin = MonotonicNow();
  for (; i < kWarmUp + 2 * kCount; ++i) {
    TRIBUTARY_RETURN_IF_ERROR(worker->Send(i, kForward));
  }
  TRIBUTARY_RETURN_IF_ERROR(worker->Flush());
  const double each =
      absl::ToDoubleMicroseconds(MonotonicNow() - begin) / kCount;
  std::sort(micros.begin(), micros.end());
  std::printf(
      "%-12s one way: median %.0f us, 90 %% below %.0f us; one after the "
      "other: "
      "%.0f us each",
      name, micros[kCount / 2], micros[kCount * 9 / 10], each);
  return absl::OkStatus();
}

absl::Status Run(ExchangeSpec::Transport transport, int64_t bytes) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) {
    return absl::InternalError("no socket pair");
  }
  const double before = CpuSeconds();
  // Each in a process of its own, because gRPC must not be forked.
  for (const int side : {0, 1}) {
    const pid_t child = fork();
    if (child != 0) continue;
    absl::Status status;
    {
      Worker worker(bytes, 1 + side, 2 - side);
      status = worker.Connect(transport, sockets[side]);
      if (status.ok()) {
        status = side == 0
                     ? Measure(&worker,
                               ExchangeSpec::Transport_Name(transport).c_str())
                     : Answer(&worker);
      }
      // Neither ends before the other one has all.
      char end = 0;
      if (write(sockets[side], &end, 1) < 0 || read(sockets[side], &end, 1) < 0)
        status.Update(absl::InternalError("the other has ended"));
    }
    std::fflush(stdout);
    if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
    _exit(status.ok() ? 0 : 1);
  }
  close(sockets[0]);
  close(sockets[1]);
  bool good = true;
  for (int i = 0; i < 2; ++i) {
    int status = 0;
    good = wait(&status) > 0 && status == 0 && good;
  }
  std::printf("; %.0f us of CPU time for each of both processes together\n",
              (CpuSeconds() - before) * 1e6 / (3 * kCount + 2 * kWarmUp));
  return good ? absl::OkStatus() : absl::InternalError("a process has failed");
}

}  // namespace
}  // namespace tributary

int main(int argc, char** argv) {
  int64_t bytes = 1 << 20;
  if (argc > 1 && !absl::SimpleAtoi(argv[1], &bytes)) return 2;
  using tributary::ExchangeSpec;
  for (const auto transport :
       {ExchangeSpec::MEMORY, ExchangeSpec::UNIX_SOCKET, ExchangeSpec::WIRE}) {
    std::fflush(stdout);
    if (!tributary::Run(transport, bytes).ok()) return 1;
  }
  return 0;
}
