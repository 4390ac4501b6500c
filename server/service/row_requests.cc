#include "server/service/row_requests.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/update/tables/row_source.h"

namespace tributary {
namespace {

// A worker requests rows for a few micro-batches ahead.
constexpr int kMostWaiting = 4096;

}  // namespace

RowRequests::RowRequests(TableEngine* tables, Encoding encoding, Send send)
    : tables_(tables),
      dims_(tables->dims()),
      encoding_(encoding),
      parts_(dims_, encoding),
      answers_(std::make_shared<Answers>()) {
  absl::MutexLock lock(&answers_->mu);
  answers_->send = std::move(send);
}

absl::Status RowRequests::OnRequest(const RowsRequest& request,
                                    const ReceivedPayload& payload) {
  TRIBUTARY_ASSIGN_OR_RETURN(TableKeys keys,
                             ReadRequest(request, payload, tables_->tables()));
  TRIBUTARY_RETURN_IF_ERROR(tables_->CheckKeys(keys));
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
  tables_->Read(
      request.version(), std::move(keys),
      [answers = answers_, number = request.request(),
       version = request.version(), counts = std::move(counts), dims = dims_,
       encoding = encoding_](const absl::StatusOr<Buffer>& values) {
        absl::MutexLock lock(&answers->mu);
        --answers->waiting;
        if (answers->send == nullptr) return;
        if (!values.ok()) {
          Rows gone;
          gone.set_request(number);
          gone.set_encoding(encoding);
          gone.set_gone(true);
          answers->send(version, gone, {"", 0, nullptr});
          return;
        }
        PackRows(number, counts, dims, encoding, *values,
                 [&](const Rows& rows, OutgoingPayload part) {
                   answers->send(version, rows, std::move(part));
                 });
      });
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const GradientSource>>
RowRequests::OnContribution(const RowContribution& part,
                            const ReceivedPayload& payload) {
  TRIBUTARY_ASSIGN_OR_RETURN(TableGradients rows, parts_.Add(part, payload));
  if (!part.last()) return nullptr;
  for (int table = 0; table < tables_->tables(); ++table) {
    TRIBUTARY_RETURN_IF_ERROR(
        tables_->table(table)->CheckKeys(rows[table]->keys));
  }
  return std::make_shared<RowSource>(std::move(rows));
}

void RowRequests::Close() {
  absl::MutexLock lock(&answers_->mu);
  answers_->send = nullptr;
}

}  // namespace tributary
