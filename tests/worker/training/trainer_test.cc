#include "worker/training/trainer.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <map>
#include <new>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "tests/worker/training/trainer_fixture.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kConsistency[] = "exchange.parameter_server.consistency.";

using TrainerTest = TrainerFixture;

TEST_F(TrainerTest, PushesTheWholeBatchOfEachStepOnceAndFinishes) {
  Make(/*steps=*/7);
  DeliverAll(0);
  EXPECT_EQ(Run(), absl::OkStatus());
  ASSERT_EQ(reports_.size(), 1);
  EXPECT_TRUE(reports_[0].has_synced());
  EXPECT_EQ(reports_[0].synced().version(), 0);
  EXPECT_EQ(steps_done_, 7);
  for (int64_t step = 0; step < 7; ++step) {
    ExpectSums(step, {1}, /*version=*/step);
    EXPECT_EQ(SumsOf(step).at({0, 1}).sample_count, SamplesOf(step));
  }
  // In the order of backward: the exchange relies on chunk 0 being the last.
  for (size_t i = 0; i < pushed_.size(); ++i) {
    const int back = static_cast<int>(i) % chunks();
    EXPECT_EQ(pushed_[i].step, static_cast<int64_t>(i) / chunks());
    EXPECT_EQ(pushed_[i].chunk, chunks() - 1 - back);
  }
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(TrainerTest, SampleCountsAreThoseOfThePredictedTokens) {
  Make(/*steps=*/1,
       {"model.bert={layers: 1 heads: 1 width: 16 context: 8 positions: 8 "
        "vocabulary: 20}",
        "data.random={samples: 16}"});
  Batch batch;
  std::vector<int64_t> all(16);
  std::iota(all.begin(), all.end(), 0);
  setup_->data().ReadTrain(/*epoch=*/0, all, &batch);
  const int64_t predicted =
      std::count_if(batch.labels.begin(), batch.labels.end(),
                    [](int32_t label) { return label >= 0; });
  ASSERT_LT(predicted, 16 * 8);
  DeliverAll(0);
  EXPECT_EQ(Run(), absl::OkStatus());
  EXPECT_EQ(SumsOf(0).at({0, 1}).sample_count, predicted);
}

TEST_F(TrainerTest, ReportsItsProgress) {
  Make(/*steps=*/3, {}, /*threads=*/2);
  DeliverAll(0);
  EXPECT_EQ(Run(), absl::OkStatus());
  EXPECT_EQ(progress_.step(), 2);
  EXPECT_EQ(progress_.statistics().steps(), 3);
  EXPECT_EQ(progress_.statistics().leaves(), 3 * kMicroBatches);
  EXPECT_EQ(progress_.statistics().threads(), 2);
  EXPECT_GT(progress_.statistics().forward_seconds(), 0);
  EXPECT_GT(progress_.statistics().backward_seconds(), 0);
  EXPECT_EQ(progress_.statistics().evaluation_seconds(), 0);
}

TEST_F(TrainerTest, PushesTheLargestSubtreesOfItsMicroBatches) {
  Make(/*steps=*/1);
  on_report_ = [this](const WorkerReport&) {
    Assign(3, kMicroBatches);
    return false;
  };
  // Another worker sends micro-batches 0 to 2 when this one is done.
  on_push_ = [this](const Pushed& pushed) {
    if (pushed_.size() == 2 * static_cast<size_t>(chunks())) {
      DeliverAll(1);
      state_->SetFinished();
    }
    EXPECT_EQ(pushed.step, 0);
    return false;
  };
  DeliverAll(0);
  EXPECT_EQ(Run(), absl::OkStatus());
  ExpectSums(0, {kMicroBatches + 3, 3}, /*version=*/0);
}

TEST_F(TrainerTest, PushesTheSameBitsInTheSameOrderWithAnyNumberOfThreads) {
  std::vector<Pushed> expected;
  for (const int threads : {1, 2, 3, 8, 9}) {
    Make(/*steps=*/3, {}, threads);
    ASSERT_EQ(setup_->threads(), threads);
    DeliverAll(0);
    EXPECT_EQ(Run(), absl::OkStatus());
    if (threads == 1) expected = pushed_;
    EXPECT_TRUE(pushed_ == expected) << threads << " threads";
  }
}

TEST_F(TrainerTest, InitializesTheModelWhenAsked) {
  Make(/*steps=*/1);
  std::vector<float> sent;
  exchange_->on_initial = [&](const float* arena) {
    sent.assign(arena, arena + initial_.size());
    DeliverAll(0);
  };
  state_->RequestInitialize();
  EXPECT_EQ(Run(), absl::OkStatus());
  EXPECT_EQ(sent, initial_);
  ExpectSums(0, {1}, /*version=*/0);
}

// While this worker computes micro-batches 0 to 3 the other one is lost after
// its gradients for chunk 0 only, so that step 1 begins and cannot end.
TEST_F(TrainerTest, GivesUpAStepThatCannotProceedWhenReassigned) {
  Make(/*steps=*/2);
  int arenas = 0;
  on_report_ = [this](const WorkerReport&) {
    Assign(0, 4);
    return false;
  };
  on_push_ = [this](const Pushed& pushed) {
    if (pushed.node == 2 && pushed.chunk == 0) Deliver(1, 0);
    // The version of chunk 0 has arrived already.
    if (pushed.node == 3 && pushed.chunk > 0) Deliver(1, pushed.chunk);
    return pushed.node == 1;
  };
  exchange_->on_take = [this, &arenas] {
    if (++arenas == 5) Assign(0, kMicroBatches);  // Step 1's first.
  };
  DeliverAll(0);
  EXPECT_EQ(Run(), absl::OkStatus());
  ExpectSums(0, {2, 3}, /*version=*/0);
  ExpectSums(1, {1}, /*version=*/1);
  // Nothing of step 1 was pushed before the rest of step 0.
  EXPECT_TRUE(std::is_sorted(
      pushed_.begin(), pushed_.end(),
      [](const Pushed& a, const Pushed& b) { return a.step < b.step; }));
  EXPECT_EQ(arenas, 4 + 1 + 4 + 8);
  EXPECT_EQ(steps_done_, 3);  // Step 0 took two tasks.
}

TEST_F(TrainerTest, EvaluatesTheVersionsThatAreDue) {
  Make(/*steps=*/3,
       {"evaluation.disabled=false", "evaluation.every_steps=2",
        "evaluation.batch=10"},
       /*threads=*/2);
  // 37 held-out rows in pieces of 10.
  ASSERT_EQ(setup_->facts().evaluation_pieces(), 4);
  on_report_ = [this](const WorkerReport& report) {
    // Training waits for the evaluation.
    if (report.has_evaluation()) {
      EXPECT_EQ(pushed_.back().step + 1, report.evaluation().version());
    }
    return true;
  };
  DeliverAll(0);
  EXPECT_EQ(Run(), absl::OkStatus());
  EXPECT_EQ(steps_done_, 3);
  std::map<int64_t, std::map<int64_t, EvaluationReport>> evaluations;
  for (const WorkerReport& report : reports_) {
    if (!report.has_evaluation()) continue;
    const EvaluationReport& piece = report.evaluation();
    EXPECT_TRUE(
        evaluations[piece.version()].emplace(piece.piece(), piece).second);
  }
  ASSERT_EQ(evaluations.size(), 2);
  for (const int64_t version : {2, 3}) {
    ASSERT_EQ(evaluations[version].size(), 4);
    const std::vector<float> weights = WeightsOf(version);
    setup_->RenewWeightCopies();
    for (const auto& [piece, report] : evaluations[version]) {
      Batch batch;
      setup_->data().ReadEvaluation(
          10 * piece, std::min<int64_t>(10 * piece + 10, 37), &batch);
      const auto sums = setup_->model(0)->Evaluate(batch, weights.data());
      ASSERT_TRUE(sums.ok()) << sums.status();
      EXPECT_EQ(report.weight(), batch.samples);
      EXPECT_EQ(report.correct(), sums->correct);
      EXPECT_EQ(report.loss_sum(), sums->loss);
    }
  }
  EXPECT_GT(progress_.statistics().evaluation_seconds(), 0);
}

TEST_F(TrainerTest, EvaluatesOnlyItsPieces) {
  Make(/*steps=*/1, {"evaluation.disabled=false", "evaluation.batch=10"});
  std::vector<int64_t> pieces;
  on_report_ = [&](const WorkerReport& report) {
    if (report.has_synced()) {
      Deal assignment;
      assignment.set_generation(1);
      assignment.set_leaf_end(kMicroBatches);
      assignment.set_piece_begin(1);
      assignment.set_piece_end(3);
      state_->SetAssignment(assignment);
    } else {
      pieces.push_back(report.evaluation().piece());
      if (pieces.size() == 2) state_->SetFinished();
    }
    return false;
  };
  DeliverAll(0);
  EXPECT_EQ(Run(), absl::OkStatus());
  EXPECT_THAT(pieces, ElementsAre(1, 2));
}

// Plays the servers of a job with asynchronous consistency.
class AsynchronousTrainerTest : public TrainerFixture {
 protected:
  // Grants each step once, in order. Refuses step `refused` the first time.
  void Play(int64_t refused) {
    on_report_ = [this](const WorkerReport& report) {
      if (report.has_claim()) {
        ++lease_requests_;
        if (leased_ < setup_->rounds().count()) state_->AddStepLease(leased_++);
      }
      return true;
    };
    on_push_ = [this, refused](const Pushed& pushed) {
      Outcome outcome;
      outcome.set_step(pushed.step);
      outcome.set_chunk(pushed.chunk);
      outcome.set_refused(pushed.step == refused && !refused_done_);
      if (outcome.refused()) {
        refused_done_ = pushed.chunk == 0;
      } else {
        Deliver(++versions_[pushed.chunk], pushed.chunk);
      }
      if (pushed.chunk == 0) {
        lease_requests_at_.push_back(lease_requests_);
        if (versions_[0] == setup_->rounds().count()) state_->SetFinished();
      }
      state_->SetOutcome(outcome);
      return false;
    };
  }

  int lease_requests_ = 0;
  std::vector<int> lease_requests_at_;  // When each step had been pushed.
  int64_t leased_ = 0;
  std::map<int, int64_t> versions_;
  bool refused_done_ = false;
};

TEST_F(AsynchronousTrainerTest, ComputesWholeBatchesOfTheStepsItLeases) {
  Make(/*steps=*/5, {absl::StrCat(kConsistency, "asynchronous={}")});
  Play(/*refused=*/-1);
  DeliverAll(0);
  EXPECT_EQ(Run(), absl::OkStatus());
  for (int64_t step = 0; step < 5; ++step) {
    ExpectSums(step, {1}, /*version=*/step);
    for (const auto& [place, sum] : SumsOf(step)) {
      EXPECT_EQ(sum.base_version, step);
    }
  }
  // Three leases are held before the first step, and one is requested for each
  // that ends.
  EXPECT_THAT(lease_requests_at_, ElementsAre(3, 4, 5, 6, 7));
}

TEST_F(AsynchronousTrainerTest, ComputesARefusedStepAgainFromNewerWeights) {
  Make(/*steps=*/4, {absl::StrCat(kConsistency, "asynchronous={}")});
  Play(/*refused=*/1);
  DeliverAll(0);
  EXPECT_EQ(Run(), absl::OkStatus());
  std::vector<int64_t> order;
  std::vector<int64_t> bases;
  for (const Pushed& pushed : pushed_) {
    if (pushed.chunk != 0) continue;
    order.push_back(pushed.step);
    bases.push_back(pushed.base_version);
  }
  EXPECT_THAT(order, ElementsAre(0, 1, 1, 2, 3));
  EXPECT_THAT(bases, ElementsAre(0, 1, 1, 2, 3));
}

TEST_F(AsynchronousTrainerTest, SendsTheNormOfTheWholeBatchWithEachChunk) {
  Make(/*steps=*/2,
       {absl::StrCat(kConsistency, "asynchronous={}"), "clip_norm=0.5"},
       /*threads=*/2);
  Play(/*refused=*/-1);
  DeliverAll(0);
  EXPECT_EQ(Run(), absl::OkStatus());
  for (int64_t step = 0; step < 2; ++step) {
    double squares = 0;
    const auto sums = SumsOf(step);
    ASSERT_EQ(sums.size(), chunks());
    for (const auto& [place, sum] : sums) {
      for (const double g : sum.gradient) squares += g * g;
    }
    for (const auto& [place, sum] : sums) {
      EXPECT_NEAR(sum.gradient_norm, std::sqrt(squares) / 16, 1e-6);
    }
  }
}

TEST_F(TrainerTest, PushesARoundOfLocalStepsAsOneSum) {
  Make(/*steps=*/3, {absl::StrCat(kConsistency, "local_steps.inner_steps=2")},
       /*threads=*/2);
  ASSERT_EQ(setup_->rounds().count(), 2);
  DeliverAll(0);
  EXPECT_EQ(Run(), absl::OkStatus());
  EXPECT_EQ(steps_done_, 2);
  for (int64_t round = 0; round < 2; ++round) {
    const auto sums = SumsOf(round);
    ASSERT_EQ(sums.size(), chunks());
    for (const auto& [place, sum] : sums) {
      EXPECT_EQ(sum.node, 1);
      EXPECT_EQ(sum.sample_count, round == 0 ? 32 : 16);
      EXPECT_EQ(sum.loss_sum > 0, sum.chunk == 0);
      EXPECT_TRUE(std::any_of(sum.gradient.begin(), sum.gradient.end(),
                              [](float g) { return g != 0; }));
    }
  }
  EXPECT_EQ(progress_.statistics().steps(), 3);
}

TEST_F(TrainerTest, EndsWithTheErrorOfTheState) {
  const absl::Status lost = absl::UnavailableError("server 1 is lost");
  for (const int arenas : {0, 1, 11}) {
    for (const char* inner : {"", "local_steps.inner_steps=2"}) {
      std::vector<std::string> fields;
      if (*inner != 0) fields.push_back(absl::StrCat(kConsistency, inner));
      Make(/*steps=*/4, fields, /*threads=*/2);
      std::atomic<int> taken{0};
      on_report_ = [&](const WorkerReport&) {
        if (arenas == 0) state_->Fail(lost);
        return true;
      };
      exchange_->on_take = [&] {
        if (++taken == arenas) state_->Fail(lost);
      };
      DeliverAll(0);
      EXPECT_EQ(Run(), lost);
      // A step whose weights are there may still be computed.
      EXPECT_LE(steps_done_, (arenas + kMicroBatches - 1) / kMicroBatches);
    }
  }
}

TEST_F(TrainerTest, AnErrorOfTheStateEndsTheWaitForWeights) {
  Make(/*steps=*/2, {}, /*threads=*/2);
  on_push_ = [this](const Pushed& pushed) {
    if (pushed.chunk == 0) Deliver(1, 0);  // The others do not come.
    return false;
  };
  std::atomic<int> taken{0};
  exchange_->on_take = [&] {
    if (++taken <= kMicroBatches) return;
    state_->Fail(absl::UnavailableError("server 1 is lost"));
  };
  DeliverAll(0);
  EXPECT_THAT(Run(),
              StatusIs(absl::StatusCode::kUnavailable, "server 1 is lost"));
  EXPECT_EQ(steps_done_, 1);
  EXPECT_TRUE(SumsOf(1).empty());
}

TEST_F(TrainerTest, ComputesWithFewerThreadsWhenMemoryRunsOut) {
  Make(/*steps=*/2);
  DeliverAll(0);
  EXPECT_EQ(Run(), absl::OkStatus());
  const std::vector<Pushed> expected = pushed_;
  Make(/*steps=*/2, {}, /*threads=*/4);
  // Memory suffices for two arenas at a time.
  exchange_->on_take = [this] {
    if (setup_->threads() > 2) throw std::bad_alloc();
  };
  DeliverAll(0);
  EXPECT_EQ(Run(), absl::OkStatus());
  EXPECT_EQ(setup_->threads(), 2);
  EXPECT_EQ(progress_.statistics().threads(), 2);
  EXPECT_THAT(warnings_,
              ElementsAre("out of host memory: computes 2 micro-batches at a "
                          "time from now on instead of 4; the result stays "
                          "the same"));
  ASSERT_EQ(pushed_.size(), expected.size());
  for (const Pushed& sum : expected) {
    EXPECT_EQ(std::count(pushed_.begin(), pushed_.end(), sum), 1);
  }
}

TEST_F(TrainerTest, FailsWhenOneMicroBatchDoesNotFit) {
  Make(/*steps=*/2, {}, /*threads=*/2);
  exchange_->on_take = [] { throw std::bad_alloc(); };
  DeliverAll(0);
  EXPECT_THAT(
      Run(),
      StatusIs(absl::StatusCode::kResourceExhausted,
               "out of host memory: too little memory for a single micro-batch "
               "of 2 samples; increase batch.micro_batches, which is 8, or "
               "give this worker more memory"));
  EXPECT_TRUE(pushed_.empty());
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("computes 1 micro-batch at")));
}

}  // namespace
}  // namespace tributary
