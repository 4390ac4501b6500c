#include "common/transport/chunk_codec.h"

#include <algorithm>
#include <string>
#include <vector>

#include "grpcpp/support/slice.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

std::string Flatten(const grpc::ByteBuffer& bytes) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(bytes.Dump(&slices).ok());
  std::string all;
  for (const grpc::Slice& slice : slices) {
    all.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return all;
}

// In pieces of `piece` bytes, as a socket would deliver them.
grpc::ByteBuffer Pieces(const std::string& bytes, size_t piece) {
  std::vector<grpc::Slice> slices;
  for (size_t i = 0; i < bytes.size(); i += piece) {
    slices.emplace_back(bytes.substr(i, piece));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::vector<float> Numbers(size_t count) {
  std::vector<float> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = 0.37f * static_cast<float>(i);
  return numbers;
}

std::string BytesOf(const std::vector<float>& numbers) {
  return std::string(reinterpret_cast<const char*>(numbers.data()),
                     numbers.size() * sizeof(float));
}

WorkerMessage ContributionHeader() {
  WorkerMessage message;
  message.mutable_contribution()->set_step(1234567);
  message.mutable_contribution()->set_chunk(300);
  message.mutable_contribution()->set_node(5);
  message.mutable_contribution()->set_weight(96);
  message.mutable_contribution()->set_loss_sum(-0.25);
  return message;
}

OutgoingPayload PayloadOf(const std::vector<float>& numbers) {
  return {numbers.data(), static_cast<int64_t>(4 * numbers.size()), nullptr};
}

TEST(ChunkCodec, WritesTheBytesThatGeneratedCodeWrites) {
  for (const size_t count : {1, 16, 31, 32, 4097, 262144}) {
    const std::vector<float> numbers = Numbers(count);
    const WorkerMessage header = ContributionHeader();
    WorkerMessage whole = header;
    whole.mutable_contribution()->set_payload(BytesOf(numbers));
    EXPECT_EQ(Flatten(Encode(header, PayloadOf(numbers))),
              whole.SerializeAsString());

    WorkerMessage initial;
    initial.mutable_initial()->set_chunk(2);
    WorkerMessage whole_initial = initial;
    whole_initial.mutable_initial()->set_payload(BytesOf(numbers));
    EXPECT_EQ(Flatten(Encode(initial, PayloadOf(numbers))),
              whole_initial.SerializeAsString());

    ServerMessage weights;
    weights.mutable_weights()->set_version(7);
    ServerMessage whole_weights = weights;
    whole_weights.mutable_weights()->set_payload(BytesOf(numbers));
    EXPECT_EQ(Flatten(Encode(weights, PayloadOf(numbers))),
              whole_weights.SerializeAsString());

    JournalMessage copy;
    copy.mutable_part()->set_version(7);
    copy.mutable_part()->set_array(2);
    JournalMessage whole_copy = copy;
    whole_copy.mutable_part()->set_payload(BytesOf(numbers));
    EXPECT_EQ(Flatten(Encode(copy, PayloadOf(numbers))),
              whole_copy.SerializeAsString());

    StageMessage transfer;
    transfer.mutable_transfer()->set_step(7);
    transfer.mutable_transfer()->set_kind(StageTransfer::WEIGHT_GRADIENT);
    StageMessage whole_transfer = transfer;
    whole_transfer.mutable_transfer()->set_payload(BytesOf(numbers));
    EXPECT_EQ(Flatten(Encode(transfer, PayloadOf(numbers))),
              whole_transfer.SerializeAsString());
  }
}

TEST(ChunkCodec, KeepsAPayloadWithoutBytes) {
  StageMessage sent;
  sent.mutable_transfer()->set_step(7);
  grpc::ByteBuffer bytes = Encode(sent, {"", 0, nullptr});
  for (const size_t piece : {1, 100}) {
    grpc::ByteBuffer pieces = Pieces(Flatten(bytes), piece);
    StageMessage received;
    ReceivedPayload payload;
    ASSERT_TRUE(DecodeInPlace(&pieces, &received, &payload).ok());
    EXPECT_EQ(received.transfer().step(), 7);
    EXPECT_EQ(payload.bytes(), 0);
    payload.Copy(0, 0, nullptr);
  }
}

TEST(ChunkCodec, ReadsTheBytesThatGeneratedCodeWritesHoweverTheyAreCut) {
  const std::vector<float> numbers = Numbers(1000);
  WorkerMessage whole = ContributionHeader();
  whole.mutable_contribution()->set_payload(BytesOf(numbers));
  for (const size_t piece : {1, 2, 7, 64, 4000, 100000}) {
    grpc::ByteBuffer bytes = Pieces(whole.SerializeAsString(), piece);
    WorkerMessage message;
    ReceivedPayload payload;
    ASSERT_TRUE(DecodeInPlace(&bytes, &message, &payload).ok());
    ASSERT_EQ(payload.bytes(), 4000);
    std::vector<float> read(1000);
    payload.Copy(0, 4000, read.data());
    EXPECT_EQ(message.SerializeAsString(),
              ContributionHeader().SerializeAsString());
    EXPECT_EQ(read, numbers);
    // And in parts.
    for (const int begin : {0, 1, 63, 3999}) {
      std::string scratch(100, 0);
      const int count = std::min(100, 4000 - begin);
      EXPECT_EQ(std::string(payload.View(begin, count, &scratch[0]), count),
                BytesOf(numbers).substr(begin, count));
    }
  }
}

TEST(ChunkCodec, HoldsTheOwnerAsLongAsTheBytes) {
  auto owner = std::make_shared<std::vector<float>>(Numbers(64));
  {
    const grpc::ByteBuffer bytes =
        Encode(ContributionHeader(), {owner->data(), 256, owner});
    EXPECT_EQ(owner.use_count(), 2);
  }
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(ChunkCodec, ReadsMessagesWithoutPayload) {
  WorkerMessage hello;
  hello.mutable_hello()->set_signature("abc");
  grpc::ByteBuffer bytes = Encode(hello);
  WorkerMessage message;
  ReceivedPayload payload;
  ASSERT_TRUE(DecodeInPlace(&bytes, &message, &payload).ok());
  EXPECT_EQ(payload.bytes(), 0);
  EXPECT_EQ(message.hello().signature(), "abc");
}

absl::Status Decoded(const std::string& text) {
  grpc::ByteBuffer bytes = Pieces(text, 16);
  WorkerMessage message;
  ReceivedPayload payload;
  return DecodeInPlace(&bytes, &message, &payload);
}

TEST(ChunkCodec, RefusesWhatIsNoSuchMessage) {
  WorkerMessage whole = ContributionHeader();
  whole.mutable_contribution()->set_payload(BytesOf(Numbers(64)));
  const std::string good = whole.SerializeAsString();
  ASSERT_TRUE(Decoded(good).ok());
  // Every cut, and a tail.
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_EQ(Decoded(good.substr(0, length)).code(),
              absl::StatusCode::kInvalidArgument)
        << length;
  }
  EXPECT_EQ(Decoded(good + "x").code(), absl::StatusCode::kInvalidArgument);
  // No payload at all.
  EXPECT_EQ(Decoded(ContributionHeader().SerializeAsString()).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(Decoded("GET / HTTP/1.1\r\n\r\n").code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace tributary
