#include "server/service/row_session.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/codec/row_codec.h"
#include "common/update/tables/row_source.h"

namespace tributary {
namespace {

// A worker requests rows for a few micro-batches ahead.
constexpr int kMostWaiting = 4096;

}  // namespace

RowSession::RowSession(Options options)
    : options_(std::move(options)),
      dims_(options_.tables->dims()),
      encoding_(RowEncoding(options_.job)),
      parts_(dims_, encoding_),
      answers_(std::make_shared<Answers>()) {}

void RowSession::Begin() {
  options_.tables->AddListener(
      options_.id, [stream = options_.stream](int64_t version) {
        ServerMessage message;
        message.mutable_tables_complete()->set_version(version);
        stream->Send(message, /*priority=*/-1);
      });
}

void RowSession::Close() {
  options_.tables->RemoveListener(options_.id);
  absl::MutexLock lock(&answers_->mu);
  answers_->closed = true;
}

absl::Status RowSession::Handle(const WorkerMessage& message,
                                const ReceivedPayload& payload) {
  return message.has_rows_request()
             ? OnRequest(message.rows_request(), payload)
             : OnContribution(message.row_contribution(), payload);
}

absl::Status RowSession::OnRequest(const RowsRequest& request,
                                   const ReceivedPayload& payload) {
  TableEngine* const tables = options_.tables;
  TRIBUTARY_ASSIGN_OR_RETURN(
      TableKeys keys,
      ReadRequest(request, payload, options_.tables->sparse().table_size()));
  TRIBUTARY_RETURN_IF_ERROR(tables->CheckKeys(keys));
  {
    absl::MutexLock lock(&answers_->mu);
    if (++answers_->waiting > kMostWaiting) {
      return absl::ResourceExhaustedError(
          absl::StrCat("more than ", kMostWaiting,
                       " requests for rows that wait for a version"));
    }
  }
  std::vector<int64_t> counts;
  for (const auto& table : keys) {
    counts.push_back(static_cast<int64_t>(table.size()));
  }
  tables->Read(request.version(), std::move(keys),
               [this, answers = answers_, request,
                counts = std::move(counts)](absl::StatusOr<Buffer> values) {
                 absl::MutexLock lock(&answers->mu);
                 --answers->waiting;
                 if (!answers->closed) Answer(request, counts, values);
               });
  return absl::OkStatus();
}

void RowSession::Answer(const RowsRequest& request,
                        const std::vector<int64_t>& keys,
                        const absl::StatusOr<Buffer>& values) const {
  // Rows are sent before the weights with which the step's forward begins.
  const int64_t priority =
      options_.priority(request.version() + options_.job.sparse().fixed_lag());
  const auto send = [&](const Rows& rows, OutgoingPayload payload) {
    *options_.bytes_sent += payload.bytes;
    ServerMessage message;
    *message.mutable_rows() = rows;
    options_.stream->Send(message, std::move(payload), priority);
  };
  if (!values.ok()) {
    Rows gone;
    gone.set_request(request.request());
    gone.set_encoding(encoding_);
    gone.set_gone(true);
    return send(gone, {"", 0, nullptr});
  }
  PackRows(request.request(), keys, dims_, encoding_, *values, send);
}

absl::Status RowSession::OnContribution(const RowContribution& part,
                                        const ReceivedPayload& payload) {
  TRIBUTARY_ASSIGN_OR_RETURN(TableGradients rows, parts_.Add(part, payload));
  if (!part.last()) return absl::OkStatus();
  for (size_t table = 0; table < rows.size(); ++table) {
    TRIBUTARY_RETURN_IF_ERROR(options_.tables->table(static_cast<int>(table))
                                  ->CheckKeys(rows[table]->keys));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(NodeSum sum,
                             options_.begin_sum(part.step(), part.node()));
  sum.sample_count = part.weight();
  if (part.has_learning_rate()) sum.learning_rate = part.learning_rate();
  sum.gradient = std::make_shared<RowSource>(std::move(rows));
  return options_.tables->AddContribution(std::move(sum));
}

}  // namespace tributary
