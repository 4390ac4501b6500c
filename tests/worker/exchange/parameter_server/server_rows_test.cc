#include "worker/exchange/parameter_server/server_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "common/codec/row_codec.h"

namespace tributary {
namespace {

JobSpec Job() {
  JobSpec job;
  job.mutable_exchange()->set_wire_dtype(ExchangeSpec::FLOAT32);
  SparseTableSpec* const table = job.mutable_sparse()->add_table();
  table->set_name("ids");
  table->set_dim(256);
  return job;
}

// Compute threads push the sums of different nodes at the same time.
TEST(ServerRowsTest, ThePartsOfAContributionFollowEachOther) {
  constexpr int kThreads = 2, kPushes = 8;
  absl::Mutex mu;
  ContributionParts parts(RowDimsOf(Job().sparse()), RowEncoding(Job()));
  absl::Status received;
  int contributions = 0;
  const StatedRates rates;
  ServerRows rows(
      Job(), /*servers=*/1, &rates, /*sink=*/nullptr,
      [&](int, const WorkerMessage& message, OutgoingPayload payload, int64_t) {
        {
          absl::MutexLock lock(&mu);
          const RowContribution& part = message.row_contribution();
          received.Update(
              parts.Add(part, {payload.data, payload.bytes, payload.owner})
                  .status());
          if (part.last()) ++contributions;
        }
        std::this_thread::yield();
      });
  // More than two parts.
  auto gradients = std::make_shared<RowGradients>();
  for (uint64_t key = 0; key < 3000; ++key) gradients->keys.push_back(key);
  gradients->values = AllocateBuffer(gradients->rows() * 256);
  std::fill_n(gradients->values.get(), gradients->rows() * 256, 1.f);
  std::vector<std::thread> threads;
  for (int node = 2; node < 2 + kThreads; ++node) {
    threads.emplace_back([&, node] {
      for (int64_t step = 0; step < kPushes; ++step) {
        rows.Push(step, node, /*sample_count=*/1, {gradients});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(received.ok()) << received;
  EXPECT_EQ(contributions, kThreads * kPushes);
}

}  // namespace
}  // namespace tributary
