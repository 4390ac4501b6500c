// A coordinator between fake workers and servers, for its tests.
#ifndef TRIBUTARY_TESTS_SERVER_COORDINATOR_COORDINATOR_FIXTURE_H_
#define TRIBUTARY_TESTS_SERVER_COORDINATOR_COORDINATOR_FIXTURE_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/transport/channel.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/checkpoint.pb.h"
#include "server/coordinator/coordinator.h"

namespace tributary {

// Records the coordinator's orders to a worker.
struct FakeWorker : WorkerLink {
  void Send(const CoordinatorOrder& order) override { orders.push_back(order); }
  void Close(const absl::Status& status) override { closed = status; }

  // Returns the newest assignment, or an empty Deal if there is none.
  const Deal& last_assignment() const {
    for (auto it = orders.rbegin(); it != orders.rend(); ++it) {
      if (it->has_deal()) return it->deal();
    }
    static const Deal none;
    return none;
  }
  // Returns true if the worker has received an order of this kind.
  bool Got(CoordinatorOrder::OrderCase kind) const {
    for (const auto& order : orders) {
      if (order.order_case() == kind) return true;
    }
    return false;
  }

  std::vector<CoordinatorOrder> orders;
  absl::Status closed;
  int64_t incarnation = 0;
};

struct FakeServer : ServerLink {
  void Send(const ServerOrder& order) override { orders.push_back(order); }
  void Close(const absl::Status& status) override { closed = status; }
  std::vector<ServerOrder> orders;
  absl::Status closed;
};

// Records the calls of the coordinator. The test calls the coordinator with
// their results.
struct FakeCommitter : CheckpointCommitter {
  void MakeFolder(int64_t step) override { folders.push_back(step); }
  void Commit(const std::string& folder,
              const CheckpointManifest& manifest) override {
    commits.emplace_back(folder, manifest);
  }
  void CommitBest(const std::string& folder,
                  const CheckpointManifest& manifest) override {
    bests.emplace_back(folder, manifest);
  }
  void Discard(const std::string& folder) override {
    discarded.push_back(folder);
  }
  void Warn(int64_t step, const std::string& message) override {
    warnings.push_back(absl::StrCat(step, ": ", message));
  }

  std::vector<int64_t> folders;
  std::vector<std::pair<std::string, CheckpointManifest>> commits;
  std::vector<std::pair<std::string, CheckpointManifest>> bests;
  std::vector<std::string> discarded;
  std::vector<std::string> warnings;
};

// Tests of a coordinator with a fake clock, for a job of 4 micro-batches and a
// model of 3 chunks.
class CoordinatorTest : public ::testing::Test {
 protected:
  // Creates the coordinator of a job of `steps` steps with `servers` servers
  // and `pieces` evaluation pieces. The first `present` servers join at once.
  void Make(int servers, int expected_workers, int64_t steps = 2,
            int64_t pieces = 0, double clip_norm = 0, int present = 2) {
    options_.job.mutable_model()->mutable_mlp();
    options_.job.mutable_batch()->set_global(8);
    options_.job.mutable_batch()->set_micro_batches(4);
    options_.job.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.1);
    options_.job.set_clip_norm(clip_norm);
    options_.job.mutable_output()->set_log_every_steps(1);
    options_.servers = servers;
    options_.expected_workers = expected_workers;
    ready_.Clear();
    ready_.mutable_table()->set_chunk_elements(16);
    for (const char* name : {"a", "b", "c"}) {
      auto* parameter = ready_.mutable_table()->add_parameter();
      parameter->set_name(name);
      parameter->add_shape(16);
      parameter->set_group(DECAY);
    }
    ready_.mutable_data()->set_train_samples(64);
    ready_.mutable_data()->set_steps_per_epoch(8);
    ready_.mutable_data()->set_steps(steps);
    ready_.mutable_data()->set_evaluation_pieces(pieces);
    coordinator_ = std::make_unique<Coordinator>(
        options_, [this] { return now_; },
        [this](const std::string& line) {
          metrics_.push_back(ParseOrderedJson(line));
        });
    for (int shard = 0; shard < std::min(servers, present); ++shard) {
      Enlist enlist;
      enlist.set_protocol_version(kProtocolVersion);
      enlist.set_shard(shard);
      enlist.set_address(shard == 0 ? "" : "10.0.0.2:1");
      EXPECT_TRUE(coordinator_->AddServer(enlist, &servers_[shard]).ok());
    }
  }

  // Advances the clock by `time` in steps of one second. In each step, every
  // worker of `heard` sends a heartbeat, and the coordinator handles a tick.
  void Pass(absl::Duration time, const std::vector<FakeWorker*>& heard = {}) {
    WorkerReport beat;
    beat.mutable_heartbeat();
    for (absl::Duration t; t < time; t += absl::Seconds(1)) {
      now_ += absl::Seconds(1);
      for (FakeWorker* worker : heard) EXPECT_TRUE(Say(worker, beat).ok());
      coordinator_->Tick();
    }
  }

  // Joins as `worker`, requesting `rank`, or any rank if it is -1.
  absl::Status Join(FakeWorker* worker, int rank = -1) {
    class Join join;
    join.set_protocol_version(kProtocolVersion);
    join.set_rank(rank);
    const absl::StatusOr<int64_t> joined =
        coordinator_->AddWorker(join, worker);
    if (!joined.ok()) return joined.status();
    worker->incarnation = *joined;
    return absl::OkStatus();
  }

  // Passes a report of `worker` to the coordinator, and returns the result.
  absl::Status Say(FakeWorker* worker, const WorkerReport& report) {
    return coordinator_->OnWorkerReport(worker->incarnation, report);
  }

  absl::Status SayReady(FakeWorker* worker) {
    WorkerReport report;
    *report.mutable_ready() = ready_;
    return Say(worker, report);
  }

  // Reports for every server that it has been configured.
  void SayConfigured() {
    ServerReport report;
    report.mutable_configured();
    for (int shard = 0; shard < options_.servers; ++shard) {
      EXPECT_TRUE(coordinator_->OnServerReport(shard, report).ok());
    }
  }

  // Reports that `worker` has version 0 of all chunks.
  void SaySynced(FakeWorker* worker) {
    WorkerReport report;
    report.mutable_synced()->set_version(0);
    EXPECT_TRUE(Say(worker, report).ok());
  }

  // Take workers through all states up to Synced. They then receive an
  // assignment if enough workers have joined.
  void Enter(FakeWorker* worker) { EnterAll({worker}); }
  void EnterAll(const std::vector<FakeWorker*>& workers) {
    for (FakeWorker* worker : workers) {
      ASSERT_TRUE(Join(worker).ok());
      ASSERT_TRUE(SayReady(worker).ok());
    }
    SayConfigured();
    for (FakeWorker* worker : workers) SaySynced(worker);
  }

  // Reports the sums of a step for a server. `squares` are the sums of squares
  // of its chunks.
  absl::Status SaySums(int shard, int64_t step,
                       const std::vector<double>& squares) {
    ServerReport report;
    report.mutable_sums()->set_step(step);
    for (const double square : squares) {
      report.mutable_sums()->add_sum_of_squares(square);
    }
    report.mutable_sums()->set_weight(8);
    report.mutable_sums()->set_loss_sum(16);
    return coordinator_->OnServerReport(shard, report);
  }

  Coordinator::Options options_;
  Ready ready_;
  absl::Time now_ = absl::UnixEpoch();
  std::vector<nlohmann::ordered_json> metrics_;
  FakeServer servers_[2];
  std::unique_ptr<Coordinator> coordinator_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SERVER_COORDINATOR_COORDINATOR_FIXTURE_H_
