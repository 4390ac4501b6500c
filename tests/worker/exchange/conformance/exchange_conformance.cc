#include "tests/worker/exchange/conformance/exchange_conformance.h"

#include <random>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/support/status_matchers.h"

namespace tributary {

using ::testing::HasSubstr;

namespace {

constexpr int64_t kSteps = ExchangeWorkload::kSteps;

}  // namespace

void ExchangeConformanceTest::Start(const std::string& optimizer) {
  workers_.clear();
  peers_.reset();
  workload_ = std::make_unique<ExchangeWorkload>(optimizer);
  reference_ = std::make_unique<ExchangeReference>(*workload_);
  const int workers = GetParam().workers;
  peers_ = GetParam().make_peers(*workload_, workers);
  ASSERT_NE(peers_, nullptr);
  const std::vector<LeafRange> ranges = ExchangeWorkload::Assign(workers);
  for (int rank = 0; rank < workers; ++rank) {
    workers_.push_back(std::make_unique<ExchangeWorker>(
        workload_.get(), ranges[rank], peers_->gpu(rank)));
  }
  for (int rank = 0; rank < workers; ++rank) {
    auto exchange = peers_->Connect(rank, worker(rank)->sink());
    ASSERT_TRUE(exchange.ok()) << exchange.status();
    worker(rank)->SetExchange(*std::move(exchange));
  }
  for (int rank = 0; rank < workers; ++rank) {
    if (rank == 0 || !GetParam().one_initializes) worker(rank)->PushInitial();
  }
}

void ExchangeConformanceTest::ForEachWorker(
    const std::function<void(ExchangeWorker*)>& body) {
  std::vector<std::thread> threads;
  for (const auto& worker : workers_) {
    threads.emplace_back([&body, w = worker.get()] { body(w); });
  }
  for (std::thread& thread : threads) thread.join();
}

void ExchangeConformanceTest::Train(int64_t begin, int64_t end) {
  ForEachWorker(
      [&](ExchangeWorker* worker) { worker->Train(begin, end, *reference_); });
}

void ExchangeConformanceTest::LosePeer() {
  if (!peers_->LoseServer()) worker(size() - 1)->Leave();
}

// Every worker pushes its nodes from several threads.
TEST_P(ExchangeConformanceTest, EveryVersionHasTheBitsOfOneProcess) {
  for (const std::string optimizer : {"sgd", "adamw", "lamb", "clip", "skip"}) {
    SCOPED_TRACE(optimizer);
    ASSERT_NO_FATAL_FAILURE(Start(optimizer));
    ForEachWorker([&](ExchangeWorker* worker) {
      worker->Train(0, kSteps, *reference_);
      worker->exchange()->Finish();
      EXPECT_EQ(worker->sink()->status(), absl::OkStatus());
    });
  }
}

// One thread pushes the chunks of all nodes of all workers, in a random order
// in which the chunks of each node descend.
TEST_P(ExchangeConformanceTest, TheOrderOfPushesDoesNotChangeTheBits) {
  struct Node {
    ExchangeWorker* worker;
    int node;
    int next_chunk;
    Buffer sum;
  };
  for (const uint32_t seed : {1, 2, 3}) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    ASSERT_NO_FATAL_FAILURE(Start("sgd"));
    std::mt19937 random(seed);
    for (int64_t step = 0; step < kSteps; ++step) {
      std::vector<Node> nodes;
      for (const auto& worker : workers_) {
        ASSERT_TRUE(worker->sink()->AwaitVersion(step));
        for (const int node : worker->nodes()) {
          nodes.push_back(
              {worker.get(), node, chunks() - 1, worker->Compute(step, node)});
        }
      }
      while (!nodes.empty()) {
        const size_t i = random() % nodes.size();
        Node& node = nodes[i];
        node.worker->Push(step, node.node, node.next_chunk, node.sum);
        if (--node.next_chunk < 0) nodes.erase(nodes.begin() + i);
      }
    }
    for (const auto& worker : workers_) {
      ASSERT_TRUE(worker->sink()->AwaitVersion(kSteps));
      worker->ExpectVersion(kSteps, *reference_);
    }
  }
}

TEST_P(ExchangeConformanceTest, FinishSendsEverythingPushed) {
  ASSERT_NO_FATAL_FAILURE(Start("sgd"));
  Train(0, kSteps - 1);
  ForEachWorker([&](ExchangeWorker* worker) {
    worker->PushStep(kSteps - 1);
    const bool first = worker == this->worker(0);
    if (!first) worker->Train(kSteps, kSteps, *reference_);
    worker->exchange()->Finish();
    EXPECT_EQ(worker->sink()->status(), absl::OkStatus());
  });
}

TEST_P(ExchangeConformanceTest, ReleasesEveryArenaThatHasBeenSent) {
  ASSERT_NO_FATAL_FAILURE(Start("sgd"));
  Train(0, kSteps - 1);
  std::vector<std::weak_ptr<float>> arenas;
  for (const auto& worker : workers_) {
    for (const int node : worker->nodes()) {
      const Buffer sum = worker->Compute(kSteps - 1, node);
      arenas.push_back(sum);
      for (int chunk = chunks() - 1; chunk >= 0; --chunk) {
        worker->Push(kSteps - 1, node, chunk, sum);
      }
    }
  }
  ForEachWorker([&](ExchangeWorker* worker) {
    worker->Train(kSteps, kSteps, *reference_);
    worker->exchange()->Finish();
  });
  for (const auto& worker : workers_) worker->Leave();
  for (const auto& arena : arenas) EXPECT_TRUE(arena.expired());
}

TEST_P(ExchangeConformanceTest, MeasuresTheLatencyOfEveryChunk) {
  ASSERT_NO_FATAL_FAILURE(Start("sgd"));
  Train(0, kSteps);
  ForEachWorker([&](ExchangeWorker* worker) {
    worker->exchange()->Finish();
    int64_t count = 0;
    ProcessStatistics statistics;
    worker->exchange()->FillStatistics(&statistics);
    for (const int64_t n : statistics.chunk_latency().count()) count += n;
    // The first steps are not counted.
    EXPECT_EQ(count % chunks(), 0);
    EXPECT_GT(count, 0);
  });
}

TEST_P(ExchangeConformanceTest, DeliversAParkedVersionWhenTheSinkAsksAgain) {
  if (!GetParam().parks) {
    GTEST_SKIP() << "writes only what the sink can take";
  }
  ASSERT_NO_FATAL_FAILURE(Start("sgd"));
  for (const int64_t step : {0, 1}) {
    CheckingSink* const sink = worker(0)->sink();
    ForEachWorker([&](ExchangeWorker* worker) {
      ASSERT_TRUE(worker->sink()->AwaitVersion(step));
      worker->sink()->Park(step + 1);
      worker->PushStep(step);
    });
    sink->AwaitParked();
    for (const auto& worker : workers_) worker->sink()->Unpark();
    for (const auto& worker : workers_) {
      ASSERT_TRUE(worker->sink()->AwaitVersion(step + 1));
      worker->ExpectVersion(step + 1, *reference_);
    }
  }
}

// A worker that is stopped destroys its exchange in the middle of a step, while
// other workers wait for it.
TEST_P(ExchangeConformanceTest, DestroyingItInAStepReportsNoError) {
  ASSERT_NO_FATAL_FAILURE(Start("sgd"));
  Train(0, 1);
  const int node = worker(0)->nodes()[0];
  const Buffer sum = worker(0)->Compute(1, node);
  for (int chunk = chunks() - 1; chunk >= chunks() / 2; --chunk) {
    worker(0)->Push(1, node, chunk, sum);
  }
  for (int rank = 1; rank < size(); ++rank) worker(rank)->PushStep(1);
  worker(0)->Leave();
  EXPECT_EQ(worker(0)->sink()->status(), absl::OkStatus());
}

TEST_P(ExchangeConformanceTest, ALostPeerFailsTheSinkAndNothingHangs) {
  if (GetParam().lost_peer.empty()) GTEST_SKIP() << "has no peer";
  ASSERT_NO_FATAL_FAILURE(Start("sgd"));
  Train(0, 2);
  ExchangeWorker* const survivor = worker(0);
  const int node = survivor->nodes()[0];
  const Buffer sum = survivor->Compute(2, node);
  survivor->Push(2, node, chunks() - 1, sum);
  LosePeer();
  // The workers do not know yet, and complete their parts of the step.
  for (int chunk = chunks() - 2; chunk >= 0; --chunk) {
    survivor->Push(2, node, chunk, sum);
  }
  for (size_t i = 1; i < survivor->nodes().size(); ++i) {
    for (int chunk = chunks() - 1; chunk >= 0; --chunk) {
      survivor->Push(2, survivor->nodes()[i], chunk, sum);
    }
  }
  for (int rank = 1; rank < size(); ++rank) {
    if (worker(rank)->exchange() != nullptr) worker(rank)->PushStep(2);
  }
  const absl::Status lost = survivor->sink()->AwaitFailure();
  EXPECT_THAT(lost, StatusIs(absl::StatusCode::kUnavailable,
                             HasSubstr(GetParam().lost_peer)));
  EXPECT_FALSE(survivor->sink()->AwaitVersion(3));
  // Later calls return, and the first error remains.
  for (int chunk = chunks() - 1; chunk >= 0; --chunk) {
    survivor->Push(3, node, chunk, sum);
  }
  survivor->exchange()->Finish();
  survivor->Leave();
  EXPECT_EQ(survivor->sink()->status(), lost);
}

}  // namespace tributary
