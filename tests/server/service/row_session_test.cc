#include "server/service/row_session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/optimizer/stated_rates.h"
#include "common/sparse/key_hash.h"
#include "tests/support/executors.h"
#include "tests/support/fake_streams.h"

namespace tributary {
namespace {

constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

JobSpec RowJob() {
  JobSpec job;
  job.mutable_batch()->set_global(4);
  job.mutable_batch()->set_micro_batches(2);
  job.mutable_optimizer()->mutable_sgd()->set_learning_rate(0.1);
  job.mutable_exchange()->set_wire_dtype(ExchangeSpec::FLOAT32);
  for (const char* name : {"a", "b"}) {
    SparseTableSpec* const table = job.mutable_sparse()->add_table();
    table->set_name(name);
    table->set_dim(2);
    table->set_buckets(4);
    table->mutable_row_wise_adagrad()->set_learning_rate(0.1);
  }
  return job;
}

// Server 0 of 2.
class RowSessionTest : public testing::Test {
 protected:
  RowSessionTest() {
    TableEngine::Options options;
    options.job = RowJob();
    options.steps = 3;
    options.servers = 2;
    options.rates = &rates_;
    options.on_sums = [](const StepSums&) {};
    options.on_failure = [](const absl::Status&) {};
    tables_ = TableEngine::Create(std::move(options), &pool_).value();
    RowSession::Options session;
    session.tables = tables_.get();
    session.job = RowJob();
    session.stream = &stream_;
    session.id = 5;
    session.bytes_sent = &bytes_sent_;
    session.begin_sum = [this](int64_t step,
                               int node) -> absl::StatusOr<NodeSum> {
      if (!assigned_) return absl::PermissionDeniedError("not assigned");
      NodeSum sum;
      sum.step = step;
      sum.node = node;
      sum.contributor = 1;
      return sum;
    };
    session.priority = [](int64_t version) { return version + 1; };
    session_ = std::make_unique<RowSession>(std::move(session));
    for (uint64_t key = 0; own_.size() < 4 || other_.size() < 1; ++key) {
      const int bucket = BucketOfHash(KeyHash(key), 4);
      (ServerOfBucket(bucket, 2) == 0 ? own_ : other_).push_back(key);
    }
  }
  ~RowSessionTest() override { session_->Close(); }

  absl::Status Request(int64_t version, const TableKeys& keys) {
    WorkerMessage message;
    message.mutable_rows_request()->set_request(9);
    message.mutable_rows_request()->set_version(version);
    const OutgoingPayload payload =
        PackRequest(keys, message.mutable_rows_request());
    return session_->Handle(
        message, ReceivedPayload(payload.data, payload.bytes, payload.owner));
  }

  // Sends the gradient 1 for the keys of the first table.
  absl::Status Contribute(int64_t step, int node,
                          const std::vector<uint64_t>& keys) {
    auto rows = std::make_shared<RowGradients>();
    rows->keys = keys;
    rows->values = AllocateBuffer(rows->rows() * 2 + 1);
    std::fill_n(rows->values.get(), rows->rows() * 2, 1.f);
    RowContribution header;
    header.set_step(step);
    header.set_node(node);
    header.set_weight(node == 1 ? 4 : 2);
    absl::Status status;
    PackContribution(
        header,
        AllRows(ToSums({rows, std::make_shared<RowGradients>()}, {2, 2})),
        {2, 2}, FLOAT32,
        [&](const RowContribution& part, OutgoingPayload payload) {
          WorkerMessage message;
          *message.mutable_row_contribution() = part;
          status.Update(session_->Handle(
              message,
              ReceivedPayload(payload.data, payload.bytes, payload.owner)));
        });
    pool_.RunAll();
    return status;
  }

  std::optional<SentMessage<ServerMessage>> Read() {
    // A RowSession sends everything by itself.
    struct Nothing {
      bool TakeMore(ServerMessage*) { return false; }
      void OnSent() {}
    } nothing;
    return stream_.Read(&nothing);
  }

  HeldExecutor pool_;
  StatedRates rates_;
  std::unique_ptr<TableEngine> tables_;
  FakeServerStream<ServerMessage> stream_;
  std::atomic<int64_t> bytes_sent_{0};
  std::unique_ptr<RowSession> session_;
  bool assigned_ = true;
  // Keys of this server and of the other one, ascending.
  std::vector<uint64_t> own_, other_;
};

TEST_F(RowSessionTest, AnswersRequestsWhenTheirVersionExists) {
  ASSERT_TRUE(Request(1, {{own_[0], own_[1]}, {}}).ok());
  pool_.RunAll();
  EXPECT_FALSE(Read().has_value());
  ASSERT_TRUE(Contribute(0, 1, {own_[1]}).ok());
  const auto answer = Read();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->message.rows().request(), 9);
  EXPECT_EQ(answer->message.rows().rows(), 2);
  ASSERT_EQ(answer->payload.size(), 2 * 2 * sizeof(float));
  std::vector<float> wanted(4), values(4);
  ASSERT_TRUE(
      tables_->table(0)->Read(1, {own_[0], own_[1]}, wanted.data()).ok());
  std::copy_n(answer->payload.data(), answer->payload.size(),
              reinterpret_cast<char*>(values.data()));
  EXPECT_EQ(values, wanted);
  EXPECT_EQ(bytes_sent_, 16);
}

TEST_F(RowSessionTest, SaysThatAVersionIsGone) {
  for (int step = 0; step < 3; ++step) {
    ASSERT_TRUE(Contribute(step, 1, {own_[0]}).ok());
  }
  ASSERT_TRUE(Request(0, {{own_[0]}, {}}).ok());
  pool_.RunAll();
  const auto answer = Read();
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->message.rows().gone());
}

TEST_F(RowSessionTest, AnnouncesCompleteSteps) {
  session_->Begin();
  EXPECT_EQ(Read()->message.tables_complete().version(), 0);
  ASSERT_TRUE(Contribute(0, 2, {own_[0]}).ok());
  EXPECT_FALSE(Read().has_value());
  ASSERT_TRUE(Contribute(0, 3, {}).ok());
  EXPECT_EQ(Read()->message.tables_complete().version(), 1);
}

TEST_F(RowSessionTest, SendsNothingAfterClose) {
  session_->Begin();
  Read();
  ASSERT_TRUE(Request(1, {{own_[0]}, {}}).ok());
  session_->Close();
  ASSERT_TRUE(Contribute(0, 1, {}).ok());
  EXPECT_FALSE(Read().has_value());
}

TEST_F(RowSessionTest, RefusesWhatNoCorrectWorkerSends) {
  const std::vector<std::vector<uint64_t>> wrong = {
      {own_[1], own_[0]}, {own_[0], own_[0]}, {other_[0]}};
  for (const std::vector<uint64_t>& keys : wrong) {
    EXPECT_EQ(Request(0, {keys, {}}).code(), kInvalid);
    EXPECT_EQ(Request(0, {{}, keys}).code(), kInvalid);
    EXPECT_EQ(Contribute(0, 1, keys).code(), kInvalid);
  }
  EXPECT_EQ(Request(0, {{own_[0]}}).code(), kInvalid);
  EXPECT_EQ(Request(0, {{own_[0]}, {}, {}}).code(), kInvalid);
  EXPECT_EQ(Contribute(2, 1, {own_[0]}).code(),
            absl::StatusCode::kFailedPrecondition);
  assigned_ = false;
  EXPECT_EQ(Contribute(0, 1, {own_[0]}).code(),
            absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(tables_->version(), 0);
}

TEST_F(RowSessionTest, LimitsTheRequestsThatWait) {
  absl::Status status;
  int accepted = 0;
  while (status.ok() && accepted < 100000) {
    status = Request(3, {{own_[0]}, {}});
    ++accepted;
  }
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace tributary
