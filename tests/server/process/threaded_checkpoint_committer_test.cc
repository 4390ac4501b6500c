// Checkpoints on a real disk, for a coordinator that may have been overtaken.
#include "server/process/threaded_checkpoint_committer.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "common/base/thread_pool.h"
#include "common/os/logger.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/checkpoint.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/process/run_output.h"
#include "tests/server/coordinator/coordinator_fixture.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The fixture's model has 3 chunks of 16 floats.
constexpr int64_t kModelBytes = 3 * 16 * sizeof(float);

// Waits for the order that the committer's thread brings about.
class AwaitingServer final : public ServerLink {
 public:
  void Send(const ServerOrder& order) override {
    absl::MutexLock lock(&mu_);
    if (order.has_snapshot()) folder_ = order.snapshot().folder();
  }
  void Close(const absl::Status& status) override {
    absl::MutexLock lock(&mu_);
    closed_ = status;
  }
  std::string AwaitFolder() {
    const auto there = [this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return !folder_.empty();
    };
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&there));
    return folder_;
  }
  absl::Status closed() {
    absl::MutexLock lock(&mu_);
    return closed_;
  }

 private:
  absl::Mutex mu_;
  std::string folder_ ABSL_GUARDED_BY(mu_);
  absl::Status closed_ ABSL_GUARDED_BY(mu_);
};

// A job of two steps on one server, with its run's folder.
class ThreadedCheckpointCommitterTest : public CoordinatorTest {
 protected:
  ThreadedCheckpointCommitterTest() {
    LogOptions options;
    options.standard_error = false;
    options.file = log_path_;
    log_ = *Logger::Create(options);
    output_ = OpenRun();
  }

  std::unique_ptr<RunOutput> OpenRun() {
    return *RunOutput::Create(run_, log_.get());
  }

  // Trains up to the last checkpoint's commit, which waits for `before`.
  void TrainToTheCommit(const std::function<void()>& before) {
    const int64_t attempt = *output_->NextAttempt();
    ThreadedCheckpointCommitter::Options options;
    options.folder = CheckpointsFolder(run_);
    options.retention = {/*keep_last=*/2};
    options.before_commit = [this, attempt] {
      return output_->CheckAttempt(attempt);
    };
    options.log = log_.get();
    ThreadedCheckpointCommitter committer(std::move(options),
                                          std::make_unique<ThreadPool>(1));
    options_.job.mutable_checkpoint()->set_every_steps(1000);
    options_.job.mutable_optimizer()->mutable_sgd()->set_momentum(0);
    options_.checkpoints = &committer;
    Make(/*servers=*/1, /*expected_workers=*/1, /*steps=*/2, /*pieces=*/0,
         /*clip_norm=*/0, /*present=*/0);
    committer.SetCoordinator(coordinator_.get());
    Enlist enlist;
    enlist.set_protocol_version(kProtocolVersion);
    ASSERT_TRUE(coordinator_->AddServer(enlist, &server_).ok());
    Enter(&worker_);
    const std::string folder = server_.AwaitFolder();
    WriteWholeFile(folder + "/model.safetensors",
                   std::string(kModelBytes, 'm'));
    ServerReport report;
    report.mutable_snapshot()->set_version(2);
    report.mutable_snapshot()->set_outcome(SnapshotReport::WRITTEN);
    CheckpointFile* const file = report.mutable_snapshot()->add_file();
    file->set_name("model.safetensors");
    file->set_bytes(bytes_written_);
    file->set_block_bytes(bytes_written_);
    file->add_block_digest(1);
    ASSERT_TRUE(coordinator_->OnServerReport(/*shard=*/0, report).ok());
    before();
    for (const int64_t step : {0, 1}) {
      ASSERT_TRUE(SaySums(/*shard=*/0, step, {1, 1, 1}).ok());
    }
    // Nothing may be asked for while it stops.
    while (coordinator_->AwaitEnding(absl::Milliseconds(1)) ==
               Coordinator::Ending::kNone &&
           coordinator_->GetStatus().phase() == StatusReply::TRAINING) {
    }
    committer.Stop();
  }

  std::vector<CheckpointName> Committed() {
    return *ListCheckpoints(CheckpointsFolder(run_));
  }

  const std::string run_ = MakeTestFolder() + "/run";
  const std::string log_path_ = run_ + ".log";
  std::unique_ptr<Logger> log_;
  std::unique_ptr<RunOutput> output_;
  int64_t bytes_written_ = kModelBytes;
  AwaitingServer server_;
  FakeWorker worker_;
};

TEST_F(ThreadedCheckpointCommitterTest, CommitsWhatTheServersHaveWritten) {
  TrainToTheCommit([] {});
  EXPECT_EQ(coordinator_->GetStatus().checkpoint_failure(), "");
  ASSERT_THAT(Committed(), SizeIs(1));
  EXPECT_EQ(Committed()[0].step, 2);
  EXPECT_TRUE(
      std::filesystem::exists(Committed()[0].path + "/model.safetensors"));
  EXPECT_TRUE(worker_.Got(CoordinatorOrder::kFinished));
  EXPECT_TRUE(coordinator_->status().ok());
}

// Property P4: it stood still, and another one was started in its place.
TEST_F(ThreadedCheckpointCommitterTest, ACoordinatorThatWasOvertakenEnds) {
  TrainToTheCommit([this] { EXPECT_EQ(*OpenRun()->NextAttempt(), 2); });
  EXPECT_EQ(coordinator_->AwaitEnding(absl::ZeroDuration()),
            Coordinator::Ending::kFailed);
  EXPECT_THAT(std::string(coordinator_->status().message()),
              HasSubstr("another coordinator"));
  EXPECT_THAT(Committed(), IsEmpty());
  // Nobody is told that the job is done; all are to join the other one.
  EXPECT_FALSE(worker_.Got(CoordinatorOrder::kFinished));
  for (const absl::Status& closed : {worker_.closed, server_.closed()}) {
    EXPECT_EQ(closed.code(), absl::StatusCode::kAborted);
  }
}

// It may be the disk's fault, which costs no training.
TEST_F(ThreadedCheckpointCommitterTest, NothingIsCommittedByWhoCannotTell) {
  TrainToTheCommit([this] { WriteWholeFile(run_ + "/attempt", "garbage"); });
  EXPECT_THAT(Committed(), IsEmpty());
  EXPECT_TRUE(coordinator_->status().ok());
  EXPECT_THAT(coordinator_->GetStatus().checkpoint_failure(),
              HasSubstr("does not contain a number"));
}

// Users and scripts read the pointer; the job finds its checkpoints without it.
TEST_F(ThreadedCheckpointCommitterTest,
       ACheckpointIsCompleteWithoutThePointer) {
  const std::string pointer = CheckpointsFolder(run_) + "/latest";
  // A file cannot replace a folder.
  TrainToTheCommit([&] { std::filesystem::create_directories(pointer); });
  EXPECT_THAT(Committed(), SizeIs(1));
  EXPECT_EQ(coordinator_->GetStatus().checkpoint_failures(), 0);
  EXPECT_TRUE(worker_.Got(CoordinatorOrder::kFinished));
  EXPECT_THAT(ReadWholeFile(log_path_),
              AllOf(HasSubstr("the checkpoint at step 2 is complete"),
                    HasSubstr(pointer)));
}

// A server that has another disk under the same path.
TEST_F(ThreadedCheckpointCommitterTest, FilesThatAreNotThereAreNotCommitted) {
  ++bytes_written_;
  TrainToTheCommit([] {});
  EXPECT_THAT(Committed(), IsEmpty());
  EXPECT_TRUE(coordinator_->status().ok());
  EXPECT_THAT(coordinator_->GetStatus().checkpoint_failure(),
              HasSubstr("all servers share"));
}

}  // namespace
}  // namespace tributary
