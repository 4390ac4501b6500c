// A run mode between fake workers and one fake server, for its tests.
#ifndef TRIBUTARY_TESTS_SERVER_RUN_MODE_RUN_MODE_FIXTURE_H_
#define TRIBUTARY_TESTS_SERVER_RUN_MODE_RUN_MODE_FIXTURE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "server/membership/membership.h"
#include "server/membership/server_roster.h"
#include "server/run_mode/run_mode.h"

namespace tributary {

class RunModeTest : public ::testing::Test {
 protected:
  // The incarnation of no worker.
  static constexpr int64_t kAnyWorker = 1000;

  // Uses a job of 4 micro-batches.
  RunModeTest() {
    job_.mutable_batch()->set_micro_batches(4);
    Enlist enlist;
    EXPECT_TRUE(servers_.Add(enlist, &server_, absl::UnixEpoch()).ok());
  }

  // Creates the run mode of `job_`.
  void Make() { mode_ = CreateRunMode(job_, &membership_, &servers_); }

  // Adds a worker that has received all weights, and returns its incarnation.
  int64_t AddWorker() {
    Join join;
    join.set_rank(-1);  // Any.
    const int64_t worker = membership_.Add(join, absl::UnixEpoch()).incarnation;
    Member* const member = membership_.Find(worker);
    member->link = &links_[worker];
    member->opened = member->synced = true;
    return worker;
  }

  // Returns what a worker reports whose model has `segments` segments, each
  // with a layer and a chunk of its own.
  static Ready ReadyFor(int segments) {
    Ready ready;
    ready.mutable_table()->set_chunk_elements(16);
    for (int i = 0; i < segments; ++i) {
      auto* const parameter = ready.mutable_table()->add_parameter();
      parameter->set_name(absl::StrCat("p", i));
      parameter->add_shape(16);
      parameter->set_group(DECAY);
      StageParameters* const stage = ready.add_segment()->mutable_parameters();
      stage->set_layer_begin(i);
      stage->set_layer_end(i + 1);
      stage->set_chunk_begin(i);
      stage->set_chunk_end(i + 1);
      ChunkRange* const read = stage->add_read_chunk();
      read->set_begin(i);
      read->set_end(i + 1);
    }
    return ready;
  }

  // Returns the orders by which the run mode assigns work, by incarnation.
  std::map<int64_t, std::vector<CoordinatorOrder>> Assign() {
    return mode_->Assign(/*pieces=*/0, absl::UnixEpoch());
  }

  // Returns an order to take a snapshot at `version`.
  static ServerOrder Snapshot(int64_t version) {
    ServerOrder order;
    order.mutable_snapshot()->set_version(version);
    return order;
  }

  // Returns the versions of the snapshots that the server was ordered to take,
  // in the order of the orders.
  std::vector<int64_t> Snapshots() const {
    std::vector<int64_t> versions;
    for (const ServerOrder& order : server_.orders) {
      if (order.has_snapshot()) versions.push_back(order.snapshot().version());
    }
    return versions;
  }

  struct FakeWorkerLink : WorkerLink {
    void Send(const CoordinatorOrder& order) override {
      orders.push_back(order);
    }
    void Close(const absl::Status&) override {}
    std::vector<CoordinatorOrder> orders;
  };
  struct FakeServerLink : ServerLink {
    void Send(const ServerOrder& order) override { orders.push_back(order); }
    void Close(const absl::Status&) override {}
    std::vector<ServerOrder> orders;
  };

  JobSpec job_;
  Membership membership_{/*micro_batches=*/4, absl::Seconds(10)};
  ServerRoster servers_{1};
  FakeServerLink server_;
  std::map<int64_t, FakeWorkerLink> links_;  // Indexed by incarnation.
  std::unique_ptr<RunMode> mode_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SERVER_RUN_MODE_RUN_MODE_FIXTURE_H_
