#include "server/membership/member_secrets.h"

#include "gtest/gtest.h"

namespace tributary {
namespace {

TEST(MemberSecretsTest, ProvesOnlyTheOwnIncarnation) {
  const MemberSecrets secrets(MemberSecrets::NewKey());
  Hello hello;
  hello.set_incarnation(3);
  EXPECT_FALSE(secrets.Proves(hello));
  hello.set_secret(secrets.OfMember(3));
  EXPECT_TRUE(secrets.Proves(hello));
  hello.set_incarnation(4);
  EXPECT_FALSE(secrets.Proves(hello));
}

TEST(MemberSecretsTest, AnotherKeyProvesNothing) {
  Hello hello;
  hello.set_secret(MemberSecrets(MemberSecrets::NewKey()).OfMember(0));
  EXPECT_FALSE(MemberSecrets(MemberSecrets::NewKey()).Proves(hello));
}

TEST(MemberSecretsTest, ProvesOnlyTheAssignmentThatWasMade) {
  const MemberSecrets secrets("key");
  Deal deal;
  deal.set_generation(5);
  deal.set_leaf_begin(2);
  deal.set_leaf_end(4);
  deal.set_chunk_begin(3);
  deal.set_chunk_end(6);
  Assigned assigned;
  assigned.set_generation(5);
  assigned.set_leaf_begin(2);
  assigned.set_leaf_end(4);
  assigned.set_chunk_begin(3);
  assigned.set_chunk_end(6);
  assigned.set_secret(secrets.OfAssignment(/*incarnation=*/7, deal));
  EXPECT_TRUE(secrets.Proves(7, assigned));
  EXPECT_FALSE(secrets.Proves(8, assigned));
  Assigned other = assigned;
  other.set_leaf_end(5);
  EXPECT_FALSE(secrets.Proves(7, other));
  other = assigned;
  other.set_generation(6);
  EXPECT_FALSE(secrets.Proves(7, other));
  other = assigned;
  other.set_chunk_begin(2);
  EXPECT_FALSE(secrets.Proves(7, other));
  other = assigned;
  other.set_chunk_end(7);
  EXPECT_FALSE(secrets.Proves(7, other));
  // No range of chunks stands for all of them.
  other.set_chunk_begin(0);
  other.set_chunk_end(0);
  EXPECT_FALSE(secrets.Proves(7, other));
}

TEST(MemberSecretsTest, APairHasOneSecretOfItsOwn) {
  const MemberSecrets secrets("key");
  EXPECT_EQ(secrets.OfPair(7, 12), secrets.OfPair(12, 7));
  EXPECT_NE(secrets.OfPair(7, 12), secrets.OfPair(7, 13));
  EXPECT_NE(secrets.OfPair(7, 12), MemberSecrets("other").OfPair(7, 12));
  EXPECT_NE(secrets.OfPair(7, 7), secrets.OfMember(7));
}

}  // namespace
}  // namespace tributary
