#include "worker/data/formats/feature_reader.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"
#include "worker/data/formats/feature_hash.h"
#include "worker/data/formats/key_table.h"

namespace tributary {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The columns are named by letters: a is column 0.
FeatureReader Reader(const std::string& features) {
  SparseSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "table { name: 't' dim: 3 } table { name: 'u' dim: 5 } " + features,
      &spec));
  auto reader = FeatureReader::Create(
      spec, [](const std::string&, const std::string& column) {
        return absl::StatusOr<int64_t>(column[0] - 'a');
      });
  EXPECT_EQ(reader.status(), absl::OkStatus());
  return reader.ok() ? *std::move(reader) : FeatureReader();
}

std::vector<uint64_t> Keys(const std::string& feature,
                           const std::vector<absl::string_view>& texts) {
  std::vector<uint64_t> keys;
  EXPECT_EQ(Reader(feature).AppendKeys(0, texts, &keys), absl::OkStatus());
  return keys;
}

TEST(FeatureReaderTest, KnowsColumnsAndDims) {
  const FeatureReader reader = Reader(
      "feature { column: 'f' table: 'u' } "
      "feature { name: 'x' cross: ['b', 'f'] table: 't' } "
      "feature { column: 'c' table: 't' separator: '|' }");
  EXPECT_EQ(reader.size(), 3u);
  EXPECT_THAT(reader.columns(), ElementsAre(1, 2, 5));
  EXPECT_THAT(reader.dims(), ElementsAre(5, 3, 3));
  EXPECT_TRUE(reader.HasOneKey(1));
  EXPECT_FALSE(reader.HasOneKey(2));
}

TEST(FeatureReaderTest, TheNameIsPartOfTheKeyUnlessKeysAreShared) {
  EXPECT_THAT(Keys("feature { column: 'a' table: 't' }", {"42"}),
              ElementsAre(FeatureHash("a").Key("42")));
  EXPECT_THAT(Keys("feature { name: 'n' column: 'a' table: 't' }", {"42"}),
              ElementsAre(FeatureHash("n").Key("42")));
  EXPECT_THAT(
      Keys("feature { column: 'a' table: 't' shared_keys: true }", {"42"}),
      ElementsAre(FeatureHash("").Key("42")));
}

TEST(FeatureReaderTest, CrossesTextsInTheOrderOfTheJob) {
  EXPECT_THAT(
      Keys("feature { name: 'x' cross: ['b', 'a'] table: 't' }", {"1", "2"}),
      ElementsAre(FeatureHash("x").Key({"2", "1"})));
}

TEST(FeatureReaderTest, SeparatesKeys) {
  const std::string feature =
      "feature { column: 'a' table: 't' separator: '|' }";
  const FeatureHash hash("a");
  EXPECT_THAT(Keys(feature, {"x|y y| x ||"}),
              ElementsAre(hash.Key("x"), hash.Key("y y"), hash.Key("x")));
  EXPECT_THAT(Keys(feature, {""}), IsEmpty());
}

TEST(FeatureReaderTest, IntegersAreKeysThemselves) {
  const std::string feature =
      "feature { column: 'a' table: 't' integer_keys: true }";
  EXPECT_THAT(Keys(feature, {"18446744073709551615"}), ElementsAre(~0ull));
  EXPECT_THAT(Keys(feature, {"007"}), ElementsAre(7u));
  for (const absl::string_view wrong :
       {"", "-1", "+1", " 1", "1.0", "18446744073709551616", "abc"}) {
    std::vector<uint64_t> keys;
    EXPECT_THAT(
        Reader(feature).AppendKeys(0, {wrong}, &keys),
        StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("column a: ")))
        << wrong;
  }
}

TEST(FeatureReaderTest, AnUnknownTableIsAnError) {
  SparseSpec spec;
  spec.add_feature()->set_table("none");
  EXPECT_THAT(FeatureReader::Create(spec,
                                    [](const std::string&, const std::string&) {
                                      return absl::StatusOr<int64_t>(0);
                                    }),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("sparse.feature[0].table: ")));
}

TEST(KeyTableTest, KeepsTheKeysOfEachRow) {
  const FeatureReader reader = Reader(
      "feature { column: 'a' table: 't' integer_keys: true } "
      "feature { column: 'b' table: 't' integer_keys: true separator: ' ' } "
      "feature { column: 'c' table: 't' integer_keys: true }");
  KeyTable table(reader);
  table.Reserve(2);
  ASSERT_EQ(table.AppendRow(reader, {"1", "2 3", "4"}), absl::OkStatus());
  ASSERT_EQ(table.AppendRow(reader, {"5", "", "6"}), absl::OkStatus());
  ASSERT_EQ(table.AppendRow(reader, {"7", "8", "9"}), absl::OkStatus());
  EXPECT_THAT(table.Keys(0, 1), ElementsAre(2, 3));
  EXPECT_THAT(table.Keys(1, 0), ElementsAre(5));
  EXPECT_THAT(table.Keys(1, 1), IsEmpty());
  EXPECT_THAT(table.Keys(1, 2), ElementsAre(6));
  EXPECT_THAT(table.Keys(2, 1), ElementsAre(8));
}

}  // namespace
}  // namespace tributary
