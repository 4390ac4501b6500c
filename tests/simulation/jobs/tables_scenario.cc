#include "tests/simulation/jobs/tables_scenario.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/parameters/arena_layout.h"
#include "tests/simulation/jobs/tiny_network.h"

namespace tributary::simulation {
namespace {

void SetRule(Random* random, SparseTableSpec* table) {
  const double decay = random->Chance(0.3) ? 0.01 : 0;
  switch (random->Uniform(0, 4)) {
    case 0:
      table->mutable_row_wise_adagrad()->set_learning_rate(0.05);
      table->mutable_row_wise_adagrad()->set_weight_decay(decay);
      break;
    case 1:
      table->mutable_adagrad()->set_learning_rate(0.05);
      table->mutable_adagrad()->set_weight_decay(decay);
      break;
    case 2:
      table->mutable_sgd()->set_learning_rate(0.1);
      table->mutable_sgd()->set_momentum(0);
      table->mutable_sgd()->set_weight_decay(decay);
      break;
    case 3:
      table->mutable_adam()->set_learning_rate(0.01);
      break;
    default:
      table->mutable_adamw()->set_learning_rate(0.01);
      table->mutable_adamw()->set_weight_decay(0.1);
  }
}

void AddTable(Random* random, SparseSpec* sparse) {
  SparseTableSpec* const table = sparse->add_table();
  table->set_name(absl::StrCat("table", sparse->table_size()));
  table->set_dim(static_cast<int>(random->Uniform(1, 4)));
  table->set_buckets(static_cast<int>(random->Uniform(1, 6)));
  if (random->Chance(0.3)) table->set_normal(0.5);
  SetRule(random, table);
  if (random->Chance(0.3)) {
    table->mutable_admission()->set_min_count(random->Uniform(2, 4));
  }
  if (random->Chance(0.3)) {
    table->mutable_expiry()->set_unused_steps(random->Uniform(1, 6));
  }
  if (random->Chance(0.3)) table->set_capacity(random->Uniform(1, 40));
}

}  // namespace

void MakeTablesJob(Random* random, JobSpec* job) {
  // The worker's sources create other data and another network.
  job->mutable_model()->mutable_wide_and_deep()->add_hidden(4);
  job->mutable_data()->mutable_clicks();
  job->mutable_exchange()
      ->mutable_parameter_server()
      ->mutable_consistency()
      ->mutable_synchronous();
  const int64_t micro_batches = int64_t{1} << random->Uniform(0, 3);
  job->mutable_batch()->set_global(4 * micro_batches);
  job->mutable_batch()->set_micro_batches(micro_batches);
  job->set_steps(random->Uniform(15, 40));
  SparseSpec* const sparse = job->mutable_sparse();
  const int64_t tables = random->Uniform(1, 2);
  for (int64_t i = 0; i < tables; ++i) AddTable(random, sparse);
  const int64_t features = random->Uniform(2, 3);
  for (int64_t i = 0; i < features; ++i) {
    SparseFeatureSpec* const feature = sparse->add_feature();
    feature->set_column(absl::StrCat("feature", i));
    // Each table is read.
    const int64_t table = i < tables ? i : random->Uniform(0, tables - 1);
    feature->set_table(sparse->table(static_cast<int>(table)).name());
    feature->set_pooling(static_cast<SparseFeatureSpec::Pooling>(
        random->Uniform(SparseFeatureSpec::SUM, SparseFeatureSpec::NONE)));
    feature->set_shared_keys(true);
  }
  sparse->set_fixed_lag(
      static_cast<int>(random->Chance(0.15) ? 2 : random->Uniform(0, 1)));
}

void MakeTablesCluster(Random* random, Scenario* scenario) {
  scenario->table = BuildTinyNetwork(scenario->seed, scenario->job.sparse(),
                                     /*on_layer=*/nullptr)
                        .table();
  // With large chunks, some servers have none.
  const int64_t chunk =
      kArenaAlignment * (random->Chance(0.3) ? 16 : random->Uniform(1, 4));
  scenario->table.set_chunk_elements(chunk);
  scenario->job.mutable_exchange()->mutable_parameter_server()->set_chunk_bytes(
      chunk * static_cast<int64_t>(sizeof(float)));
  scenario->late_rows = random->Chance(0.5) ? 0.1 : 0;
  // Some jobs begin without all of their workers.
  scenario->expected_workers =
      std::max(1, scenario->workers - (random->Chance(0.3) ? 1 : 0));
}

}  // namespace tributary::simulation
