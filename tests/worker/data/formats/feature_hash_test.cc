#include "worker/data/formats/feature_hash.h"

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

// The test vectors of proto/DATA.md, which a program in Python has computed.
TEST(FeatureHashTest, HasTheDocumentedValues) {
  const struct {
    absl::string_view name;
    std::vector<absl::string_view> texts;
    uint64_t key;
  } kCases[] = {
      {"user", {"42"}, 0xfd03e20ff9997c05},
      {"user", {""}, 0x82602058f1941995},
      {"item", {"42"}, 0x8663ee4cf65c7661},
      {"", {"42"}, 0x23ba00f836c1c978},
      {"C1", {"68fd1e64"}, 0xc34784fdf2595470},
      {"city", {"Z\u00fcrich"}, 0xf73f03fbc7c01d76},
      {"user", {absl::string_view("\xff\0x", 3)}, 0xdededcdade4619f9},
      {"user_x_item", {"42", "7"}, 0x7583b0044257b960},
      {"user_x_item", {"4", "27"}, 0xebf7c4e345b2231a},
      {"", {"a", "", "b"}, 0x7587e6a2e2178947},
  };
  for (const auto& test : kCases) {
    const FeatureHash hash(test.name);
    EXPECT_EQ(hash.Key(test.texts), test.key) << test.name;
    if (test.texts.size() == 1) {
      EXPECT_EQ(hash.Key(test.texts[0]), test.key);
    }
  }
}

}  // namespace
}  // namespace tributary
