// The engine of a server with tables.
#include <cstdint>
#include <memory>
#include <utility>

#include "common/base/buffer_pool.h"
#include "common/base/thread_pool.h"
#include "common/sparse/row_gradients.h"
#include "common/update/tables/row_source.h"
#include "common/update/update_engine.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/update/update_engine_fixture.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

UpdateEngine::Options TableOptions() {
  UpdateEngine::Options options;
  options.job.mutable_exchange()
      ->mutable_parameter_server()
      ->mutable_consistency()
      ->mutable_synchronous();
  options.job.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.5);
  options.job.mutable_batch()->set_global(8);
  options.job.mutable_batch()->set_micro_batches(kLeaves);
  SparseTableSpec* const table = options.job.mutable_sparse()->add_table();
  table->set_name("ids");
  table->set_dim(2);
  table->mutable_row_wise_adagrad()->set_learning_rate(0.5);
  options.steps = 9;
  return options;
}

class UpdateEngineTablesTest : public UpdateEngineTest {
 protected:
  // Adds the contribution of one node, which has no rows.
  absl::Status ContributeRows(int64_t step, int node, int64_t contributor = 1) {
    auto rows = std::make_shared<RowGradients>();
    rows->values = AllocateBuffer(0);
    NodeSum sum;
    sum.step = step;
    sum.node = node;
    sum.contributor = contributor;
    sum.sample_count = 2;
    sum.gradient = std::make_shared<RowSource>(TableGradients{rows});
    return engine_->tables()->AddContribution(std::move(sum));
  }
};

TEST_F(UpdateEngineTablesTest, TheTablesAreAPartOfTheCompleteVersion) {
  Start(TableOptions(), Layout());
  ContributeAll(/*step=*/0, 1);
  recorder_.Await(/*version=*/1, /*chunks=*/3);
  EXPECT_EQ(CompleteVersion(*engine_), 0);
  // The chunks wait for step 1.
  EXPECT_EQ(FindMissingWork(*engine_)->step(), 0);
  ASSERT_TRUE(ContributeRows(/*step=*/0, kLeaves).ok());
  EXPECT_EQ(FindMissingWork(*engine_)->step(), 0);
  EXPECT_EQ(FindMissingWork(*engine_)->leaf(), 1);
  for (int leaf = 1; leaf < kLeaves; ++leaf) {
    ASSERT_TRUE(ContributeRows(/*step=*/0, kLeaves + leaf).ok());
  }
  pool_.reset();  // Applies what is complete.
  EXPECT_EQ(CompleteVersion(*engine_), 1);
  EXPECT_EQ(FindMissingWork(*engine_)->step(), 1);
}

TEST_F(UpdateEngineTablesTest, RefusesTheRowsOfARevokedWorker) {
  Start(TableOptions(), Layout());
  ASSERT_TRUE(ContributeRows(/*step=*/0, kLeaves, /*contributor=*/5).ok());
  engine_->Revoke(5);
  EXPECT_EQ(engine_->tables()->FindMissingWork()->leaf(), 0);
  EXPECT_THAT(ContributeRows(/*step=*/0, kLeaves, /*contributor=*/5),
              StatusIs(absl::StatusCode::kAborted, testing::_));
  EXPECT_TRUE(ContributeRows(/*step=*/0, kLeaves, /*contributor=*/6).ok());
}

TEST(NewestPossibleStepTest, AServerMayHaveTablesAndNoChunks) {
  UpdateEngine::Options options = TableOptions();
  options.shard = 3;
  options.servers = 4;
  options.first_version = 7;
  ThreadPool pool(1);
  const auto engine =
      *UpdateEngine::Create(options, Layout(), &pool, [](const StepSums&) {});
  ASSERT_TRUE(engine->chunk_numbers().empty());
  EXPECT_EQ(NewestPossibleStep(*engine), 8);
}

}  // namespace
}  // namespace tributary
