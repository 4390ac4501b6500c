#include "common/stream/pack_rows.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/codec/row_codec.h"
#include "common/stream/received_rows.h"
#include "common/text/counted.h"

namespace tributary {
namespace {

// Bytes of a part, unless a single row has more. A receiver can use one part
// while the next one travels.
constexpr int64_t kPartBytes = int64_t{1} << 20;
constexpr int64_t kKeyBytes = sizeof(uint64_t);

// Memory for the payload of a message.
class Bytes {
 public:
  explicit Bytes(int64_t bytes)
      : bytes_(bytes),
        buffer_(
            AllocateBuffer(bytes / static_cast<int64_t>(sizeof(float)) + 1)) {}

  char* data() const { return reinterpret_cast<char*>(buffer_.get()); }
  OutgoingPayload Payload() const { return {data(), bytes_, buffer_}; }

 private:
  const int64_t bytes_;
  const Buffer buffer_;
};

// Copies keys to `to`, and returns where the next ones belong.
char* CopyKeys(const uint64_t* keys, int64_t count, char* to) {
  if (count > 0) std::memcpy(to, keys, count * kKeyBytes);
  return to + count * kKeyBytes;
}

// Writes `count` rows from the row `begin` on: their keys to `to_keys`, and
// their gradients to `to_rows`.
void PackGradients(const OutgoingRows& rows, int64_t begin, int64_t count,
                   int dim, Encoding encoding, char* to_keys, char* to_rows) {
  const RowSum& sum = *rows.sum;
  if (!rows.places.has_value() && sum.gradients() != nullptr) {
    CopyKeys(sum.keys().data() + begin, count, to_keys);
    EncodeRows(encoding, sum.gradients()->values.get() + begin * dim, count,
               dim, to_rows);
    return;
  }
  const int64_t row_bytes = EncodedRowBytes(encoding, dim);
  RowSum::Reader reader(&sum);
  for (int64_t i = begin; i < begin + count; ++i) {
    const int64_t row = rows.places.has_value() ? (*rows.places)[i] : i;
    to_keys = CopyKeys(&sum.keys()[row], 1, to_keys);
    EncodeRows(encoding, reader.Read(row), 1, dim, to_rows);
    to_rows += row_bytes;
  }
}

// Returns the number of keys, and checks that there are as many lists as
// tables.
template <typename Counts>
absl::StatusOr<int64_t> CountKeys(const Counts& counts, size_t tables) {
  if (static_cast<size_t>(counts.size()) != tables) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rows of ", Counted(counts.size(), "table"), "; the job has ", tables));
  }
  int64_t keys = 0;
  for (const int32_t count : counts) {
    if (count < 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("a table with ", count, " keys"));
    }
    keys += count;
  }
  return keys;
}

absl::Status WrongBytes(int64_t bytes, int64_t expected) {
  return absl::InvalidArgumentError(absl::StrCat(
      "a payload of ", bytes, " bytes with rows, expected ", expected));
}

}  // namespace

OutgoingPayload PackRequest(const TableKeys& keys, RowsRequest* request) {
  int64_t count = 0;
  for (const std::vector<uint64_t>& table : keys) {
    request->add_keys(static_cast<int32_t>(table.size()));
    count += static_cast<int64_t>(table.size());
  }
  const Bytes bytes(count * kKeyBytes);
  char* to = bytes.data();
  for (const std::vector<uint64_t>& table : keys) {
    to = CopyKeys(table.data(), static_cast<int64_t>(table.size()), to);
  }
  return bytes.Payload();
}

absl::StatusOr<TableKeys> ReadRequest(const RowsRequest& request,
                                      const ReceivedPayload& payload,
                                      int tables) {
  TRIBUTARY_ASSIGN_OR_RETURN(const int64_t count,
                             CountKeys(request.keys(), tables));
  if (payload.bytes() != count * kKeyBytes) {
    return WrongBytes(payload.bytes(), count * kKeyBytes);
  }
  TableKeys keys(tables);
  int64_t begin = 0;
  for (int table = 0; table < tables; ++table) {
    keys[table].resize(request.keys(table));
    const int64_t bytes = request.keys(table) * kKeyBytes;
    payload.Copy(begin, bytes, keys[table].data());
    begin += bytes;
  }
  return keys;
}

void PackRows(int64_t request, const std::vector<int64_t>& keys,
              const RowDims& dims, Encoding encoding, const Buffer& values,
              const std::function<void(const Rows&, OutgoingPayload)>& send) {
  Rows rows;
  rows.set_request(request);
  rows.set_encoding(encoding);
  // The rows that are not sent yet: [rows.first(), next), from `begin` on.
  int64_t next = 0;
  const float* begin = values.get();
  struct Segment {
    int64_t rows;
    int dim;
  };
  std::vector<Segment> segments;
  int64_t used = 0;  // Their bytes.
  const auto flush = [&] {
    rows.set_rows(static_cast<int32_t>(next - rows.first()));
    OutgoingPayload payload = {begin, used, values};
    if (encoding != FLOAT32) {
      const Bytes bytes(used);
      char* to = bytes.data();
      const float* from = begin;
      for (const Segment& segment : segments) {
        EncodeRows(encoding, from, segment.rows, segment.dim, to);
        to += segment.rows * EncodedRowBytes(encoding, segment.dim);
        from += segment.rows * segment.dim;
      }
      payload = bytes.Payload();
    }
    send(rows, std::move(payload));
    rows.set_first(next);
    for (const Segment& segment : segments) begin += segment.rows * segment.dim;
    segments.clear();
    used = 0;
  };
  for (size_t table = 0; table < keys.size(); ++table) {
    const int64_t row_bytes = EncodedRowBytes(encoding, dims[table]);
    for (int64_t row = 0; row < keys[table];) {
      const int64_t count = std::min(
          keys[table] - row, (kPartBytes - used + row_bytes - 1) / row_bytes);
      segments.push_back({count, dims[table]});
      used += count * row_bytes;
      row += count;
      next += count;
      if (used >= kPartBytes) flush();
    }
  }
  if (next > rows.first() || next == 0) flush();
}

std::vector<OutgoingRows> AllRows(const TableSums& sums) {
  std::vector<OutgoingRows> rows;
  for (const auto& sum : sums) rows.push_back({sum, std::nullopt});
  return rows;
}

void PackContribution(
    const RowContribution& header, const std::vector<OutgoingRows>& rows,
    const RowDims& dims, Encoding encoding,
    const std::function<void(const RowContribution&, OutgoingPayload)>& send) {
  RowContribution part = header;
  part.set_encoding(encoding);
  const auto tables = static_cast<int>(rows.size());
  std::vector<int64_t> sent(tables);
  int first = 0;  // The first table with rows that are not sent.
  do {
    // The rows of this part: all of the tables from `first`, up to a row of the
    // last one.
    part.clear_keys();
    int64_t keys = 0, used = 0;
    for (int table = 0; table < tables; ++table) {
      int64_t count = 0;
      if (table >= first) {
        const int64_t row_bytes =
            kKeyBytes + EncodedRowBytes(encoding, dims[table]);
        const int64_t most = std::max<int64_t>((kPartBytes - used) / row_bytes,
                                               used == 0 ? 1 : 0);
        count = std::min(most, rows[table].rows() - sent[table]);
        keys += count;
        used += count * row_bytes;
      }
      part.add_keys(static_cast<int32_t>(count));
    }
    const Bytes bytes(used);
    char* to_keys = bytes.data();
    char* to_rows = bytes.data() + keys * kKeyBytes;
    for (int table = 0; table < tables; ++table) {
      const int64_t count = part.keys(table);
      if (count == 0) continue;
      PackGradients(rows[table], sent[table], count, dims[table], encoding,
                    to_keys, to_rows);
      to_keys += count * kKeyBytes;
      to_rows += count * EncodedRowBytes(encoding, dims[table]);
      sent[table] += count;
    }
    while (first < tables && sent[first] == rows[first].rows()) ++first;
    part.set_last(first == tables);
    send(part, bytes.Payload());
    part.set_part(part.part() + 1);
  } while (first < tables);
}

absl::StatusOr<TableGradients> ContributionParts::Add(
    const RowContribution& part, const ReceivedPayload& payload) {
  if (part.part() != parts_ || (parts_ > 0 && (part.step() != first_.step() ||
                                               part.node() != first_.node()))) {
    return absl::InvalidArgumentError(
        absl::StrCat("part ", part.part(), " of the rows of step ", part.step(),
                     ", node ", part.node(), ", expected part ", parts_,
                     parts_ == 0 ? ""
                                 : absl::StrCat(" of step ", first_.step(),
                                                ", node ", first_.node())));
  }
  if (parts_++ == 0) first_ = part;
  TRIBUTARY_RETURN_IF_ERROR(Append(part, payload));
  if (!part.last()) return TableGradients();
  parts_ = 0;
  TableGradients gradients;
  for (Table& table : tables_) {
    auto rows = std::make_shared<RowGradients>();
    rows->keys = std::move(table.keys);
    rows->values = std::move(table.values);
    gradients.push_back(std::move(rows));
    const int64_t elements = table.elements;
    table = Table();
    table.expected = elements;
  }
  return gradients;
}

void ContributionParts::Reserve(int64_t elements, Table* table) {
  const int64_t needed = table->elements + elements;
  if (needed <= table->capacity) return;
  // Somewhat more than before, because the numbers of rows differ little.
  const int64_t most = table->elements == 0
                           ? table->expected + table->expected / 16
                           : 2 * table->capacity;
  Buffer values = buffers_.Take(std::max(needed, most), &table->capacity);
  std::copy_n(table->values.get(), table->elements, values.get());
  table->values = std::move(values);
}

absl::Status ContributionParts::Append(const RowContribution& part,
                                       const ReceivedPayload& payload) {
  if (part.encoding() != encoding_) {
    return absl::InvalidArgumentError(
        absl::StrCat("rows in encoding ", Encoding_Name(part.encoding()),
                     "; the job's is ", Encoding_Name(encoding_)));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(const int64_t count,
                             CountKeys(part.keys(), dims_.size()));
  const int64_t key_bytes = count * kKeyBytes;
  int64_t expected = key_bytes;
  for (size_t table = 0; table < dims_.size(); ++table) {
    expected += int64_t{part.keys(static_cast<int>(table))} *
                EncodedRowBytes(encoding_, dims_[table]);
  }
  if (payload.bytes() != expected) return WrongBytes(payload.bytes(), expected);
  ReceivedRows received(encoding_, &payload, key_bytes);
  int64_t key = 0;
  for (size_t table = 0; table < dims_.size(); ++table) {
    const int64_t rows = part.keys(static_cast<int>(table));
    if (rows == 0) continue;
    Table& to = tables_[table];
    to.keys.resize(to.keys.size() + rows);
    payload.Copy(key * kKeyBytes, rows * kKeyBytes,
                 to.keys.data() + to.keys.size() - rows);
    key += rows;
    Reserve(rows * dims_[table], &to);
    const absl::Status read =
        received.Read(rows, dims_[table], to.values.get() + to.elements);
    if (!read.ok()) {
      return absl::Status(read.code(),
                          absl::StrCat("table ", table, ": ", read.message()));
    }
    to.elements += rows * dims_[table];
  }
  return absl::OkStatus();
}

}  // namespace tributary
