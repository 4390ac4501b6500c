#include "common/stream/pack_rows.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/codec/row_codec.h"
#include "gmock/gmock.h"

namespace tributary {
namespace {

ReceivedPayload Received(const OutgoingPayload& payload) {
  return ReceivedPayload(payload.data, payload.bytes, payload.owner);
}

// The bytes of a payload in pieces of a few bytes each, as gRPC may deliver
// them.
ReceivedPayload InPieces(const OutgoingPayload& payload) {
  const auto bytes = std::make_shared<std::string>(
      static_cast<const char*>(payload.data), payload.bytes);
  std::vector<ReceivedPayload::Piece> pieces;
  for (size_t end = 0; end < bytes->size();) {
    const size_t begin = end;
    end = std::min(bytes->size(), begin + 5 + pieces.size() % 7);
    pieces.push_back({bytes->data() + begin, static_cast<int64_t>(end)});
  }
  return ReceivedPayload(std::move(pieces), bytes);
}

std::shared_ptr<const RowGradients> Gradients(int64_t rows, int dim,
                                              uint64_t first) {
  auto gradients = std::make_shared<RowGradients>();
  gradients->values = AllocateBuffer(rows * dim);
  for (int64_t row = 0; row < rows; ++row) {
    gradients->keys.push_back(first + 3 * row);
    for (int i = 0; i < dim; ++i) {
      gradients->values.get()[row * dim + i] = static_cast<float>(row - i);
    }
  }
  return gradients;
}

struct Part {
  RowContribution message;
  OutgoingPayload payload;
};

std::vector<Part> Pack(const TableGradients& rows, const RowDims& dims,
                       Encoding encoding) {
  RowContribution header;
  header.set_step(4);
  header.set_node(2);
  std::vector<Part> parts;
  PackContribution(header, AllRows(ToSums(rows, dims)), dims, encoding,
                   [&](const RowContribution& message, OutgoingPayload part) {
                     parts.push_back({message, std::move(part)});
                   });
  return parts;
}

TEST(PackRowsTest, ContributionsArriveAsTheyWere) {
  // The second table takes several parts, and the third shares the last of
  // them.
  const RowDims dims = {2, 16, 1};
  const std::vector<std::vector<int64_t>> sizes = {
      {3, 40000, 5}, {0, 0, 0}, {0, 1, 0}, {0, 0, 7}, {300000, 0, 2}};
  for (const std::vector<int64_t>& size : sizes) {
    TableGradients rows;
    for (int table = 0; table < 3; ++table) {
      rows.push_back(Gradients(size[table], dims[table], 1u << table));
    }
    for (const Encoding encoding : {FLOAT32, BFLOAT16, EIGHT_BIT_ROWS}) {
      ContributionParts parts(dims, encoding);
      TableGradients arrived;
      const std::vector<Part> sent = Pack(rows, dims, encoding);
      EXPECT_EQ(sent.size() > 1,
                size[0] + size[1] > 10000 &&
                    (encoding != EIGHT_BIT_ROWS || size[0] > 10000));
      for (const Part& part : sent) {
        EXPECT_LE(part.payload.bytes, 4 << 20);
        const auto added =
            parts.Add(part.message, sent.size() > 1 ? Received(part.payload)
                                                    : InPieces(part.payload));
        ASSERT_TRUE(added.ok()) << added.status();
        ASSERT_EQ(added->empty(), !part.message.last());
        arrived = *added;
      }
      ASSERT_EQ(arrived.size(), 3u);
      for (int table = 0; table < 3; ++table) {
        EXPECT_EQ(arrived[table]->keys, rows[table]->keys);
        // BFLOAT16 rounds numbers above 256.
        std::vector<float> wanted(
            rows[table]->values.get(),
            rows[table]->values.get() + size[table] * dims[table]);
        RoundRows(encoding, wanted.data(), size[table], dims[table]);
        EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(),
                               arrived[table]->values.get()));
      }
    }
  }
}

// The rows of a sum that belong to one of several servers.
TEST(PackRowsTest, PartsOfSumsArriveAsTheyWere) {
  const RowDims dims = {16, 3};
  // Two leaves have ten keys of the first table in common.
  const auto leaf = [&](uint64_t first) {
    return ToSums({Gradients(30000, 16, first), Gradients(30, 3, first)}, dims);
  };
  for (const Encoding encoding : {FLOAT32, BFLOAT16}) {
    const TableSums sums = AddSums(leaf(0), leaf(3 * 29990), encoding);
    std::vector<OutgoingRows> outgoing;
    for (const auto& sum : sums) {
      std::vector<int32_t> places;
      for (int32_t row = 1; row < sum->rows(); row += 2) places.push_back(row);
      outgoing.push_back({sum, places});
    }
    ContributionParts parts(dims, encoding);
    // The second contribution finds room that the first has needed.
    for (int contribution = 0; contribution < 2; ++contribution) {
      TableGradients arrived;
      int messages = 0;
      PackContribution(
          RowContribution(), outgoing, dims, encoding,
          [&](const RowContribution& part, const OutgoingPayload& payload) {
            ++messages;
            const auto added = parts.Add(part, Received(payload));
            ASSERT_TRUE(added.ok()) << added.status();
            if (part.last()) arrived = *added;
          });
      EXPECT_GT(messages, 1);
      ASSERT_EQ(arrived.size(), 2u);
      for (int table = 0; table < 2; ++table) {
        const auto all = sums[table]->Gradients();
        const std::vector<int32_t>& places = *outgoing[table].places;
        ASSERT_EQ(arrived[table]->keys.size(), places.size());
        const int dim = dims[table];
        for (size_t row = 0; row < places.size(); ++row) {
          ASSERT_EQ(arrived[table]->keys[row], all->keys[places[row]]);
          std::vector<float> wanted(
              all->values.get() + places[row] * dim,
              all->values.get() + (places[row] + 1) * dim);
          RoundRows(encoding, wanted.data(), 1, dim);
          ASSERT_TRUE(std::equal(wanted.begin(), wanted.end(),
                                 arrived[table]->values.get() + row * dim));
        }
      }
    }
  }
}

TEST(PackRowsTest, RequestsAndAnswersArriveAsTheyWere) {
  const RowDims dims = {3, 1};
  const TableKeys keys = {{5, 1000, uint64_t{1} << 63}, {}};
  RowsRequest request;
  const OutgoingPayload payload = PackRequest(keys, &request);
  const auto read = ReadRequest(request, InPieces(payload), 2);
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(*read, keys);

  const Buffer values = AllocateBuffer(3 * 3);
  for (int i = 0; i < 9; ++i) values.get()[i] = static_cast<float>(i);
  int messages = 0;
  PackRows(/*request=*/7, {3, 0}, dims, FLOAT32, values,
           [&](const Rows& rows, OutgoingPayload part) {
             ++messages;
             EXPECT_EQ(rows.request(), 7);
             EXPECT_EQ(rows.first(), 0);
             EXPECT_EQ(rows.rows(), 3);
             EXPECT_EQ(part.bytes, 36);
             EXPECT_EQ(part.data, values.get());
           });
  EXPECT_EQ(messages, 1);
  // Nothing was requested of this server: there is an answer all the same.
  PackRows(8, {0, 0}, dims, FLOAT32, values,
           [&](const Rows& rows, OutgoingPayload part) {
             ++messages;
             EXPECT_EQ(rows.rows(), 0);
             EXPECT_EQ(part.bytes, 0);
             EXPECT_NE(part.data, nullptr);
           });
  EXPECT_EQ(messages, 2);
  // Large answers are divided, at rows.
  constexpr int64_t kMany = 500000;
  const Buffer many = AllocateBuffer(kMany * 3);
  std::fill_n(many.get(), kMany * 3, 1.f);
  int64_t next = 0;
  PackRows(9, {kMany, 0}, dims, FLOAT16, many,
           [&](const Rows& rows, OutgoingPayload part) {
             EXPECT_EQ(rows.first(), next);
             EXPECT_EQ(part.bytes, rows.rows() * 3 * 2);
             EXPECT_LE(part.bytes, 4 << 20);
             next += rows.rows();
           });
  EXPECT_EQ(next, kMany);
}

// The rows of a message have different sizes, and the bytes are what one row
// after the other takes.
TEST(PackRowsTest, AnswersInEightBitsHaveOneScaleForEachRow) {
  const RowDims dims = {3, 1};
  constexpr int64_t kRows[] = {300000, 5};
  const Buffer values = AllocateBuffer(kRows[0] * 3 + kRows[1]);
  for (int64_t i = 0; i < kRows[0] * 3 + kRows[1]; ++i) {
    values.get()[i] = static_cast<float>(i % 1013);
  }
  std::string bytes;
  int messages = 0;
  int64_t next = 0;
  PackRows(7, {kRows[0], kRows[1]}, dims, EIGHT_BIT_ROWS, values,
           [&](const Rows& rows, const OutgoingPayload& part) {
             ++messages;
             EXPECT_EQ(rows.encoding(), EIGHT_BIT_ROWS);
             EXPECT_EQ(rows.first(), next);
             next += rows.rows();
             bytes.append(static_cast<const char*>(part.data), part.bytes);
           });
  EXPECT_EQ(messages, 2);
  EXPECT_EQ(next, kRows[0] + kRows[1]);
  std::string wanted(4 * kRows[0] + 2 * kRows[1], ' ');
  EncodeRows(EIGHT_BIT_ROWS, values.get(), kRows[0], 3, &wanted[0]);
  EncodeRows(EIGHT_BIT_ROWS, values.get() + 3 * kRows[0], kRows[1], 1,
             &wanted[4 * kRows[0]]);
  EXPECT_EQ(bytes, wanted);
}

TEST(PackRowsTest, RefusesMalformedMessages) {
  const RowDims dims = {2, 3};
  const TableGradients rows = {Gradients(4, 2, 0), Gradients(1, 3, 0)};
  const Part good = Pack(rows, dims, FLOAT32).at(0);
  const auto code = [&](const std::function<void(Part*)>& change) {
    Part part = good;
    change(&part);
    ContributionParts parts(dims, FLOAT32);
    return parts.Add(part.message, Received(part.payload)).status().code();
  };
  constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;
  EXPECT_EQ(code([](Part*) {}), absl::StatusCode::kOk);
  EXPECT_EQ(code([](Part* p) { p->payload.bytes -= 4; }), kInvalid);
  EXPECT_EQ(code([](Part* p) { p->message.set_part(1); }), kInvalid);
  EXPECT_EQ(code([](Part* p) { p->message.add_keys(0); }), kInvalid);
  EXPECT_EQ(code([](Part* p) { p->message.set_keys(0, -1); }), kInvalid);
  EXPECT_EQ(code([](Part* p) { p->message.set_keys(0, 3); }), kInvalid);
  EXPECT_EQ(code([](Part* p) { p->message.set_encoding(FLOAT16); }), kInvalid);
  EXPECT_EQ(code([](Part* p) { p->message.set_encoding(TOP_K); }), kInvalid);

  // A part of another contribution in between.
  ContributionParts parts(dims, FLOAT32);
  Part first = good;
  first.message.set_last(false);
  ASSERT_TRUE(parts.Add(first.message, Received(first.payload)).ok());
  Part other = good;
  other.message.set_part(1);
  other.message.set_node(3);
  EXPECT_EQ(parts.Add(other.message, Received(other.payload)).status().code(),
            kInvalid);

  // A scale that no encoder writes; the error names the table and the key.
  const Part eight_bits = Pack(rows, dims, EIGHT_BIT_ROWS).at(0);
  std::string bytes(static_cast<const char*>(eight_bits.payload.data),
                    eight_bits.payload.bytes);
  bytes[5 * 8 + 3 * 3] = '\0';
  ContributionParts damaged(dims, EIGHT_BIT_ROWS);
  const absl::Status refused =
      damaged
          .Add(eight_bits.message,
               ReceivedPayload(bytes.data(), bytes.size(), nullptr))
          .status();
  EXPECT_EQ(refused.code(), kInvalid);
  EXPECT_THAT(std::string(refused.message()),
              testing::AllOf(testing::HasSubstr("table 0"),
                             testing::HasSubstr("scale 0")));

  RowsRequest request;
  const OutgoingPayload payload = PackRequest({{1, 2}, {3}}, &request);
  EXPECT_EQ(ReadRequest(request, Received(payload), 3).status().code(),
            kInvalid);
  request.set_keys(0, 1);
  EXPECT_EQ(ReadRequest(request, Received(payload), 2).status().code(),
            kInvalid);
}

}  // namespace
}  // namespace tributary
