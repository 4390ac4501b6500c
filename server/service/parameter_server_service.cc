#include "server/service/parameter_server_service.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/failpoint.h"
#include "common/base/limits.h"
#include "common/base/retry.h"
#include "common/transport/channel.h"
#include "common/transport/chunk_codec.h"
#include "common/transport/grpc_server_stream.h"

namespace tributary {
namespace {

// Largest number of refused workers in the log of one attempt, because such
// workers may be started again and again.
constexpr int kMostRefusals = 100;

// Sends every chunk at one version.
class WeightsReader final : public grpc::ServerWriteReactor<grpc::ByteBuffer> {
 public:
  WeightsReader(const ExchangeSession::Served& served,
                const grpc::ByteBuffer& request, TransportCounters* counters,
                std::shared_ptr<LiveCalls> calls)
      : token_(std::move(calls)), store_(served.store), counters_(counters) {
    grpc::ByteBuffer bytes = request;
    absl::Status status = Decode(&bytes, &request_);
    if (status.ok()) status = Failpoint("J4");
    if (store_ == nullptr) {
      Finish(ToGrpc(served.refusal));
    } else if (!status.ok()) {
      Finish(ToGrpc(status));
    } else {
      WriteNext();
    }
  }

 private:
  void WriteNext() {
    if (next_ == store_->chunk_numbers().size()) {
      Finish(grpc::Status::OK);
      return;
    }
    const absl::StatusOr<WeightsVersion> weights =
        store_->Read(store_->chunk_numbers()[next_], request_.version());
    if (!weights.ok()) {
      Finish(ToGrpc(weights.status()));
      return;
    }
    ++next_;
    counters_->bytes_sent += weights->values.bytes;
    out_ = Encode(WeightsHeader(weights->version, weights->chunk,
                                weights->values.encoding,
                                /*difference=*/false),
                  PayloadOf(weights->values));
    StartWrite(&out_);
  }

  void OnWriteDone(bool ok) override {
    if (ok) {
      WriteNext();
    } else {
      Finish(grpc::Status::CANCELLED);
    }
  }

  void OnDone() override { delete this; }

  const LiveCalls::Token token_;
  ParameterStore* const store_;
  TransportCounters* const counters_;
  ReadWeightsRequest request_;
  size_t next_ = 0;
  grpc::ByteBuffer out_;
};

}  // namespace

ParameterServerService::ParameterServerService(int shard, Logger* log)
    : log_(log) {
  served_.shard = shard;
  served_.on_refusal = [this](int64_t incarnation, const absl::Status& status) {
    NoteRefusal(incarnation, status);
  };
}

ParameterServerService::~ParameterServerService() = default;

void ParameterServerService::Serve(ParameterStore* store,
                                   const std::string& job_id, int64_t attempt) {
  absl::MutexLock lock(&mu_);
  served_.store = store;
  served_.job_id = job_id;
  served_.attempt = attempt;
}

void ParameterServerService::Refuse(const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  served_.refusal = status;
}

void ParameterServerService::NoteRefusal(int64_t incarnation,
                                         const absl::Status& status) {
  if (IsTransient(status) || refusals_++ >= kMostRefusals) return;
  log_->WriteLater(LogLevel::kWarning,
                   absl::StrCat("refused the worker of incarnation ",
                                incarnation, ": ", status.message()));
}

Traffic ParameterServerService::traffic() const {
  Traffic traffic;
  traffic.streams = {counters_.bytes_sent, counters_.bytes_received};
  traffic.shared_memory = {counters_.shared_bytes_sent,
                           counters_.shared_bytes_received};
  return traffic;
}

ExchangeSession::Served ParameterServerService::served() const {
  absl::MutexLock lock(&mu_);
  return served_;
}

grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>*
ParameterServerService::Exchange(grpc::CallbackServerContext*) {
  auto* stream = new GrpcServerStream<WorkerMessage, ServerMessage>(calls_);
  stream->Start(std::make_unique<ExchangeSession>(served(), &counters_,
                                                  &arrivals_, stream),
                kDefaultLimits.handshake_timeout);
  return stream;
}

grpc::ServerWriteReactor<grpc::ByteBuffer>* ParameterServerService::ReadWeights(
    grpc::CallbackServerContext*, const grpc::ByteBuffer* request) {
  return new WeightsReader(served(), *request, &counters_, calls_);
}

}  // namespace tributary
