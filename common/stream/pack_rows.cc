#include "common/stream/pack_rows.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/codec/encoding.h"
#include "common/numerics/half.h"
#include "common/stream/received_floats.h"
#include "common/text/counted.h"

namespace tributary {
namespace {

// Bytes of a part, unless a single row has more. A receiver can use one part
// while the next one travels.
constexpr int64_t kPartBytes = int64_t{1} << 20;
constexpr int64_t kKeyBytes = sizeof(uint64_t);

OutgoingPayload Payload(std::string bytes) {
  const auto owner = std::make_shared<const std::string>(std::move(bytes));
  return {owner->data(), static_cast<int64_t>(owner->size()), owner};
}

void AppendKeys(const uint64_t* keys, int64_t count, std::string* bytes) {
  if (count == 0) return;
  bytes->append(reinterpret_cast<const char*>(keys), count * kKeyBytes);
}

void AppendValues(const float* values, int64_t count, Encoding encoding,
                  std::string* bytes) {
  if (count == 0) return;
  if (encoding == FLOAT32) {
    bytes->append(reinterpret_cast<const char*>(values), count * sizeof(float));
    return;
  }
  const size_t begin = bytes->size();
  bytes->resize(begin + PayloadBytes(encoding, count));
  EncodeHalf(DtypeOf(encoding), values, &(*bytes)[begin], count);
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
  std::string bytes;
  for (const std::vector<uint64_t>& table : keys) {
    request->add_keys(static_cast<int32_t>(table.size()));
    AppendKeys(table.data(), static_cast<int64_t>(table.size()), &bytes);
  }
  return Payload(std::move(bytes));
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
  const float* begin = values.get();
  const float* end = begin;
  int64_t next = 0;
  const auto flush = [&] {
    rows.set_rows(static_cast<int32_t>(next - rows.first()));
    if (encoding == FLOAT32) {
      send(rows, {begin, (end - begin) * static_cast<int64_t>(sizeof(float)),
                  values});
    } else {
      std::string bytes;
      AppendValues(begin, end - begin, encoding, &bytes);
      send(rows, Payload(std::move(bytes)));
    }
    rows.set_first(next);
    begin = end;
  };
  for (size_t table = 0; table < keys.size(); ++table) {
    for (int64_t row = 0; row < keys[table]; ++row) {
      end += dims[table];
      ++next;
      if (PayloadBytes(encoding, end - begin) >= kPartBytes) flush();
    }
  }
  if (next > rows.first() || next == 0) flush();
}

void PackContribution(
    const RowContribution& header, const TableGradients& rows,
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
    std::string keys, values;
    for (int table = 0; table < tables; ++table) {
      const RowGradients& from = *rows[table];
      int64_t count = 0;
      if (table >= first) {
        const int64_t row_bytes =
            kKeyBytes + PayloadBytes(encoding, dims[table]);
        const auto used = static_cast<int64_t>(keys.size() + values.size());
        const int64_t most = std::max<int64_t>((kPartBytes - used) / row_bytes,
                                               used == 0 ? 1 : 0);
        count = std::min(most, from.rows() - sent[table]);
        AppendKeys(from.keys.data() + sent[table], count, &keys);
        AppendValues(from.values.get() + sent[table] * dims[table],
                     count * dims[table], encoding, &values);
        sent[table] += count;
      }
      part.add_keys(static_cast<int32_t>(count));
    }
    while (first < tables && sent[first] == rows[first]->rows()) ++first;
    part.set_last(first == tables);
    send(part, Payload(keys + values));
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
  if (parts_++ == 0) {
    first_ = part;
    tables_.assign(dims_.size(), Table());
  }
  TRIBUTARY_RETURN_IF_ERROR(Append(part, payload));
  if (!part.last()) return TableGradients();
  parts_ = 0;
  TableGradients gradients;
  for (Table& table : tables_) {
    auto rows = std::make_shared<RowGradients>();
    rows->keys = std::move(table.keys);
    const auto values =
        std::make_shared<std::vector<float>>(std::move(table.values));
    rows->values = Buffer(values, values->data());
    gradients.push_back(std::move(rows));
  }
  return gradients;
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
  int64_t elements = 0;
  for (size_t table = 0; table < dims_.size(); ++table) {
    elements += int64_t{part.keys(static_cast<int>(table))} * dims_[table];
  }
  const int64_t key_bytes = count * kKeyBytes;
  const int64_t expected = key_bytes + PayloadBytes(encoding_, elements);
  if (payload.bytes() != expected) return WrongBytes(payload.bytes(), expected);
  TRIBUTARY_ASSIGN_OR_RETURN(
      const ReceivedFloats floats,
      ReceivedFloats::Create(encoding_, payload.From(key_bytes), elements));
  int64_t key = 0, element = 0;
  for (size_t table = 0; table < dims_.size(); ++table) {
    const int64_t rows = part.keys(static_cast<int>(table));
    std::vector<uint64_t>& keys = tables_[table].keys;
    std::vector<float>& values = tables_[table].values;
    keys.resize(keys.size() + rows);
    payload.Copy(key * kKeyBytes, rows * kKeyBytes,
                 keys.data() + keys.size() - rows);
    const int64_t added = rows * dims_[table];
    values.resize(values.size() + added);
    if (added > 0) {
      floats.Read(element, added, values.data() + values.size() - added);
    }
    key += rows;
    element += added;
  }
  return absl::OkStatus();
}

}  // namespace tributary
