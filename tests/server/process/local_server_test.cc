#include "server/process/local_server.h"

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/metrics/metrics_page.h"
#include "common/metrics/traffic.h"
#include "common/update/aggregation/gradient_source.h"
#include "common/update/chunk_pass.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/replication/replica_network.h"
#include "server/replication/replica_store.h"
#include "tests/support/status_matchers.h"

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
  void Serve(const ServedWeights& weights) override { served = weights.engine; }
  void Refuse(const absl::Status& status) override { refused = status; }
  void TakeArrivals(int64_t, StepSums*) override {}
  Traffic traffic() const override { return bytes; }

  Traffic bytes;
  UpdateEngine* served = nullptr;
  absl::Status refused;
};

ServerOrder TestedOrder() {
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
    writer = own_writer.get();
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
  Queue* writer = nullptr;
  Queue* pool = nullptr;
  std::unique_ptr<LocalServer> server;
};

TEST(LocalServerTest, ServesItsStoreWhenConfigured) {
  Harness harness;
  ASSERT_TRUE(harness.server->Handle(TestedOrder()).ok());
  EXPECT_EQ(harness.streams.served, nullptr);
  harness.pool->RunAll();
  ASSERT_NE(harness.server->engine(), nullptr);
  EXPECT_EQ(harness.streams.served, harness.server->engine());
  ASSERT_EQ(harness.reports.size(), 1u);
  EXPECT_TRUE(harness.reports[0].has_configured());
}

TEST(LocalServerTest, LeavesLearningRateFactorsToInnerSteps) {
  ServerOrder order = TestedOrder();
  Configure* const configure = order.mutable_configure();
  configure->mutable_table()->mutable_parameter(0)->set_learning_rate_factor(
      0.5f);
  ConsistencySpec* const consistency = configure->mutable_job()
                                           ->mutable_exchange()
                                           ->mutable_parameter_server()
                                           ->mutable_consistency();
  for (const bool local_steps : {false, true}) {
    if (local_steps) consistency->mutable_local_steps()->set_inner_steps(2);
    Harness harness;
    ASSERT_TRUE(harness.server->Handle(order).ok());
    harness.pool->RunAll();
    ASSERT_NE(harness.streams.served, nullptr);
    EXPECT_EQ(
        harness.streams.served->layout().parameters()[0].learning_rate_factor,
        local_steps ? 1 : 0.5f);
  }
}

TEST(LocalServerTest, ChecksTheSampleCountsOfContributions) {
  Harness harness;
  ServerOrder order = TestedOrder();
  order.mutable_configure()->mutable_job()->mutable_batch()->set_global(32);
  order.mutable_configure()->set_train_samples(40);
  ASSERT_TRUE(harness.server->Handle(order).ok());
  harness.pool->RunAll();
  UpdateEngine* const engine = harness.streams.served;
  ASSERT_NE(engine, nullptr);
  const auto contribute = [&](int64_t step, int64_t samples) {
    NodeSum sum;
    sum.step = step;
    const Buffer zeros = engine->memory().TakeBuffer();
    std::fill_n(zeros.get(), 16, 0.0f);
    sum.gradient =
        std::make_shared<GradientInMemory>(MemoryView{zeros.get(), zeros});
    sum.sample_count = samples;
    return engine->AddContribution(/*chunk=*/0, std::move(sum));
  };
  for (const int64_t wrong :
       {int64_t{0}, int64_t{31}, int64_t{1000000000000}}) {
    EXPECT_THAT(
        contribute(/*step=*/0, wrong),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 testing::HasSubstr(absl::StrCat("has sample count (weight) ",
                                                 wrong, ", expected 32"))));
  }
  // The second batch of an epoch has 8 samples.
  EXPECT_THAT(std::string(contribute(/*step=*/1, 32).message()),
              testing::HasSubstr("has sample count (weight) 32, expected 8"));
}

// The engine holds a chunk's lock when it copies from a device that fails, and
// the coordinator acquires its own lock before those of chunks.
TEST(LocalServerTest, ReportsTheFailureOfAPassFromItsPool) {
  class BrokenPass final : public ChunkPass {
   public:
    bool brief() const override { return true; }
    absl::StatusOr<double> SumOfSquares(const TreeSum&) override { return 0.0; }
    absl::StatusOr<double> Run(const Arguments&) override {
      return absl::InternalError("the device is broken");
    }
    absl::Status Restore(std::vector<Buffer>) override {
      return absl::OkStatus();
    }
    absl::Status CopyState(absl::Span<const Buffer>) override {
      return absl::OkStatus();
    }
  };
  Harness harness;
  harness.server->UsePasses([](const ChunkPassPlan&) {
    ChunkPasses passes;
    passes.passes.push_back(std::make_unique<BrokenPass>());
    return passes;
  });
  ASSERT_TRUE(harness.server->Handle(TestedOrder()).ok());
  harness.pool->RunAll();
  UpdateEngine* const engine = harness.streams.served;
  ASSERT_NE(engine, nullptr);
  const Buffer zeros = engine->memory().TakeBuffer();
  std::fill_n(zeros.get(), 16, 0.0f);
  ASSERT_TRUE(engine->AddInitial(/*chunk=*/0, zeros).ok());
  NodeSum sum;
  sum.node = 1;
  sum.sample_count = 1;
  sum.gradient =
      std::make_shared<GradientInMemory>(MemoryView{zeros.get(), zeros});
  ASSERT_TRUE(engine->AddContribution(/*chunk=*/0, std::move(sum)).ok());
  EXPECT_EQ(harness.reports.size(), 1u) << "only that it is configured";
  harness.pool->RunAll();
  ASSERT_EQ(harness.reports.size(), 2u);
  EXPECT_THAT(harness.reports[1].failure().message(),
              testing::HasSubstr("the device is broken"));
  EXPECT_EQ(harness.reports[1].failure().exit_code(), 1);
}

TEST(LocalServerTest, RefusesWorkersThatExchangeWithItInAnAllReduce) {
  class Network final : public ReplicaNetwork {
   public:
    void Serve(int64_t) override {}
    void ServeWorkers(int64_t) override {}
    std::unique_ptr<ReplicaStream> Open(
        const std::string&, const JournalHello&,
        std::function<void(const absl::Status&)>) override {
      return nullptr;
    }
    absl::Status Fetch(const std::string&, const ReadJournalRequest&,
                       const ReplicaTarget&) override {
      return absl::UnimplementedError("");
    }
  };
  ReplicaStore replicas;
  Network network;
  Harness harness;
  harness.server->UseReplicas(&replicas, &network);
  ServerOrder order = TestedOrder();
  order.mutable_configure()
      ->mutable_job()
      ->mutable_exchange()
      ->mutable_all_reduce();
  ASSERT_TRUE(harness.server->Handle(order).ok());
  harness.pool->RunAll();
  EXPECT_EQ(harness.streams.served, nullptr);
  EXPECT_THAT(harness.streams.refused,
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       testing::HasSubstr("all_reduce")));
}

TEST(LocalServerTest, CountsItsPartsOfCheckpoints) {
  Harness harness;
  harness.streams.bytes.streams = {1000, 2000};
  harness.streams.bytes.shared_memory = {3000, 4000};
  ASSERT_TRUE(harness.server->Handle(TestedOrder()).ok());
  harness.pool->RunAll();
  UpdateEngine* const engine = harness.server->engine();
  ASSERT_NE(engine, nullptr);
  Buffer values = engine->memory().TakeBuffer();
  std::fill_n(values.get(), 16, 1.f);
  ASSERT_TRUE(engine->AddInitial(0, std::move(values)).ok());
  const auto page = [&] {
    MetricsPage metrics;
    harness.server->AddMetrics(&metrics);
    return metrics.text();
  };
  EXPECT_THAT(
      page(),
      testing::AllOf(
          testing::HasSubstr("tributary_payload_bytes_total{direction=\"sent\","
                             "transport=\"stream\"} 1000\n"),
          testing::HasSubstr("tributary_payload_bytes_total{direction="
                             "\"received\",transport=\"shared_memory\"} "
                             "4000\n"),
          testing::HasSubstr("\ntributary_server_version 0\n"),
          testing::HasSubstr("\ntributary_update_queue_chunks 0\n"),
          testing::HasSubstr("\ntributary_checkpoint_write_seconds_count 0\n"),
          testing::HasSubstr("\ntributary_checkpoint_bytes_total 0\n")));
  ServerOrder order;
  order.mutable_snapshot()->set_version(0);
  order.mutable_snapshot()->set_folder(testing::TempDir());
  ASSERT_TRUE(harness.server->Handle(order).ok());
  harness.pool->RunAll();
  harness.writer->RunAll();
  ASSERT_EQ(harness.reports.size(), 3u);
  const SnapshotReport& written = harness.reports[2].snapshot();
  ASSERT_EQ(written.outcome(), SnapshotReport::WRITTEN) << written.message();
  int64_t bytes = 0;
  for (const CheckpointFile& file : written.file()) bytes += file.bytes();
  EXPECT_GE(bytes, 64);
  EXPECT_THAT(
      page(),
      testing::AllOf(
          testing::HasSubstr("\ntributary_checkpoint_write_seconds_count 1\n"),
          testing::HasSubstr(absl::StrCat("\ntributary_checkpoint_bytes_total ",
                                          bytes, "\n"))));
}

// It did by a null pointer: an attempt that ended right after the order for a
// snapshot took the whole process with it.
TEST(LocalServerTest, EndsWithASnapshotStillQueued) {
  Harness harness;
  ASSERT_TRUE(harness.server->Handle(TestedOrder()).ok());
  harness.pool->RunAll();
  UpdateEngine* const engine = harness.server->engine();
  ASSERT_NE(engine, nullptr);
  Buffer values = engine->memory().TakeBuffer();
  std::fill_n(values.get(), 16, 1.f);
  ASSERT_TRUE(engine->AddInitial(0, std::move(values)).ok());
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
