#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/buffer_pool.h"
#include "common/base/sha256.h"
#include "common/codec/row_codec.h"
#include "common/sparse/key_hash.h"
#include "common/sparse/row_gradients.h"
#include "common/stream/pack_rows.h"
#include "proto/parameter_server.pb.h"
#include "tests/proto/vectors.h"
#include "worker/data/batch.h"
#include "worker/sparse/feature_rows.h"

namespace tributary {
namespace {

// Small and large keys, and values with few digits, whose sums are exact.
const std::vector<uint64_t> kKeys = {
    0, 7, 300, uint64_t{1} << 40, 0xc34784fdf2595470, ~uint64_t{0}};

float ValueOf(int table, uint64_t key, int column) {
  return static_cast<float>((key + 3 * column + table) % 251) / 8 - 10;
}

std::shared_ptr<const RowGradients> RowsOf(std::vector<uint64_t> keys,
                                           int table, int dim) {
  auto rows = std::make_shared<RowGradients>();
  rows->keys = std::move(keys);
  rows->values = AllocateBuffer(rows->rows() * dim);
  for (int64_t row = 0; row < rows->rows(); ++row) {
    for (int i = 0; i < dim; ++i) {
      rows->values.get()[row * dim + i] = ValueOf(table, rows->keys[row], i);
    }
  }
  return rows;
}

Vectors TextsOf(const std::vector<uint64_t>& keys) {
  Vectors texts = Vectors::array();
  for (const uint64_t key : keys) texts.push_back(absl::StrCat(key));
  return texts;
}

Vectors TablesOf(const TableGradients& tables, const RowDims& dims) {
  Vectors list = Vectors::array();
  for (size_t table = 0; table < tables.size(); ++table) {
    const RowGradients& rows = *tables[table];
    list.push_back(
        {{"dim", dims[table]},
         {"keys", TextsOf(rows.keys)},
         {"values", rows.rows() == 0 ? ""
                                     : HexOf(rows.values.get(),
                                             rows.rows() * dims[table])}});
  }
  return list;
}

Vectors Placements() {
  Vectors list = Vectors::array();
  for (const uint64_t key : kKeys) {
    for (const auto& [buckets, servers] :
         std::vector<std::pair<int, int>>{{256, 3}, {5, 2}, {1, 1}}) {
      const int bucket = BucketOfHash(KeyHash(key), buckets);
      list.push_back({{"key", absl::StrCat(key)},
                      {"hash", absl::StrCat(KeyHash(key))},
                      {"buckets", buckets},
                      {"servers", servers},
                      {"bucket", bucket},
                      {"server", ServerOfBucket(bucket, servers)}});
    }
  }
  return list;
}

Vectors Requests() {
  Vectors list = Vectors::array();
  for (const TableKeys& keys :
       {TableKeys{kKeys, {}}, TableKeys{{5}, {1, 2}, {9}}, TableKeys{{}}}) {
    WorkerMessage message;
    RowsRequest* const request = message.mutable_rows_request();
    request->set_request(12);
    request->set_version(345);
    const OutgoingPayload payload = PackRequest(keys, request);
    Vectors tables = Vectors::array();
    for (const auto& table : keys) tables.push_back(TextsOf(table));
    request->set_payload(payload.data, payload.bytes);
    list.push_back({{"request", 12},
                    {"version", 345},
                    {"keys", tables},
                    {"message", HexOf(message.SerializeAsString())}});
  }
  return list;
}

Vectors Answers() {
  const RowDims dims = {2, 3};
  const auto answer = [&](const TableGradients& rows, Encoding encoding) {
    std::vector<int64_t> keys;
    std::vector<float> all;
    for (size_t table = 0; table < rows.size(); ++table) {
      keys.push_back(rows[table]->rows());
      const float* const values = rows[table]->values.get();
      all.insert(all.end(), values, values + keys.back() * dims[table]);
    }
    const Buffer values = AllocateBuffer(static_cast<int64_t>(all.size()));
    std::copy(all.begin(), all.end(), values.get());
    Vectors messages = Vectors::array();
    PackRows(/*request=*/12, keys, dims, encoding, values,
             [&](const Rows& part, const OutgoingPayload& payload) {
               ServerMessage message;
               Rows* const sent = message.mutable_rows();
               *sent = part;
               sent->set_payload(payload.data, payload.bytes);
               messages.push_back(HexOf(message.SerializeAsString()));
             });
    return Vectors({{"dims", dims},
                    {"keys", keys},
                    {"encoding", Encoding_Name(encoding)},
                    {"values", HexOf(all.data(), all.size())},
                    {"messages", messages}});
  };
  const TableGradients rows = {RowsOf({1, 2}, 0, 2), RowsOf({3}, 1, 3)};
  Vectors list = Vectors::array();
  for (const Encoding encoding : {FLOAT32, BFLOAT16, FLOAT16, EIGHT_BIT_ROWS}) {
    list.push_back(answer(rows, encoding));
  }
  list.push_back(answer({RowsOf({}, 0, 2), RowsOf({}, 1, 3)}, FLOAT32));
  return list;
}

// Calls visit(bytes) for each message of a contribution.
template <typename Visit>
void VisitContribution(const TableGradients& rows, const RowDims& dims,
                       Encoding encoding, const Visit& visit) {
  RowContribution header;
  header.set_step(7);
  header.set_node(3);
  header.set_weight(16);
  PackContribution(
      header, AllRows(ToSums(rows, dims)), dims, encoding,
      [&](const RowContribution& part, const OutgoingPayload& payload) {
        WorkerMessage message;
        RowContribution* const sent = message.mutable_row_contribution();
        *sent = part;
        sent->set_payload(payload.data, payload.bytes);
        visit(message.SerializeAsString());
      });
}

Vectors Contributions() {
  Vectors list = Vectors::array();
  const RowDims dims = {2, 3};
  const std::vector<TableGradients> cases = {
      {RowsOf(kKeys, 0, 2), RowsOf({3}, 1, 3)},
      {RowsOf({}, 0, 2), RowsOf({}, 1, 3)}};
  for (const TableGradients& rows : cases) {
    for (const Encoding encoding : {FLOAT32, BFLOAT16, EIGHT_BIT_ROWS}) {
      Vectors messages = Vectors::array();
      VisitContribution(rows, dims, encoding, [&](const std::string& bytes) {
        messages.push_back(HexOf(bytes));
      });
      list.push_back({{"step", 7},
                      {"node", 3},
                      {"weight", 16},
                      {"encoding", Encoding_Name(encoding)},
                      {"tables", TablesOf(rows, dims)},
                      {"messages", messages}});
    }
  }
  return list;
}

// Contributions of several messages: the rows of keys 0 to `rows` - 1.
Vectors LongContributions() {
  Vectors list = Vectors::array();
  for (const auto& [dim, rows] :
       std::vector<std::pair<int, int>>{{1000, 600}, {4096, 70}}) {
    std::vector<uint64_t> keys(rows);
    for (int key = 0; key < rows; ++key) keys[key] = static_cast<uint64_t>(key);
    Vectors digests = Vectors::array();
    VisitContribution(
        {RowsOf(keys, 0, dim), RowsOf({1}, 1, 2)}, {dim, 2}, FLOAT32,
        [&](const std::string& bytes) { digests.push_back(Sha256Hex(bytes)); });
    list.push_back({{"dim", dim}, {"rows", rows}, {"sha256", digests}});
  }
  return list;
}

// The gradients of rows, from those of the vectors of features.
Vectors LeafGradients() {
  SparseSpec sparse;
  sparse.add_table()->set_dim(2);
  sparse.mutable_table(0)->set_name("a");
  for (const auto pooling : {SparseFeatureSpec::SUM, SparseFeatureSpec::MEAN,
                             SparseFeatureSpec::NONE}) {
    SparseFeatureSpec* const feature = sparse.add_feature();
    feature->set_name(SparseFeatureSpec::Pooling_Name(pooling));
    feature->set_table("a");
    feature->set_pooling(pooling);
  }
  const FeatureRows features(sparse);
  constexpr int kSamples = 6;
  std::mt19937 random(5);
  Batch batch;
  batch.samples = kSamples;
  Vectors keys = Vectors::array();
  for (int feature = 0; feature < 3; ++feature) {
    FeatureKeys& of = batch.feature_keys.emplace_back();
    for (int sample = 0; sample < kSamples; ++sample) {
      const int count = feature == 2 ? 1 : static_cast<int>(random() % 4);
      for (int i = 0; i < count; ++i) of.keys.push_back(random() % 5);
      of.ends.push_back(static_cast<int64_t>(of.keys.size()));
    }
    keys.push_back({{"pooling", sparse.feature(feature).name()},
                    {"keys", TextsOf(of.keys)},
                    {"ends", of.ends}});
  }
  std::vector<float> gradients(kSamples * features.width());
  // Of different magnitudes: the order of the sum matters.
  for (float& gradient : gradients) {
    gradient = (static_cast<float>(random() % 2001) - 1000) *
               (random() % 3 == 0 ? 1e5f : 1e-2f);
  }
  const auto rows = features.RowsOf(batch);
  const TableGradients sums =
      features.GradientsOf(batch, *rows, gradients.data());
  return Vectors::array(
      {{{"dim", 2},
        {"features", keys},
        {"vector_gradients",
         HexOf(gradients.data(), static_cast<int64_t>(gradients.size()))},
        {"rows", TablesOf(sums, {2})[0]}}});
}

// Rows in eight bits: the edges of the format.
Vectors EightBits() {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr int kDim = 4;
  const std::vector<std::vector<float>> rows = {
      // The largest magnitude is 127 times a power of two, and just above.
      {127.0f, 0.5f, 1.5f, 2.5f},
      {-0x1.fc0002p6f, 1.0f, 3.0f, 5.0f},
      {1.0f, -0.3f, 1e-3f, 0.0f},
      {0x1p-20f, -0x1.3p-21f, 0x1p-28f, 0x1p-60f},
      // Small and denormal numbers, and -0.
      {0x1p-126f, -0x1.8p-126f, 0x1p-127f, -0.0f},
      {0.0f, -0.0f, 0x1p-140f, 0.0f},
      // The largest numbers, and a row that is too large.
      {127 * 0x1p121f, -0x1p120f, 1.0f, 0.0f},
      {3.4e38f, 1.0f, 1.0f, 1.0f},
      {1.0f, kInfinity, 1.0f, 1.0f},
      {1.0f, 1.0f, -kNan, 1.0f}};
  Vectors list = Vectors::array();
  for (const std::vector<float>& row : rows) {
    std::string payload(EncodedRowBytes(EIGHT_BIT_ROWS, kDim), ' ');
    EncodeRows(EIGHT_BIT_ROWS, row.data(), 1, kDim, &payload[0]);
    std::vector<float> decoded = row;
    RoundRows(EIGHT_BIT_ROWS, decoded.data(), 1, kDim);
    list.push_back({{"values", HexOf(row.data(), kDim)},
                    {"payload", HexOf(payload)},
                    {"decoded", HexOf(decoded.data(), kDim)}});
  }
  return list;
}

// The sums of two nodes of the tree.
Vectors NodeSums() {
  Vectors list = Vectors::array();
  const auto left = RowsOf({1, 4, 9}, 0, 2);
  const auto right = RowsOf({4, 5, 250}, 3, 2);
  const auto none = RowsOf({}, 0, 2);
  for (const Encoding encoding : {FLOAT32, BFLOAT16, EIGHT_BIT_ROWS}) {
    for (const auto& [a, b] :
         {std::make_pair(left, right), std::make_pair(left, none)}) {
      const auto sum =
          AddSums(ToSums({a}, {2}), ToSums({b}, {2}), encoding)[0]->Gradients();
      list.push_back({{"encoding", Encoding_Name(encoding)},
                      {"left", TablesOf({a}, {2})[0]},
                      {"right", TablesOf({b}, {2})[0]},
                      {"sum", TablesOf({sum}, {2})[0]}});
    }
  }
  return list;
}

}  // namespace

Vectors RowVectors() {
  return {{"placements", Placements()},
          {"requests", Requests()},
          {"answers", Answers()},
          {"contributions", Contributions()},
          {"long_contributions", LongContributions()},
          {"leaf_gradients", LeafGradients()},
          {"eight_bits", EightBits()},
          {"node_sums", NodeSums()}};
}

}  // namespace tributary
