#include "common/job/exchange_traits.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "common/job/job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

// Returns the names of the properties that are true of a job with this exchange
// and these other fields.
std::string TraitsOf(const std::string& exchange,
                     const std::vector<std::string>& fields = {}) {
  JobSpec job;
  EXPECT_TRUE(SetField(&job, "exchange={" + exchange + "}").ok()) << exchange;
  for (const std::string& field : fields) {
    EXPECT_TRUE(SetField(&job, field).ok()) << field;
  }
  const ExchangeTraits traits = ResolveExchange(job);
  const std::pair<bool, const char*> properties[] = {
      {traits.servers_update, "servers_update"},
      {traits.workers_shard_optimizer, "workers_shard_optimizer"},
      {traits.workers_exchange_directly, "workers_exchange_directly"},
      {traits.servers_hold_replicas, "servers_hold_replicas"},
      {traits.fixed_members, "fixed_members"},
      {traits.whole_batches, "whole_batches"},
      {traits.one_version_per_round, "one_version_per_round"},
      {traits.local_sgd, "local_sgd"},
      {traits.updates_await_norm, "updates_await_norm"},
      {traits.updates_await_trust_ratios, "updates_await_trust_ratios"},
      {traits.contributions_await_norm, "contributions_await_norm"},
      {traits.contributions_answered, "contributions_answered"},
  };
  std::vector<std::string> names;
  for (const auto& [value, name] : properties) {
    if (value) names.push_back(name);
  }
  return absl::StrJoin(names, " ");
}

std::string InMode(const std::string& mode) {
  return "parameter_server { consistency { " + mode + " } }";
}

TEST(ExchangeTraitsTest, AreThoseOfTheExchange) {
  const std::string synchronous = "servers_update one_version_per_round";
  for (const std::string& exchange :
       {std::string(), InMode(""), InMode("synchronous {}"),
        InMode("stale_synchronous { staleness: 0 }")}) {
    EXPECT_EQ(TraitsOf(exchange), synchronous) << exchange;
  }
  EXPECT_EQ(TraitsOf(InMode("stale_synchronous {}")), "servers_update");
  EXPECT_EQ(TraitsOf(InMode("asynchronous {}")),
            "servers_update whole_batches contributions_answered");
  EXPECT_EQ(TraitsOf(InMode("local_steps {}")), synchronous + " local_sgd");
  EXPECT_EQ(TraitsOf("all_reduce {}"),
            "workers_exchange_directly servers_hold_replicas fixed_members "
            "one_version_per_round");
  EXPECT_EQ(TraitsOf("all_reduce { shard_optimizer: true }"),
            "workers_shard_optimizer workers_exchange_directly "
            "servers_hold_replicas fixed_members one_version_per_round");
}

TEST(ExchangeTraitsTest, ClippingAndSkippingAwaitTheNorm) {
  const auto awaits = [](const std::string& exchange,
                         const std::string& field) {
    const std::string traits = TraitsOf(exchange, {field});
    if (traits.find("updates_await_norm") != std::string::npos) {
      return "updates";
    }
    return traits.find("contributions_await_norm") != std::string::npos
               ? "contributions"
               : "nothing";
  };
  for (const std::string& exchange :
       {InMode(""), InMode("stale_synchronous {}"),
        std::string("all_reduce {}")}) {
    EXPECT_EQ(awaits(exchange, "clip_norm=1"), "updates") << exchange;
    EXPECT_EQ(awaits(exchange, "on_nonfinite=SKIP"), "updates") << exchange;
  }
  EXPECT_EQ(awaits(InMode("asynchronous {}"), "clip_norm=1"), "contributions");
  EXPECT_EQ(awaits(InMode("asynchronous {}"), "on_nonfinite=SKIP"),
            "contributions");
  // Local SGD clips its inner steps, but skips whole rounds.
  EXPECT_EQ(awaits(InMode("local_steps {}"), "clip_norm=1"), "nothing");
  EXPECT_EQ(awaits(InMode("local_steps {}"), "on_nonfinite=SKIP"), "updates");
}

TEST(ExchangeTraitsTest, LambAwaitsTrustRatiosAndTheNorm) {
  const std::string lamb = "optimizer.lamb={learning_rate: 0.1}";
  for (const std::string& exchange :
       {InMode(""), InMode("stale_synchronous {}"),
        std::string("all_reduce {}")}) {
    EXPECT_THAT(TraitsOf(exchange, {lamb}),
                HasSubstr("updates_await_norm updates_await_trust_ratios"))
        << exchange;
  }
}

TEST(ExchangeTraitsTest, ReplicasHoldUpdatesBackAndAreKeptByServers) {
  EXPECT_EQ(TraitsOf(InMode("local_steps {}"), {"recovery.journal=true"}),
            "servers_update servers_hold_replicas one_version_per_round "
            "local_sgd updates_await_norm");
}

TEST(ExchangeTraitsTest, HaveKindNameAndNumbers) {
  const auto resolve = [](const std::string& exchange) {
    JobSpec job;
    EXPECT_TRUE(SetField(&job, "exchange={" + exchange + "}").ok()) << exchange;
    return ResolveExchange(job);
  };
  const struct {
    std::string exchange;
    ExchangeKind kind;
    int64_t staleness = 0;
    int64_t steps_per_round = 1;
  } kCases[] = {
      {InMode("synchronous {}"), ExchangeKind::kSynchronous},
      {InMode("stale_synchronous { staleness: 0 }"),
       ExchangeKind::kSynchronous},
      {InMode("stale_synchronous { staleness: 3 }"),
       ExchangeKind::kBoundedStaleness, 3},
      {InMode("asynchronous {}"), ExchangeKind::kAsynchronous},
      {InMode("local_steps { inner_steps: 7 }"), ExchangeKind::kLocalSteps, 0,
       7},
      {"all_reduce {}", ExchangeKind::kAllReduce},
  };
  for (const auto& expected : kCases) {
    const ExchangeTraits traits = resolve(expected.exchange);
    EXPECT_EQ(traits.kind, expected.kind) << expected.exchange;
    EXPECT_EQ(traits.staleness, expected.staleness) << expected.exchange;
    EXPECT_EQ(traits.steps_per_round, expected.steps_per_round);
    EXPECT_STREQ(traits.name, expected.kind == ExchangeKind::kAllReduce
                                  ? "all_reduce"
                                  : "parameter_server");
  }
}

}  // namespace
}  // namespace tributary
