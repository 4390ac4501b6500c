#include "deploy/launch/plan/exchange_plan.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_split.h"
#include "common/plan/exchange_traffic.h"
#include "deploy/launch/plan/plan_units.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr int kChunks = 240;
constexpr int64_t kChunkElements = 1 << 18;

// A model of 252 MB on links of 10 Gbit/s; each worker computes 100 ms.
PlanInputs Inputs(int workers, int servers) {
  PlanInputs inputs;
  inputs.job.set_name("test");
  inputs.job.mutable_batch()->set_micro_batches(16);
  inputs.parameters = kChunks * kChunkElements;
  inputs.chunk_elements.assign(kChunks, kChunkElements);
  inputs.workers = workers;
  inputs.servers = servers;
  inputs.threads = 1;
  inputs.bandwidth = 1.25e9;
  inputs.cores = 2;
  inputs.micro_batch = EvenProfile(0.1 / Turns(inputs), inputs.chunk_elements);
  return inputs;
}

PlannedExchange Row(const PlanInputs& inputs, const std::string& key) {
  const absl::StatusOr<ExchangePlan> plan = PlanExchange(inputs);
  EXPECT_TRUE(plan.ok()) << plan.status();
  for (const PlannedExchange& row : plan->rows) {
    if (row.key == key) return row;
  }
  ADD_FAILURE() << "there is no row " << key;
  return PlannedExchange();
}

double ModelSizes(const PlanInputs& inputs, const PlannedExchange& row) {
  return row.bytes_out / (4.0 * static_cast<double>(inputs.parameters));
}

TEST(ExchangePlanTest, BytesFollowTheLaw) {
  for (const int n : {2, 4, 8, 16}) {
    const PlanInputs inputs = Inputs(n, /*servers=*/n);
    const struct {
      const char* key;
      double law;
    } rows[] = {{"one_server", static_cast<double>(n)},
                {"own_hosts", 1},
                {"worker_hosts", AllReduceLaw(n)},
                {"all_reduce", AllReduceLaw(n)},
                {"one_host", 0}};
    for (const auto& expected : rows) {
      const PlannedExchange row = Row(inputs, expected.key);
      EXPECT_NEAR(ModelSizes(inputs, row), expected.law, 0.002 * n)
          << row.name << " " << n;
      EXPECT_DOUBLE_EQ(row.bytes_in, row.bytes_out) << row.name;
      EXPECT_NEAR(row.link_seconds, row.bytes_out / 1.25e9 / kPayloadShare,
                  1e-9)
          << row.name;
    }
  }
}

// The primary's own gradients and weights stay on its host.
TEST(ExchangePlanTest, ThePrimaryCarriesEverybodyElsesBytes) {
  const PlanInputs inputs = Inputs(8, 1);
  const PlannedExchange primary = Row(inputs, "primary_host");
  EXPECT_NEAR(ModelSizes(inputs, primary), 7, 0.02);
  EXPECT_DOUBLE_EQ(primary.bytes_in, primary.bytes_out);
  EXPECT_EQ(primary.busiest, "worker 0's link");
  EXPECT_EQ(primary.bottleneck, "worker 0's link");
  EXPECT_LT(primary.step_seconds, Row(inputs, "one_server").step_seconds);
  // One worker has nobody to send to.
  EXPECT_EQ(Row(Inputs(1, 1), "primary_host").bytes_out, 0);
}

TEST(ExchangePlanTest, ShardedWeightsAreReceivedTwice) {
  PlanInputs inputs = Inputs(4, 1);
  inputs.job.mutable_parallel()->set_sharded_weights(true);
  const PlannedExchange row = Row(inputs, "one_server");
  EXPECT_NEAR(ModelSizes(inputs, row), 8, 0.02);
  EXPECT_NEAR(row.bytes_out / row.bytes_in, 2, 1e-9);
}

TEST(ExchangePlanTest, RunsThatAreNoSubtreesSendMore) {
  // 16 micro-batches on 3 workers: 5, 5 and 6 of them in 2, 3 and 2 subtrees.
  const PlannedExchange row = Row(Inputs(3, 1), "one_server");
  EXPECT_NEAR(row.bytes_in / row.bytes_out, 7.0 / 3, 1e-6);
}

TEST(ExchangePlanTest, NamesWhatHoldsTheStepUp) {
  PlanInputs inputs = Inputs(4, 4);
  EXPECT_EQ(Row(inputs, "one_server").bottleneck, "the server's link");
  EXPECT_EQ(Row(inputs, "worker_hosts").bottleneck, "every host's link");
  EXPECT_THAT(PlanExchange(inputs)->advice,
              testing::StartsWith("To get faster: exchange.wire_dtype"));
  inputs.servers = 1;
  EXPECT_THAT(PlanExchange(inputs)->advice,
              testing::AllOf(HasSubstr("--servers 4"),
                             HasSubstr("; with exchange.wire_dtype")));
  inputs.bandwidth = 125e9;
  for (const char* key : {"one_server", "worker_hosts", "all_reduce"}) {
    const PlannedExchange row = Row(inputs, key);
    EXPECT_EQ(row.bottleneck, "computing");
    EXPECT_NEAR(row.step_seconds, 0.1, 0.011) << row.name;
  }
  EXPECT_THAT(PlanExchange(inputs)->advice, HasSubstr("hides the exchange"));
  inputs.pass_seconds_per_element = 1e-8;
  EXPECT_EQ(Row(inputs, "one_server").bottleneck,
            "a server's pass over memory");
}

TEST(ExchangePlanTest, FewerServersOnTheirOwnHostsCarryMore) {
  // 240 chunks on 7 servers: the busiest has 35.
  const PlanInputs inputs = Inputs(4, 7);
  EXPECT_NEAR(ModelSizes(inputs, Row(inputs, "own_hosts")), 1, 0.002);
  const PlanInputs two = Inputs(4, 2);
  EXPECT_NEAR(ModelSizes(two, Row(two, "own_hosts")), 2, 0.004);
  EXPECT_EQ(Row(two, "own_hosts").bottleneck, "the servers' links");
}

TEST(ExchangePlanTest, ThreadsShareTheMicroBatches) {
  PlanInputs inputs = Inputs(4, 1);
  inputs.micro_batch = EvenProfile(1, inputs.chunk_elements);
  for (const auto& [threads, turns] :
       std::vector<std::pair<int, int>>{{1, 4}, {2, 2}, {3, 2}, {4, 1}}) {
    inputs.threads = threads;
    EXPECT_DOUBLE_EQ(PlanExchange(inputs)->compute_seconds, turns);
  }
}

TEST(ExchangePlanTest, OneHostSharesItsCores) {
  PlanInputs inputs = Inputs(4, 1);
  // Four workers of 100 ms on two cores.
  EXPECT_NEAR(Row(inputs, "one_host").step_seconds, 0.2, 0.001);
  // And 63 M elements at 1 ns on them.
  inputs.pass_seconds_per_element = 1e-9;
  EXPECT_NEAR(Row(inputs, "one_host").step_seconds, 0.2 + 0.063 / 2, 0.001);
  // With cores for all, the last micro-batch's backward hides the pass
  // and the first one's forward, of 25 ms each.
  inputs.cores = 64;
  EXPECT_NEAR(Row(inputs, "one_host").step_seconds, 0.1 + 0.063 - 0.025, 0.001);
}

TEST(ExchangePlanTest, SmallerNumbersMakeSmallerMessages) {
  PlanInputs inputs = Inputs(4, 1);
  const auto sizes = [&] {
    return ModelSizes(inputs, Row(inputs, "worker_hosts"));
  };
  inputs.job.mutable_exchange()->set_wire_dtype(ExchangeSpec::BFLOAT16);
  EXPECT_NEAR(sizes(), AllReduceLaw(4) / 2, 0.002);
  inputs.job.mutable_exchange()->clear_wire_dtype();
  CompressionSpec* compression =
      inputs.job.mutable_exchange()->mutable_compression();
  compression->mutable_eight_bit();
  EXPECT_NEAR(sizes(), AllReduceLaw(4) * (1 + 4.0 / 256) / 4, 0.002);
  compression->mutable_top_k()->set_fraction(0.01);
  EXPECT_NEAR(sizes(), AllReduceLaw(4) * 0.02, 0.001);
  // An all-reduce cannot add what has no common places.
  EXPECT_NEAR(ModelSizes(inputs, Row(inputs, "all_reduce")), AllReduceLaw(4),
              0.003);
}

TEST(ExchangePlanTest, RowsOfTablesTravelToo) {
  PlanInputs inputs = Inputs(4, 1);
  const PlannedExchange dense = Row(inputs, "one_server");
  inputs.job.mutable_batch()->set_global(1 << 20);
  SparseTableSpec* const table = inputs.job.mutable_sparse()->add_table();
  table->set_name("t");
  table->set_dim(31);
  inputs.job.mutable_sparse()->add_feature()->set_table("t");
  const auto expect = [&](double row_bytes) {
    const PlannedExchange row = Row(inputs, "one_server");
    const double more = row_bytes * (1 << 20);
    EXPECT_NEAR(row.bytes_out - dense.bytes_out, more, 0.001 * more);
    EXPECT_NEAR(row.bytes_in - dense.bytes_in - more, 16.0 * (1 << 20),
                0.001 * more);
  };
  expect(124);
  inputs.job.mutable_sparse()->set_wire_dtype(SparseSpec::INT8);
  expect(32);
}

TEST(ExchangePlanTest, RoundsOfSeveralStepsDivideTheExchange) {
  PlanInputs inputs = Inputs(4, 1);
  const PlannedExchange every = Row(inputs, "one_server");
  LocalStepsSpec* local = inputs.job.mutable_exchange()
                              ->mutable_parameter_server()
                              ->mutable_consistency()
                              ->mutable_local_steps();
  local->set_inner_steps(20);
  const PlannedExchange rounds = Row(inputs, "one_server");
  EXPECT_NEAR(rounds.bytes_out, every.bytes_out / 20, 1);
  EXPECT_NEAR(rounds.link_seconds, every.link_seconds / 20, 1e-6);
  // Nothing leaves before the round's last step; all of it takes 0.86 s.
  EXPECT_NEAR(rounds.step_seconds, 0.1 + 0.86 / 20, 0.003);
  EXPECT_DOUBLE_EQ(PlanExchange(inputs)->compute_seconds, 0.1);
}

TEST(ExchangePlanTest, AsynchronousWorkersComputeStepsSideBySide) {
  PlanInputs inputs = Inputs(4, 1);
  const PlannedExchange every = Row(inputs, "one_server");
  const PlannedExchange ring = Row(inputs, "all_reduce");
  inputs.job.mutable_exchange()
      ->mutable_parameter_server()
      ->mutable_consistency()
      ->mutable_asynchronous();
  const PlannedExchange one = Row(inputs, "one_server");
  // One worker's gradient, and weights for all four.
  EXPECT_NEAR(one.bytes_in, every.bytes_in / 4, 1);
  EXPECT_NEAR(one.bytes_out, every.bytes_out, 1);
  EXPECT_DOUBLE_EQ(PlanExchange(inputs)->compute_seconds, 0.1);
  EXPECT_DOUBLE_EQ(Row(inputs, "all_reduce").step_seconds, ring.step_seconds);
  // More workers than micro-batches are of use.
  inputs.workers = 32;
  EXPECT_DOUBLE_EQ(PlanExchange(inputs)->compute_seconds, 0.1 / 8);
}

TEST(ExchangePlanTest, ClippingCostsOverlap) {
  PlanInputs inputs = Inputs(4, 1);
  const double without = Row(inputs, "one_server").step_seconds;
  inputs.job.set_clip_norm(1);
  EXPECT_GT(Row(inputs, "one_server").step_seconds, 1.5 * without);
}

TEST(ExchangePlanTest, RefusesMoreWorkersThanMicroBatches) {
  const absl::Status status = PlanExchange(Inputs(17, 1)).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument,
                               HasSubstr("--workers 17: ")));
  PlanInputs inputs = Inputs(2, 1);
  inputs.job.mutable_batch()->set_micro_batches(1);
  EXPECT_THAT(std::string(PlanExchange(inputs).status().message()),
              HasSubstr("batch.micro_batches"));
}

TEST(ExchangePlanTest, CountsOneAsOne) {
  PlanInputs inputs = Inputs(1, 1);
  EXPECT_THAT(FormatPlan(inputs, *PlanExchange(inputs)),
              HasSubstr("\n1 worker with 1 thread, links of"));
  inputs = Inputs(2, 1);
  EXPECT_THAT(FormatPlan(inputs, *PlanExchange(inputs)),
              HasSubstr("\n2 workers with 1 thread"));
}

TEST(ExchangePlanTest, TableIsNarrow) {
  const PlanInputs inputs = Inputs(16, 16);
  const std::string text = FormatPlan(inputs, *PlanExchange(inputs));
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    EXPECT_LE(line.size(), 100u) << line;
  }
  EXPECT_THAT(text, HasSubstr("each worker's host"));
}

}  // namespace
}  // namespace tributary
