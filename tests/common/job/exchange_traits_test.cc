#include "common/job/exchange_traits.h"

#include <string>

#include "common/job/job.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

constexpr const char* kModes[] = {"synchronous {}", "stale_synchronous {}",
                                  "asynchronous {}", "local_steps {}"};

JobSpec Job(const std::string& exchange) {
  JobSpec job;
  const absl::Status status = SetField(&job, "exchange={" + exchange + "}");
  EXPECT_TRUE(status.ok()) << status;
  return job;
}

JobSpec JobWith(const std::string& consistency) {
  return Job("parameter_server { consistency { " + consistency + " } }");
}

TEST(ExchangeTraitsTest, TheKindIsThatOfTheJobFile) {
  const auto kind = [](const JobSpec& job) {
    return ResolveExchange(job).kind;
  };
  EXPECT_EQ(kind(JobSpec()), ExchangeKind::kSynchronous);
  EXPECT_EQ(kind(JobWith("")), ExchangeKind::kSynchronous);
  EXPECT_EQ(kind(JobWith("synchronous {}")), ExchangeKind::kSynchronous);
  EXPECT_EQ(kind(JobWith("stale_synchronous {}")),
            ExchangeKind::kBoundedStaleness);
  EXPECT_EQ(kind(JobWith("stale_synchronous { staleness: 0 }")),
            ExchangeKind::kSynchronous);
  EXPECT_EQ(kind(JobWith("asynchronous {}")), ExchangeKind::kAsynchronous);
  EXPECT_EQ(kind(JobWith("local_steps {}")), ExchangeKind::kLocalSteps);
  EXPECT_EQ(kind(Job("all_reduce {}")), ExchangeKind::kAllReduce);
}

TEST(ExchangeTraitsTest,
     OnlyAllReduceHasFixedMembersAndServersThatDoNotUpdate) {
  for (const char* mode : kModes) {
    const ExchangeTraits traits = ResolveExchange(JobWith(mode));
    EXPECT_TRUE(traits.servers_update) << mode;
    EXPECT_FALSE(traits.fixed_members) << mode;
    EXPECT_FALSE(traits.servers_hold_replicas) << mode;
  }
  const ExchangeTraits traits = ResolveExchange(Job("all_reduce {}"));
  EXPECT_FALSE(traits.servers_update);
  EXPECT_TRUE(traits.fixed_members);
  EXPECT_TRUE(traits.servers_hold_replicas);
}

TEST(ExchangeTraitsTest, OutputNamesTheFieldOfTheExchange) {
  EXPECT_STREQ(ResolveExchange(JobSpec()).name, "parameter_server");
  for (const char* mode : kModes) {
    EXPECT_STREQ(ResolveExchange(JobWith(mode)).name, "parameter_server")
        << mode;
  }
  EXPECT_STREQ(ResolveExchange(Job("all_reduce {}")).name, "all_reduce");
}

TEST(ExchangeTraitsTest, OnlyWorkersOfAnAllReduceExchangeDirectly) {
  for (const char* mode : kModes) {
    EXPECT_FALSE(ResolveExchange(JobWith(mode)).workers_exchange_directly)
        << mode;
  }
  EXPECT_TRUE(ResolveExchange(Job("all_reduce {}")).workers_exchange_directly);
}

TEST(ExchangeTraitsTest, OnlyAllReduceCanShardTheOptimizerOverWorkers) {
  for (const char* mode : kModes) {
    EXPECT_FALSE(ResolveExchange(JobWith(mode)).workers_shard_optimizer)
        << mode;
  }
  EXPECT_FALSE(ResolveExchange(Job("all_reduce {}")).workers_shard_optimizer);
  EXPECT_TRUE(ResolveExchange(Job("all_reduce { shard_optimizer: true }"))
                  .workers_shard_optimizer);
}

TEST(ExchangeTraitsTest, OnlyStaleAndAsynchronousModesMixVersions) {
  const auto one_version = [](const JobSpec& job) {
    return ResolveExchange(job).one_version_per_round;
  };
  EXPECT_TRUE(one_version(JobSpec()));
  EXPECT_TRUE(one_version(JobWith("synchronous {}")));
  EXPECT_TRUE(one_version(JobWith("stale_synchronous { staleness: 0 }")));
  EXPECT_FALSE(one_version(JobWith("stale_synchronous {}")));
  EXPECT_FALSE(one_version(JobWith("asynchronous {}")));
  EXPECT_TRUE(one_version(JobWith("local_steps { inner_steps: 7 }")));
  EXPECT_TRUE(one_version(Job("all_reduce {}")));
}

TEST(ExchangeTraitsTest, EachModeHasItsOwnSteps) {
  const ExchangeTraits bounded =
      ResolveExchange(JobWith("stale_synchronous { staleness: 3 }"));
  EXPECT_EQ(bounded.staleness, 3);
  EXPECT_EQ(bounded.steps_per_round, 1);
  EXPECT_FALSE(bounded.whole_batches);

  const ExchangeTraits asynchronous =
      ResolveExchange(JobWith("asynchronous {}"));
  EXPECT_TRUE(asynchronous.whole_batches);
  EXPECT_TRUE(asynchronous.contributions_answered);
  EXPECT_EQ(asynchronous.staleness, 0);

  const ExchangeTraits local =
      ResolveExchange(JobWith("local_steps { inner_steps: 7 }"));
  EXPECT_EQ(local.steps_per_round, 7);
  EXPECT_TRUE(local.local_sgd);
  EXPECT_FALSE(local.contributions_answered);
}

TEST(ExchangeTraitsTest, WithoutANormNothingWaitsForOne) {
  for (const char* mode : kModes) {
    const ExchangeTraits traits = ResolveExchange(JobWith(mode));
    EXPECT_FALSE(traits.updates_await_norm) << mode;
    EXPECT_FALSE(traits.contributions_await_norm) << mode;
  }
}

TEST(ExchangeTraitsTest, ClippingHoldsUpdatesBackOrWholeBatches) {
  const auto clips = [](JobSpec job) {
    job.set_clip_norm(1);
    return ResolveExchange(job);
  };
  for (const JobSpec& job :
       {JobWith(""), JobWith("stale_synchronous {}"), Job("all_reduce {}")}) {
    EXPECT_TRUE(clips(job).updates_await_norm) << job.ShortDebugString();
    EXPECT_FALSE(clips(job).contributions_await_norm);
  }
  EXPECT_FALSE(clips(JobWith("asynchronous {}")).updates_await_norm);
  EXPECT_TRUE(clips(JobWith("asynchronous {}")).contributions_await_norm);
  // Local SGD clips its inner steps.
  EXPECT_FALSE(clips(JobWith("local_steps {}")).updates_await_norm);
  EXPECT_FALSE(clips(JobWith("local_steps {}")).contributions_await_norm);
}

TEST(ExchangeTraitsTest, SkippingNeedsTheNormInLocalSgdToo) {
  const auto skips = [](JobSpec job) {
    job.set_on_nonfinite(JobSpec::SKIP);
    return ResolveExchange(job);
  };
  EXPECT_TRUE(skips(JobWith("")).updates_await_norm);
  EXPECT_TRUE(skips(JobWith("local_steps {}")).updates_await_norm);
  EXPECT_TRUE(skips(JobWith("asynchronous {}")).contributions_await_norm);
}

TEST(ExchangeTraitsTest, ReplicasHoldUpdatesBackAndAreKeptByServers) {
  JobSpec job = JobWith("local_steps {}");
  job.mutable_recovery()->set_journal(true);
  const ExchangeTraits traits = ResolveExchange(job);
  EXPECT_TRUE(traits.updates_await_norm);
  EXPECT_TRUE(traits.servers_hold_replicas);
  EXPECT_TRUE(traits.servers_update);
}

}  // namespace
}  // namespace tributary
