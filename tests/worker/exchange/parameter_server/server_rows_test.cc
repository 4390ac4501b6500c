#include "worker/exchange/parameter_server/server_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
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
        rows.Push(step, node, /*sample_count=*/1, ToSums({gradients}, {256}));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(received.ok()) << received;
  EXPECT_EQ(contributions, kThreads * kPushes);
}

// A step that an asynchronous worker computes again.
TEST(ServerRowsTest, AnOlderStepDoesNotOvertakeANewerOne) {
  const StatedRates rates;
  std::vector<std::pair<int, int64_t>> sent;
  ServerRows rows(Job(), /*servers=*/2, &rates, /*sink=*/nullptr,
                  [&](int shard, const WorkerMessage& message, OutgoingPayload,
                      int64_t step) {
                    sent.emplace_back(shard, step);
                    EXPECT_TRUE(message.row_contribution().last());
                  });
  auto gradients = std::make_shared<RowGradients>();
  gradients->values = AllocateBuffer(0);
  for (const int64_t step : {6, 5, 7}) {
    rows.Push(step, /*node=*/1, /*sample_count=*/1, ToSums({gradients}, {256}));
  }
  EXPECT_EQ(sent, (std::vector<std::pair<int, int64_t>>{
                      {0, 6}, {1, 6}, {0, 6}, {1, 6}, {0, 7}, {1, 7}}));
}

TEST(ServerRowsTest, RefusesRowsThatNoServerSends) {
  JobSpec job = Job();
  job.mutable_sparse()->set_wire_dtype(SparseSpec::INT8);
  const StatedRates rates;
  ServerRows rows(job, /*servers=*/1, &rates, /*sink=*/nullptr,
                  [](int, const WorkerMessage&, OutgoingPayload, int64_t) {});
  const auto requested = rows.Request(/*version=*/0, {{5, 9}});
  const auto code = [&](Encoding encoding, size_t bytes, char scale,
                        char integer) {
    Rows message;
    message.set_rows(2);
    message.set_encoding(encoding);
    std::string payload(bytes, '\x01');
    // Of the second row.
    payload[257] = scale;
    payload[258] = integer;
    return rows
        .OnRows(0, message,
                ReceivedPayload(payload.data(), payload.size(), nullptr))
        .code();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code(FLOAT32, 514, 1, 1), kInvalid);
  EXPECT_EQ(code(EIGHT_BIT_ROWS, 513, 1, 1), kInvalid);
  EXPECT_EQ(code(EIGHT_BIT_ROWS, 515, 1, 1), kInvalid);
  EXPECT_EQ(code(EIGHT_BIT_ROWS, 514, 0, 1), kInvalid);
  EXPECT_EQ(code(EIGHT_BIT_ROWS, 514, 1, -128), kInvalid);
  EXPECT_EQ(code(EIGHT_BIT_ROWS, 514, 1, 1), absl::StatusCode::kOk);
  // A message without rows after the last one.
  Rows more;
  more.set_first(2);
  more.set_encoding(EIGHT_BIT_ROWS);
  EXPECT_EQ(rows.OnRows(0, more, ReceivedPayload()).code(), kInvalid);
}

}  // namespace
}  // namespace tributary
