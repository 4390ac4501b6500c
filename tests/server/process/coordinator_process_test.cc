// The numbers of a coordinator's attempts, on a disk that fails.
#include "server/process/coordinator_process.h"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "common/base/shutdown.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/os/file_system.h"
#include "common/os/logger.h"
#include "common/transport/channel.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/rendezvous.pb.h"
#include "server/coordinator/coordinator.h"
#include "server/process/server_network.h"
#include "server/process/server_options.h"
#include "server/replication/replica_network.h"
#include "server/service/weights_service.h"
#include "tests/support/command_runner.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A disk on which the numbers of attempts may fail to be stored.
class AttemptDisk final : public FaultyFileSystem {
 public:
  using FaultyFileSystem::FaultyFileSystem;
  absl::StatusOr<std::unique_ptr<WritableFile>> Create(
      const std::string& path) override {
    if (absl::StrContains(path, "/attempt.tmp-")) {
      TRIBUTARY_RETURN_IF_ERROR(on_number());
    }
    return FaultyFileSystem::Create(path);
  }

  // Called before a number is stored. If it returns an error, so does the
  // disk.
  std::function<absl::Status()> on_number = [] { return absl::OkStatus(); };
};

class NoLink final : public ServerLink {
 public:
  void Send(const ServerOrder&) override {}
  void Close(const absl::Status&) override {}
};

// Reports when the services of an attempt begin to accept calls.
class FakeServices final : public AttemptServices,
                           private WeightsService,
                           private ReplicaNetwork {
 public:
  explicit FakeServices(std::function<void()> on_listen)
      : on_listen_(std::move(on_listen)) {}

  WeightsService* weights() override { return this; }
  ReplicaNetwork* replicas() override { return this; }
  const LocalAddress& local_address() const override { return address_; }
  absl::StatusOr<std::string> Listen() override {
    on_listen_();
    return std::string("127.0.0.1:1");
  }
  void SetReady(bool) override {}
  void ShutDown(absl::Duration) override {}

 private:
  void Serve(const ServedWeights&) override {}
  void Refuse(const absl::Status&) override {}
  void TakeArrivals(int64_t, StepSums*) override {}
  Traffic traffic() const override { return {}; }

  void Serve(int64_t) override {}
  void ServeWorkers(int64_t) override {}
  std::unique_ptr<ReplicaStream> Open(
      const std::string&, const JournalHello&,
      std::function<void(const absl::Status&)>) override {
    return nullptr;
  }
  absl::Status Fetch(const std::string&, const ReadJournalRequest&,
                     const ReplicaTarget&) override {
    return absl::UnimplementedError("there are no replicas");
  }

  const std::function<void()> on_listen_;
  const LocalAddress address_;
};

class FakeNetwork final : public ServerNetwork {
 public:
  explicit FakeNetwork(std::function<void(Coordinator*)> on_attempt)
      : on_attempt_(std::move(on_attempt)) {}

  std::unique_ptr<AttemptServices> MakeServices(Coordinator* coordinator,
                                                RunRecords*,
                                                ReplicaStore*) override {
    return std::make_unique<FakeServices>(
        [this, coordinator] { on_attempt_(coordinator); });
  }
  absl::StatusOr<std::unique_ptr<EnlistmentStream>> ConnectToCoordinator(
      absl::Duration, const std::function<bool()>&) override {
    return absl::UnimplementedError("this is the coordinator");
  }
  absl::Status ReadWeights(const std::string&, int64_t, const ArenaLayout&,
                           size_t, float*) override {
    return absl::UnimplementedError("there are no weights");
  }

 private:
  const std::function<void(Coordinator*)> on_attempt_;
};

// A job of two servers. Its first attempt loses server 1; its second attempt is
// stopped.
class CoordinatorProcessTest : public testing::Test {
 protected:
  CoordinatorProcessTest() {
    LogOptions log;
    log.standard_error = false;
    log.file = folder_ + "/log";
    log_ = *Logger::Create(log);
    options_.servers = 2;
    options_.job = ResolveJob(*ParseJob(R"(
        model { mlp { hidden: 8 } }
        data { csv { train: "train.csv" } }
        batch { global: 4 micro_batches: 4 }
        optimizer { sgd { learning_rate: 0.1 } }
        steps: 5)",
                                        "job"));
    options_.output_directory = disk_.root();
    options_.network = &network_;
    options_.files = &disk_;
    options_.log = log_.get();
  }

  absl::Status Run() { return RunCoordinator(options_, &shutdown_); }

  // Returns an error for the next `count` numbers, after the first.
  std::function<absl::Status()> FailAfterTheFirst(int count) {
    return [this, left = count]() mutable {
      if (attempts_.empty() || left-- <= 0) return absl::OkStatus();
      return FileError(ENOSPC, "cannot write", "attempt");
    };
  }

  std::string StoredNumber() const {
    return ReadWholeFile(disk_.root() + "/attempt");
  }
  std::string Log() const { return ReadWholeFile(folder_ + "/log"); }

  const std::string folder_ = MakeTestFolder();
  AttemptDisk disk_{MakeTestFolder()};
  Shutdown shutdown_;
  // The numbers of the attempts, and the number that was stored when each
  // began.
  std::vector<std::pair<int64_t, std::string>> attempts_;
  ServerOptions options_;

 private:
  void OnAttempt(Coordinator* coordinator) {
    attempts_.emplace_back(coordinator->GetStatus().attempt(), StoredNumber());
    if (attempts_.size() > 1) {
      shutdown_.Request();
      return;
    }
    Enlist enlist;
    enlist.set_protocol_version(kProtocolVersion);
    enlist.set_shard(1);
    EXPECT_EQ(coordinator->AddServer(enlist, &link_), absl::OkStatus());
    coordinator->ServerGone(1);
  }

  std::unique_ptr<Logger> log_;
  NoLink link_;
  FakeNetwork network_{
      [this](Coordinator* coordinator) { OnAttempt(coordinator); }};
};

using TestedAttempt = std::pair<int64_t, std::string>;

TEST_F(CoordinatorProcessTest, BeginsNoAttemptBeforeItsNumberIsStored) {
  disk_.on_number = FailAfterTheFirst(3);
  EXPECT_THAT(Run(),
              StatusIs(absl::StatusCode::kCancelled, "stopped by request"));
  EXPECT_THAT(attempts_,
              ElementsAre(TestedAttempt(1, "1\n"), TestedAttempt(2, "2\n")));
  EXPECT_THAT(Log(), HasSubstr("cannot write attempt: "));
}

TEST_F(CoordinatorProcessTest, EndsIfTheDiskFailsForTooLong) {
  options_.no_server_timeout = absl::Milliseconds(1);
  disk_.on_number = FailAfterTheFirst(1000);
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kResourceExhausted,
                              HasSubstr("cannot write attempt: ")));
  EXPECT_THAT(attempts_, ElementsAre(TestedAttempt(1, "1\n")));
}

TEST_F(CoordinatorProcessTest, StopsWhileTheDiskFails) {
  disk_.on_number = [this] {
    if (attempts_.empty()) return absl::OkStatus();
    shutdown_.Request();
    return FileError(ENOSPC, "cannot write", "attempt");
  };
  EXPECT_THAT(Run(),
              StatusIs(absl::StatusCode::kCancelled, "stopped by request"));
  EXPECT_THAT(attempts_, ElementsAre(TestedAttempt(1, "1\n")));
}

TEST_F(CoordinatorProcessTest, EndsIfAnotherTakesOverWhileTheDiskFails) {
  disk_.on_number = [this] {
    if (attempts_.empty()) return absl::OkStatus();
    WriteWholeFile(disk_.root() + "/attempt", "3\n");
    return FileError(ENOSPC, "cannot write", "attempt");
  };
  EXPECT_THAT(Run(), StatusIs(absl::StatusCode::kFailedPrecondition));
  EXPECT_THAT(attempts_, ElementsAre(TestedAttempt(1, "1\n")));
  EXPECT_EQ(StoredNumber(), "3\n");
}

}  // namespace
}  // namespace tributary
