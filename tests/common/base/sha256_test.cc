#include "common/base/sha256.h"

#include <string>

#include "gtest/gtest.h"

namespace tributary {
namespace {

TEST(DigestTest, EqualsThePublishedVectors) {
  // FIPS 180-4, appendix of examples.
  EXPECT_EQ(Sha256Hex("abc"),
            "ba7816bf8f01cfea414140de5dae2223"
            "b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex(""),
            "e3b0c44298fc1c149afbf4c8996fb924"
            "27ae41e4649b934ca495991b7852b855");
}

TEST(DigestTest, PiecesGiveTheDigestOfTheWhole) {
  const std::string text(1000, 'x');
  Sha256 digest;
  for (size_t i = 0; i < text.size(); i += 7) digest.Update(text.substr(i, 7));
  EXPECT_EQ(digest.FinishHex(), Sha256Hex(text));
}

TEST(DigestTest, StartsAnewAfterFinish) {
  Sha256 digest;
  digest.Update("something else");
  digest.FinishHex();
  digest.Update("abc");
  EXPECT_EQ(digest.FinishHex(), Sha256Hex("abc"));
}

}  // namespace
}  // namespace tributary
