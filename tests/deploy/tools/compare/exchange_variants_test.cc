#include "deploy/tools/compare/exchange_variants.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

JobSpec Job(const std::string& more = "") {
  const absl::StatusOr<JobSpec> job = ParseJob(
      R"(model { mlp {} } data { random { shape: 4 } }
         batch { global: 8 micro_batches: 4 } steps: 10
         optimizer { sgd { learning_rate: 0.1 } } )" +
          more,
      "test");
  EXPECT_TRUE(job.ok()) << job.status();
  return ResolveJob(*job);
}

std::vector<std::string> Names(const ExchangeVariants& variants) {
  std::vector<std::string> names;
  for (const ExchangeVariant& variant : variants.variants) {
    names.push_back(variant.name);
  }
  return names;
}

std::string ErrorOf(const JobSpec& job, const std::vector<std::string>& names,
                    int servers = 2) {
  const absl::Status status =
      MakeExchangeVariants(job, names, servers, /*workers=*/2).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

TEST(ExchangeVariantsTest, TakesAllThatTheJobAllows) {
  const auto all =
      MakeExchangeVariants(Job("parallel { pipeline { stages: 3 } }"), {},
                           /*servers=*/3, /*workers=*/4);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(Names(*all), ExchangeNames());
  EXPECT_TRUE(all->left_out.empty());
  for (const ExchangeVariant& variant : all->variants) {
    EXPECT_EQ(variant.servers, variant.name == "synchronous_sharded" ? 3 : 1);
    EXPECT_TRUE(ValidateJob(variant.job).ok());
    EXPECT_EQ(
        variant.job.exchange().has_all_reduce(),
        variant.name == "all_reduce" || variant.name == "all_reduce_sharded");
    EXPECT_EQ(variant.job.exchange().all_reduce().shard_optimizer(),
              variant.name == "all_reduce_sharded");
    EXPECT_EQ(variant.job.parallel().pipeline().stages(),
              variant.name == "pipeline" ? 3 : 0);
  }
  const ConsistencySpec& stale =
      all->variants[2].job.exchange().parameter_server().consistency();
  EXPECT_TRUE(stale.has_stale_synchronous());
}

TEST(ExchangeVariantsTest, DividesTheModelOnRequest) {
  const auto others = MakeExchangeVariants(Job(), {}, /*servers=*/2,
                                           /*workers=*/4);
  ASSERT_TRUE(others.ok()) << others.status();
  EXPECT_THAT(Names(*others), Not(Contains("pipeline")));
  const auto variants = MakeExchangeVariants(Job("exchange { all_reduce {} }"),
                                             {"synchronous", "pipeline"},
                                             /*servers=*/1, /*workers=*/4);
  ASSERT_TRUE(variants.ok()) << variants.status();
  EXPECT_FALSE(variants->variants[0].job.parallel().has_pipeline());
  EXPECT_EQ(variants->variants[1].job.parallel().pipeline().stages(), 4);
}

TEST(ExchangeVariantsTest, KeepsTheJobsOwnSettings) {
  const auto variants = MakeExchangeVariants(
      Job(R"(exchange { wire_dtype: FLOAT32 parameter_server {
          chunk_bytes: 65536
          consistency { local_steps { inner_steps: 7 } } } })"),
      {"all_reduce", "local_steps", "synchronous"}, /*servers=*/1,
      /*workers=*/2);
  ASSERT_TRUE(variants.ok()) << variants.status();
  EXPECT_THAT(Names(*variants),
              ElementsAre("all_reduce", "local_steps", "synchronous"));
  for (const ExchangeVariant& variant : variants->variants) {
    EXPECT_EQ(ChunkBytes(variant.job.exchange()), 65536);
  }
  EXPECT_EQ(variants->variants[1]
                .job.exchange()
                .parameter_server()
                .consistency()
                .local_steps()
                .inner_steps(),
            7);
}

TEST(ExchangeVariantsTest, SaysWhyItLeavesSomeOut) {
  const auto halves =
      MakeExchangeVariants(Job("exchange { wire_dtype: BFLOAT16 }"), {},
                           /*servers=*/1, /*workers=*/2);
  ASSERT_TRUE(halves.ok()) << halves.status();
  EXPECT_THAT(Names(*halves),
              ElementsAre("synchronous", "stale_synchronous", "asynchronous",
                          "local_steps", "data_parallel"));
  ASSERT_EQ(halves->left_out.size(), 3u);
  EXPECT_EQ(halves->left_out[0].name, "synchronous_sharded");
  EXPECT_THAT(halves->left_out[0].reason, HasSubstr("--servers 2"));
  EXPECT_EQ(halves->left_out[1].name, "all_reduce");
  EXPECT_THAT(halves->left_out[1].reason, HasSubstr("exchange.wire_dtype"));

  const auto compressed =
      MakeExchangeVariants(Job("exchange { compression { eight_bit {} } }"), {},
                           /*servers=*/2, /*workers=*/2);
  ASSERT_TRUE(compressed.ok()) << compressed.status();
  EXPECT_THAT(Names(*compressed),
              ElementsAre("synchronous", "synchronous_sharded", "local_steps",
                          "data_parallel"));

  const auto replicas = MakeExchangeVariants(Job("recovery { journal: true }"),
                                             {}, /*servers=*/2, /*workers=*/2);
  ASSERT_TRUE(replicas.ok()) << replicas.status();
  EXPECT_THAT(Names(*replicas), ElementsAre("synchronous_sharded"));
}

TEST(ExchangeVariantsTest, RefusesWhatWasAskedForAndCannotBe) {
  EXPECT_THAT(ErrorOf(Job(), {"all_reduced"}),
              HasSubstr("did you mean all_reduce?"));
  EXPECT_THAT(ErrorOf(Job(), {"synchronous", "synchronous"}),
              HasSubstr("twice"));
  EXPECT_THAT(ErrorOf(Job(), {"synchronous_sharded"}, /*servers=*/1),
              HasSubstr("--servers 2 or more"));
  EXPECT_THAT(ErrorOf(Job("exchange { wire_dtype: BFLOAT16 }"), {"all_reduce"}),
              HasSubstr("all_reduce: exchange.wire_dtype"));
  EXPECT_THAT(ErrorOf(Job("recovery { journal: true }"), {}, /*servers=*/1),
              HasSubstr("allows no exchange"));
}

}  // namespace
}  // namespace tributary
