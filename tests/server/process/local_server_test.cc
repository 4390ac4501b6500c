#include "server/process/local_server.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace tributary {
namespace {

// Runs what it was given when it is told to, or at its end.
class Queue final : public Executor {
 public:
  ~Queue() override { RunAll(); }
  void Run(std::function<void()> task) override {
    tasks_.push_back(std::move(task));
  }
  void RunAll() {
    while (!tasks_.empty()) {
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      task();
    }
  }

 private:
  std::deque<std::function<void()>> tasks_;
};

class NoStreams final : public WeightsService {
 public:
  void Serve(ParameterStore* store, const std::string&, int64_t) override {
    served = store;
  }
  void TakeArrivals(int64_t, StepSums*) override {}
  void CountBytes(ProcessStatistics*) const override {}

  ParameterStore* served = nullptr;
};

ServerOrder ConfigureOrder() {
  ServerOrder order;
  Configure* const configure = order.mutable_configure();
  JobSpec* const job = configure->mutable_job();
  job->mutable_optimizer()->mutable_sgd()->set_learning_rate(0.1);
  job->mutable_batch()->set_global(1);
  job->mutable_batch()->set_micro_batches(1);
  ParameterTable* const table = configure->mutable_table();
  table->set_chunk_elements(16);
  table->add_parameter()->set_name("a");
  table->mutable_parameter(0)->add_shape(16);
  table->mutable_parameter(0)->set_group(DECAY);
  configure->set_servers(1);
  configure->set_steps(2);
  configure->set_attempt(1);
  return order;
}

struct Harness {
  Harness() {
    auto own_writer = std::make_unique<Queue>();
    auto own_pool = std::make_unique<Queue>();
    pool = own_pool.get();
    LocalServer::Executors executors;
    executors.writer = std::move(own_writer);
    executors.pool = std::move(own_pool);
    server = std::make_unique<LocalServer>(
        /*shard=*/0, std::move(executors), FileSystem::Posix(), &streams,
        [this](const ServerReport& report) { reports.push_back(report); });
  }

  NoStreams streams;
  std::vector<ServerReport> reports;
  Queue* pool = nullptr;
  std::unique_ptr<LocalServer> server;
};

TEST(LocalServerTest, ServesItsStoreWhenConfigured) {
  Harness harness;
  ASSERT_TRUE(harness.server->Handle(ConfigureOrder()).ok());
  EXPECT_EQ(harness.streams.served, nullptr);
  harness.pool->RunAll();
  ASSERT_NE(harness.server->store(), nullptr);
  EXPECT_EQ(harness.streams.served, harness.server->store());
  ASSERT_EQ(harness.reports.size(), 1u);
  EXPECT_TRUE(harness.reports[0].has_configured());
}

// It did by a null pointer: an attempt that ended right after the order for a
// snapshot took the whole process with it.
TEST(LocalServerTest, EndsWithASnapshotStillQueued) {
  Harness harness;
  ASSERT_TRUE(harness.server->Handle(ConfigureOrder()).ok());
  harness.pool->RunAll();
  ParameterStore* const store = harness.server->store();
  ASSERT_NE(store, nullptr);
  Buffer values = store->TakeBuffer();
  std::fill_n(values.get(), 16, 1.f);
  ASSERT_TRUE(store->AddInitial(0, std::move(values)).ok());
  ServerOrder order;
  order.mutable_snapshot()->set_version(0);
  order.mutable_snapshot()->set_folder(testing::TempDir());
  ASSERT_TRUE(harness.server->Handle(order).ok());
  harness.server.reset();
  ASSERT_EQ(harness.reports.size(), 3u);
  EXPECT_EQ(harness.reports[1].snapshot().outcome(), SnapshotReport::TAKEN);
  EXPECT_NE(harness.reports[2].snapshot().outcome(), SnapshotReport::TAKEN);
}

}  // namespace
}  // namespace tributary
