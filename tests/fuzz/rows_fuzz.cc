// The messages that carry rows of tables. Input: a byte that chooses the kind
// of the message, one for each table with the number of its keys, and the
// payload.
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "common/codec/encoding.h"
#include "common/stream/pack_rows.h"
#include "common/stream/replica_rows.h"
#include "tests/fuzz/fuzz_target.h"

namespace tributary {
namespace {

constexpr int kTables = 3;

ReceivedPayload PayloadOf(absl::string_view bytes) {
  const auto owner = std::make_shared<const std::string>(bytes);
  return ReceivedPayload(owner->data(), static_cast<int64_t>(owner->size()),
                         owner);
}

void RunRequest(const uint8_t* counts, absl::string_view payload) {
  RowsRequest request;
  for (int table = 0; table < kTables; ++table) {
    request.add_keys(static_cast<int8_t>(counts[table]));
  }
  const auto keys = ReadRequest(request, PayloadOf(payload), kTables);
  if (!keys.ok()) return;
  // What was read can be written, and is the same.
  RowsRequest again;
  const OutgoingPayload packed = PackRequest(*keys, &again);
  TRIBUTARY_FUZZ_CHECK(again.ShortDebugString() == request.ShortDebugString());
  TRIBUTARY_FUZZ_CHECK(absl::string_view(static_cast<const char*>(packed.data),
                                         static_cast<size_t>(packed.bytes)) ==
                       payload);
}

void RunContribution(uint8_t kind, const uint8_t* counts,
                     absl::string_view payload) {
  const RowDims dims = {1, 3, 2};
  const Encoding encoding = (kind & 64) != 0  ? EIGHT_BIT_ROWS
                            : (kind & 2) != 0 ? BFLOAT16
                                              : FLOAT32;
  ContributionParts parts(dims, encoding);
  RowContribution part;
  for (int table = 0; table < kTables; ++table) {
    part.add_keys(static_cast<int8_t>(counts[table]));
  }
  part.set_encoding(static_cast<Encoding>(kind >> 2 & 7));
  // The same part twice: the second is out of order.
  part.set_last((kind & 32) != 0);
  const auto rows = parts.Add(part, PayloadOf(payload));
  if (!rows.ok()) return;
  TRIBUTARY_FUZZ_CHECK(part.encoding() == encoding);
  TRIBUTARY_FUZZ_CHECK(rows->size() == (part.last() ? size_t{kTables} : 0));
  for (size_t table = 0; table < rows->size(); ++table) {
    TRIBUTARY_FUZZ_CHECK((*rows)[table]->rows() ==
                         part.keys(static_cast<int>(table)));
  }
  TRIBUTARY_FUZZ_CHECK(parts.Add(part, PayloadOf(payload)).ok() == part.last());
}

// Rows of an in-memory replica; twice, if the first message is not the last.
void RunReplica(uint8_t kind, const uint8_t* counts,
                absl::string_view payload) {
  static const JobSpec* const job = [] {
    auto* const made = new JobSpec();
    made->mutable_recovery()->set_journal(true);
    made->mutable_sparse()->set_fixed_lag(1);
    for (const int dim : {1, 3}) {
      SparseTableSpec* const table = made->mutable_sparse()->add_table();
      table->set_name("table");
      table->set_dim(dim);
      table->set_buckets(2);
      table->mutable_sgd()->set_learning_rate(1);
      table->mutable_sgd()->set_momentum(0);
    }
    return made;
  }();
  ReplicaRowsReader reader(*MakeServerTables(*job, /*shard=*/0, /*servers=*/2,
                                             /*version=*/0));
  JournalRows rows;
  rows.set_table((kind >> 1 & 3) - 1);
  rows.set_rows(static_cast<int8_t>(counts[0]));
  if ((kind & 16) != 0) {
    rows.set_age(static_cast<int8_t>(counts[1]));
  } else {
    rows.set_candidates(static_cast<int8_t>(counts[1]));
  }
  rows.set_removed(static_cast<int8_t>(counts[2]));
  rows.set_whole((kind & 8) != 0);
  rows.set_last((kind & 32) != 0);
  rows.set_version(rows.whole() ? 0 : 1);
  if (!reader.Take(rows, PayloadOf(payload)).ok()) return;
  TRIBUTARY_FUZZ_CHECK(reader.complete() == rows.last());
  TRIBUTARY_FUZZ_CHECK(reader.tables()[0]->version() ==
                       (rows.last() && !rows.whole() ? 1 : 0));
  (void)reader.Take(rows, PayloadOf(payload));
}

}  // namespace
}  // namespace tributary

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using tributary::kTables;
  if (size < 1 + kTables) return 0;
  const absl::string_view payload(
      reinterpret_cast<const char*>(data) + 1 + kTables, size - 1 - kTables);
  if ((data[0] & 1) != 0) {
    tributary::RunRequest(data + 1, payload);
  } else if ((data[0] & 64) != 0) {
    tributary::RunReplica(data[0], data + 1, payload);
  } else {
    tributary::RunContribution(data[0], data + 1, payload);
  }
  return 0;
}
