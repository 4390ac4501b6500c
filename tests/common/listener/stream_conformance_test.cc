// The contract of common/stream/message_stream.h, which the streams over gRPC
// and those within a process must keep.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/thread_pool.h"
#include "common/listener/listener.h"
#include "common/os/logger.h"
#include "common/stream/local_call.h"
#include "common/stream/message_stream.h"
#include "common/transport/channel.h"
#include "common/transport/grpc_client_stream.h"
#include "common/transport/grpc_server_stream.h"
#include "common/transport/live_calls.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/journal.grpc.pb.h"

namespace tributary {
namespace {

using ::testing::ElementsAre;

using Client = ClientStream<JournalAnswer, JournalMessage>;
using MakeSession =
    std::function<std::unique_ptr<ServerSession<JournalMessage, JournalAnswer>>(
        ServerStream<JournalAnswer>*)>;

// A server and the way to it.
class Transport {
 public:
  virtual ~Transport() = default;
  virtual std::unique_ptr<Client> Open() = 0;
  // Cancels the calls. Returns when they have ended.
  virtual void ShutDown() = 0;
};

class LocalTransport final : public Transport {
 public:
  explicit LocalTransport(MakeSession make) : make_(std::move(make)) {}
  ~LocalTransport() override { ShutDown(); }

  std::unique_ptr<Client> Open() override {
    return LocalCall<JournalMessage, JournalAnswer>::Open(calls_, make_);
  }
  void ShutDown() override { calls_->ShutDown(absl::ZeroDuration()); }

 private:
  const MakeSession make_;
  ThreadPool pool_{2};
  const std::shared_ptr<LocalCalls> calls_ =
      std::make_shared<LocalCalls>(&pool_);
};

class GrpcTransport final
    : public Transport,
      private Journal::WithRawCallbackMethod_Replicate<Journal::Service> {
 public:
  explicit GrpcTransport(MakeSession make) : make_(std::move(make)) {
    LogOptions quiet;
    quiet.standard_error = false;
    log_ = *Logger::Create(quiet);
    Listener::Options options;
    options.network = "127.0.0.1:0";
    options.unix_socket = MakeLocalAddress().address();
    options.log = log_.get();
    listener_ = *Listener::Start(options, {this});
  }
  ~GrpcTransport() override { ShutDown(); }

  std::unique_ptr<Client> Open() override {
    return std::make_unique<GrpcClientStream<JournalAnswer, JournalMessage>>(
        CreateChannel(listener_->address()), "/tributary.Journal/Replicate");
  }
  void ShutDown() override {
    listener_->ShutDown(absl::ZeroDuration());
    calls_->AwaitNone();
  }

 private:
  grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>* Replicate(
      grpc::CallbackServerContext*) override {
    auto* stream = new GrpcServerStream<JournalMessage, JournalAnswer>(calls_);
    stream->Start(make_(stream), /*silence=*/absl::Minutes(10));
    return stream;
  }

  const MakeSession make_;
  const std::shared_ptr<LiveCalls> calls_ = std::make_shared<LiveCalls>();
  std::unique_ptr<Logger> log_;
  std::unique_ptr<Listener> listener_;
};

// What the ends of a call have seen, in order.
class Record {
 public:
  void Add(const std::string& what) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    lines_.push_back(what);
  }
  std::vector<std::string> lines() const ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    return lines_;
  }
  void Await(size_t count) ABSL_LOCKS_EXCLUDED(mu_) {
    const auto there = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return lines_.size() >= count;
    };
    absl::MutexLock lock(&mu_);
    EXPECT_TRUE(
        mu_.AwaitWithTimeout(absl::Condition(&there), absl::Seconds(20)))
        << testing::PrintToString(lines_);
  }

 private:
  mutable absl::Mutex mu_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mu_);
};

std::string Bytes(const ReceivedPayload& payload) {
  std::string bytes(static_cast<size_t>(payload.bytes()), '\0');
  payload.Copy(0, payload.bytes(), bytes.data());
  return bytes;
}

JournalAnswer Answer(int64_t kept) {
  JournalAnswer answer;
  answer.set_kept(kept);
  return answer;
}

// A message without a payload, and one that has it.
JournalMessage Number(int64_t number) {
  JournalMessage message;
  message.mutable_hello()->set_attempt(number);
  return message;
}
JournalMessage Part(int64_t number) {
  JournalMessage message;
  message.mutable_part()->set_version(number);
  return message;
}

// Answers each message with its number, the message 0 by closing the call, and
// a negative one not at all.
class NumberServer final : public ServerSession<JournalMessage, JournalAnswer> {
 public:
  NumberServer(Record* record, ServerStream<JournalAnswer>* stream)
      : record_(record), stream_(stream) {}

  void OnMessage(const JournalMessage& message,
                 ReceivedPayload payload) override {
    const int64_t number = message.has_part() ? message.part().version()
                                              : message.hello().attempt();
    record_->Add(absl::StrCat(number, Bytes(payload)));
    if (number == 0) stream_->Close(absl::DataLossError("zero"));
    if (number <= 0) return;
    {
      absl::MutexLock lock(&mu_);
      more_ = 100 * number;
    }
    stream_->Send(Answer(number));
  }
  void OnEnd() override {
    record_->Add("end");
    stream_->Close(absl::OkStatus());
  }
  void OnGone() override { record_->Add("gone"); }
  bool TakeMore(JournalAnswer* answer) override ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (more_ == 0) return false;
    answer->set_kept(std::exchange(more_, 0));
    return true;
  }
  void OnSent() override {
    if (!std::exchange(sent_, true)) stream_->Send(Answer(7));
  }

 private:
  Record* const record_;
  ServerStream<JournalAnswer>* const stream_;
  absl::Mutex mu_;
  int64_t more_ ABSL_GUARDED_BY(mu_) = 0;
  bool sent_ = false;
};

class RecordingClient final
    : public ClientSession<JournalAnswer, JournalMessage> {
 public:
  bool OnMessage(const JournalAnswer& answer, ReceivedPayload) override {
    record.Add(absl::StrCat(answer.kept()));
    return !pauses;
  }
  void OnGone(const absl::Status& status) override {
    record.Add(absl::StatusCodeToString(status.code()));
  }
  bool TakeMore(JournalMessage* message) override ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    if (more_ == 0) return false;
    *message = Number(std::exchange(more_, 0));
    return true;
  }
  void SetMore(int64_t number) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    more_ = number;
  }

  Record record;
  bool pauses = false;

 private:
  absl::Mutex mu_;
  int64_t more_ ABSL_GUARDED_BY(mu_) = 0;
};

class StreamConformanceTest : public testing::TestWithParam<bool> {
 protected:
  StreamConformanceTest() {
    MakeSession make = [this](ServerStream<JournalAnswer>* stream) {
      return std::make_unique<NumberServer>(&server_, stream);
    };
    if (GetParam()) {
      transport_ = std::make_unique<LocalTransport>(std::move(make));
    } else {
      transport_ = std::make_unique<GrpcTransport>(std::move(make));
    }
    stream_ = transport_->Open();
  }
  ~StreamConformanceTest() override {
    stream_->Cancel();
    (void)stream_->AwaitDone();
  }

  Record server_;
  std::unique_ptr<Transport> transport_;
  RecordingClient client_;
  std::unique_ptr<Client> stream_;
};

TEST_P(StreamConformanceTest, BothEndsReceiveInOrderWhatTheOtherOneSends) {
  stream_->Start(&client_);
  const auto bytes = std::make_shared<const std::string>("state");
  stream_->Send(Part(1), {bytes->data(), 5, bytes}, /*priority=*/0);
  // The answer, what accumulated, and what follows when all has been sent.
  client_.record.Await(3);
  EXPECT_THAT(client_.record.lines(), ElementsAre("1", "100", "7"));
  stream_->Send(Number(2));
  client_.record.Await(5);
  stream_->HalfClose();
  EXPECT_EQ(stream_->AwaitDone(), absl::OkStatus());
  EXPECT_THAT(client_.record.lines(),
              ElementsAre("1", "100", "7", "2", "200", "OK"));
  transport_->ShutDown();
  EXPECT_THAT(server_.lines(), ElementsAre("1state", "2", "end", "gone"));
  EXPECT_EQ(bytes.use_count(), 1);
}

TEST_P(StreamConformanceTest, WakeFetchesWhatTheClientHas) {
  stream_->Start(&client_);
  client_.SetMore(-5);
  stream_->Wake();
  server_.Await(1);
  client_.SetMore(-6);
  // Also before a half-close.
  stream_->HalfClose();
  EXPECT_EQ(stream_->AwaitDone(), absl::OkStatus());
  transport_->ShutDown();
  EXPECT_THAT(server_.lines(), ElementsAre("-5", "-6", "end", "gone"));
}

TEST_P(StreamConformanceTest, AClientThatPausesReceivesNothing) {
  client_.pauses = true;
  stream_->Start(&client_);
  stream_->Send(Number(1));
  for (const size_t received : {1, 2, 3}) {
    client_.record.Await(received);
    EXPECT_EQ(client_.record.lines().size(), received);
    stream_->Resume();
  }
  stream_->HalfClose();
  EXPECT_EQ(stream_->AwaitDone(), absl::OkStatus());
  EXPECT_THAT(client_.record.lines(), ElementsAre("1", "100", "7", "OK"));
}

TEST_P(StreamConformanceTest, TheStatusOfTheServerFollowsItsMessages) {
  stream_->Start(&client_);
  stream_->Send(Number(1));
  client_.record.Await(3);
  stream_->Send(Number(0));
  EXPECT_EQ(stream_->AwaitDone(), absl::DataLossError("zero"));
  EXPECT_THAT(client_.record.lines(),
              ElementsAre("1", "100", "7", "DATA_LOSS"));
  transport_->ShutDown();
  EXPECT_THAT(server_.lines(), ElementsAre("1", "0", "end", "gone"));
}

TEST_P(StreamConformanceTest, ACancelledCallEndsAtBothEnds) {
  client_.pauses = true;
  stream_->Start(&client_);
  stream_->Send(Number(1));
  client_.record.Await(1);
  stream_->Cancel();
  EXPECT_TRUE(absl::IsCancelled(stream_->AwaitDone()));
  transport_->ShutDown();
  EXPECT_THAT(client_.record.lines(), ElementsAre("1", "CANCELLED"));
  EXPECT_THAT(server_.lines(), ElementsAre("1", "end", "gone"));
}

TEST_P(StreamConformanceTest, AShutdownEndsCallsAndRefusesFurtherOnes) {
  stream_->Start(&client_);
  stream_->Send(Number(-1));
  server_.Await(1);
  transport_->ShutDown();
  EXPECT_THAT(server_.lines(), ElementsAre("-1", "end", "gone"));
  EXPECT_FALSE(stream_->AwaitDone().ok());
  stream_ = transport_->Open();
  RecordingClient late;
  stream_->Start(&late);
  stream_->Send(Number(2));
  EXPECT_TRUE(absl::IsUnavailable(stream_->AwaitDone()));
  EXPECT_THAT(late.record.lines(), ElementsAre("UNAVAILABLE"));
  EXPECT_EQ(server_.lines().size(), 3);
}

INSTANTIATE_TEST_SUITE_P(Streams, StreamConformanceTest, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& info) {
                           return info.param ? "Local" : "Grpc";
                         });

}  // namespace
}  // namespace tributary
