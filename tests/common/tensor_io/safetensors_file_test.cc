#include "common/tensor_io/safetensors_file.h"

#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/os/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::StartsWith;

std::string PathOf(const std::string& name) {
  return testing::TempDir() + "/" + name;
}

// A file with the given header and so many bytes of data.
std::string MakeFile(const std::string& header, size_t data_bytes) {
  const uint64_t length = header.size();
  std::string bytes(8, '\0');
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data_bytes, '\0');
}

absl::StatusOr<SafetensorsFile> OpenBytes(const std::string& bytes) {
  const std::string path = PathOf("bytes.safetensors");
  std::ofstream(path, std::ios::binary) << bytes;
  return SafetensorsFile::Open(path);
}

TEST(SafetensorsTest, ReadsWhatItWrote) {
  const std::string path = PathOf("round.safetensors");
  const std::vector<float> w = {1, 2, 3, 4, 5, 6}, b = {-1.5f}, e;
  ASSERT_TRUE(WriteSafetensors(path,
                               {{"layer.weight", {2, 3}, w.data()},
                                {"empty", {0, 4}, e.data()},
                                {"layer.bias", {}, b.data()}},
                               {{"step", "30"}})
                  .ok());
  const auto file = SafetensorsFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->metadata(),
              ElementsAre(Pair("format", "pt"), Pair("step", "30"),
                          Pair(kTensorsDigestKey, testing::SizeIs(64))));
  EXPECT_TRUE(file->Verify().ok()) << file->Verify();
  ASSERT_EQ(file->tensors().size(), 3);
  EXPECT_EQ(file->tensors()[0].name, "empty");
  EXPECT_EQ(file->tensors()[1].name, "layer.bias");
  const auto found = file->Find("layer.weight");
  ASSERT_TRUE(found.ok());
  EXPECT_THAT((*found)->shape, ElementsAre(2, 3));
  std::vector<float> read(6);
  ASSERT_TRUE(file->ReadFloats(**found, absl::MakeSpan(read)).ok());
  EXPECT_EQ(read, w);
  read.resize(5);
  EXPECT_EQ(file->ReadFloats(**found, absl::MakeSpan(read)).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(file->Find("nothing").status().code(), absl::StatusCode::kNotFound);
}

// A program trained, evaluated and exported with weights of which one bit had
// changed.
TEST(SafetensorsTest, FindsAChangedBitAnywhereInTheTensors) {
  const std::string path = PathOf("changed.safetensors");
  const std::vector<float> w = {1, 2, 3}, b = {-1.5f};
  ASSERT_TRUE(
      WriteSafetensors(path, {{"w", {3}, w.data()}, {"b", {}, b.data()}}, {})
          .ok());
  const std::string whole = *ReadFile(path, 10000);
  const auto verified = [](const std::string& bytes) {
    const auto file = OpenBytes(bytes);
    return file.ok() ? file->Verify() : file.status();
  };
  EXPECT_TRUE(verified(whole).ok());
  for (size_t i = whole.size() - 16; i < whole.size(); ++i) {
    std::string bytes = whole;
    bytes[i] = static_cast<char>(bytes[i] ^ 0x10);
    EXPECT_EQ(verified(bytes).code(), absl::StatusCode::kDataLoss) << i;
  }
  std::string renamed = whole;
  renamed[renamed.find("\"w\"") + 1] = 'v';
  EXPECT_EQ(verified(renamed).code(), absl::StatusCode::kDataLoss);
}

TEST(SafetensorsTest, TheHeaderIsPaddedAndBeginsWithMetadata) {
  const std::string path = PathOf("padded.safetensors");
  const float one = 1;
  for (const char* name : {"a", "ab", "abc", "abcd"}) {
    ASSERT_TRUE(WriteSafetensors(path, {{name, {1}, &one}}, {}).ok());
    const std::string bytes = *ReadFile(path, 10000);
    EXPECT_EQ((bytes.size() - 4) % 8, 0);
    EXPECT_THAT(bytes.substr(8), AllOf(StartsWith("{\"__metadata__\":{\""),
                                       HasSubstr("\"format\":\"pt\"},\"")));
  }
}

TEST(SafetensorsTest, RefusesNamesThatTheFormatCannotHold) {
  const float one = 1;
  const auto write = [&](const std::string& a, const std::string& b) {
    return WriteSafetensors(PathOf("never.safetensors"),
                            {{a, {1}, &one}, {b, {1}, &one}}, {});
  };
  for (const char* bad : {"", "__metadata__", "a\nb", "\xff"}) {
    EXPECT_EQ(write("good", bad).code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_THAT(std::string(write("x", "x").message()),
              HasSubstr("two tensors are called \"x\""));
  EXPECT_THAT(SafetensorsFile::Open(PathOf("never.safetensors")),
              StatusIs(absl::StatusCode::kNotFound));
}

TEST(SafetensorsTest, WritesNothingThatReadersRefuse) {
  const float one = 1;
  EXPECT_THAT(
      std::string(WriteSafetensors(PathOf("never.safetensors"),
                                   {{std::string(60000000, 'a'), {1}, &one},
                                    {std::string(60000000, 'b'), {1}, &one}},
                                   {})
                      .message()),
      HasSubstr("limit 100000000"));
}

TEST(SafetensorsTest, MetadataThatAreNotUtf8AreWrittenAsUtf8) {
  const std::string path = PathOf("utf8.safetensors");
  ASSERT_TRUE(WriteSafetensors(path, {}, {{"k", "\xff"}}).ok());
  EXPECT_TRUE(SafetensorsFile::Open(path).ok());
}

TEST(SafetensorsTest, AcceptsAFileWithNothingInIt) {
  const auto file = OpenBytes(MakeFile("{}  ", 0));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->tensors().empty());
}

TEST(SafetensorsTest, AcceptsTensorsInAnyOrderInTheHeader) {
  const auto file = OpenBytes(
      MakeFile(R"({"b":{"dtype":"I64","shape":[2],"data_offsets":[2,18]},)"
               R"("a":{"shape":[2],"data_offsets":[0,2],"dtype":"U8"}})",
               18));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->tensors()[0].name, "a");
}

TEST(SafetensorsTest, RefusesFilesThatBreakTheRules) {
  const auto with = [](const std::string& fields) {
    return MakeFile("{\"t\":{" + fields + "}}", 8);
  };
  const auto tensor = [&](const std::string& dtype, const std::string& shape,
                          const std::string& offsets) {
    return with(absl::StrCat("\"dtype\":", dtype, ",\"shape\":", shape,
                             ",\"data_offsets\":", offsets));
  };
  const auto float32 = [&](const std::string& shape,
                           const std::string& offsets) {
    return tensor("\"F32\"", shape, offsets);
  };
  const std::string good = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  ASSERT_TRUE(OpenBytes(with(good)).ok());
  const std::pair<std::string, const char*> cases[] = {
      {"", "0 bytes"},
      {"1234567", "7 bytes"},
      {std::string(8, '\xff'), "over the limit 100000000"},
      {std::string("\x01\xe1\xf5\x05\0\0\0\0", 8), "over the limit 100000000"},
      {MakeFile("{}", 0).substr(0, 9), "past the end of the file at 9"},
      {MakeFile("", 4), "offset 8: "},
      {MakeFile(" {}", 0), "offset 8: "},
      {MakeFile("[]", 0), "does not begin with {"},
      {MakeFile("{\"a\":", 0), "not valid JSON"},
      {MakeFile("{}x", 0), "offset 10: "},
      {MakeFile("{\"\xff\":{}}", 0), "not valid JSON"},
      {MakeFile(std::string(200000, '{'), 0), "not valid JSON"},
      {MakeFile("{\"t\":" + std::string(200000, '['), 0), "\"t\": "},
      {MakeFile("{\"t\":5}", 0), "\"t\": did not expect a number"},
      {MakeFile("{\"t\":null}", 0), "did not expect null"},
      {MakeFile(R"({"__metadata__":{"a":5}})", 0), "__metadata__: "},
      {MakeFile(R"({"__metadata__":{"a":"1","a":"2"}})", 0), "\"a\" twice"},
      {MakeFile(R"({"__metadata__":{},"__metadata__":{}})", 0),
       "\"__metadata__\" appears twice"},
      {MakeFile("{\"t\":{" + good + "},\"t\":{" + good + "}}", 8),
       "\"t\" appears twice"},
      {with(good + ",\"dtype\":\"F32\""), "dtype appears twice"},
      {with(good + ",\"extra\":1"), "\"extra\""},
      {with(R"("dtype":"F32","shape":[2])"), "lacks dtype, shape or"},
      {tensor("\"F31\"", "[2]", "[0,8]"), "dtype \"F31\""},
      {tensor("4", "[2]", "[0,8]"), "did not expect a number"},
      {float32("\"2\"", "[0,8]"), "did not expect a string"},
      {float32("[-2]", "[0,8]"), "-2 is negative"},
      {float32("[2.0]", "[0,8]"), "2.0 is not a whole number"},
      {float32("[99999999999999999999]", "[0,8]"), "in range"},
      {float32("[18446744073709551615]", "[0,8]"), "is too large"},
      // 2^32 * 2^32 * 4 bytes are 0 in 64 bits.
      {float32("[4294967296,4294967296]", "[0,0]"), "too many elements"},
      {float32("[2]", "[0,8,9]"), "data_offsets has 3 numbers"},
      {float32("[2]", "[8,0]"), "data_offsets are [8, 0]"},
      {float32("[3]", "[0,8]"), "need 12 bytes"},
      {float32("[1]", "[4,8]"), "begins at 4"},
      {float32("[1]", "[0,4]"), "4 bytes, but the file holds 8"},
      {MakeFile("{\"t\":{" + good + "}}", 7), "8 bytes, but the file holds 7"},
      {MakeFile("{\"t\":{" + good + "},\"u\":{" + good + "}}", 8),
       "begins at 0"},
      {MakeFile(
           "{\"t\":{" + good +
               R"(},"u":{"dtype":"U8","shape":[4],"data_offsets":[9,13]}})",
           13),
       "begins at 9"},
  };
  for (const auto& [bytes, message] : cases) {
    EXPECT_THAT(OpenBytes(bytes),
                StatusIs(absl::StatusCode::kDataLoss,
                         AllOf(StartsWith(PathOf("bytes.safetensors: ")),
                               HasSubstr(message))))
        << bytes.substr(0, 100);
  }
}

TEST(SafetensorsTest, RefusesWhatIsNoFile) {
  EXPECT_EQ(SafetensorsFile::Open(PathOf("missing")).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(SafetensorsFile::Open(testing::TempDir()).status().code(),
            absl::StatusCode::kDataLoss);
}

// Cuts and flips of a good file end in an error or in a file that is still
// consistent; sanitizers watch the rest.
TEST(SafetensorsTest, SurvivesDamage) {
  const std::string path = PathOf("damage.safetensors");
  const std::vector<float> w = {1, 2, 3, 4};
  ASSERT_TRUE(WriteSafetensors(
                  path, {{"w", {4}, w.data()}, {"v", {2, 2}, w.data()}}, {})
                  .ok());
  const std::string good = *ReadFile(path, 10000);
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_THAT(
        OpenBytes(good.substr(0, size)),
        StatusIs(absl::StatusCode::kDataLoss,
                 testing::AnyOf(HasSubstr("too few"),
                                HasSubstr("goes past the end of the file"),
                                HasSubstr("but the file holds"))))
        << size;
  }
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ (1 << (i % 8)));
    const auto file = OpenBytes(bad);
    if (!file.ok()) continue;
    for (const TensorEntry& tensor : file->tensors()) {
      std::vector<float> values((tensor.end - tensor.begin) / 4);
      file->ReadFloats(tensor, absl::MakeSpan(values)).IgnoreError();
    }
  }
}

}  // namespace
}  // namespace tributary
