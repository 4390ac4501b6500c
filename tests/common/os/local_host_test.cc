#include "common/os/local_host.h"

#include <string>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

TEST(LocalHostTest, IsTheAddressOfTheRightNetwork) {
  for (const std::string host : {"127.0.0.1", "localhost"}) {
    const absl::StatusOr<std::string> own = LocalHostTowards(host + ":5000");
    ASSERT_TRUE(own.ok()) << own.status();
    EXPECT_TRUE(IsLoopback(*own)) << *own;
  }
}

TEST(LocalHostTest, ReadsAddressesInBrackets) {
  const absl::StatusOr<std::string> own = LocalHostTowards("[::1]:5000");
  // Not every machine has IPv6.
  if (absl::IsUnavailable(own.status())) {
    EXPECT_THAT(std::string(own.status().message()), HasSubstr("[::1]:5000"));
    return;
  }
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(*own, "::1");
}

TEST(LocalHostTest, NamesTheAddressThatItCannotReach) {
  EXPECT_THAT(
      LocalHostTowards("no port"),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("HOST:PORT")));
  // No resolver is asked for what cannot be a name.
  EXPECT_THAT(
      LocalHostTowards("no name:5000"),
      StatusIs(absl::StatusCode::kUnavailable, HasSubstr("no name:5000")));
}

TEST(LocalHostTest, KnowsTheAddressesOfThisMachine) {
  EXPECT_TRUE(IsOfThisMachine("127.0.0.1"));
  EXPECT_TRUE(IsOfThisMachine("::1"));
  // A numeric address needs a route, but no resolver.
  const absl::StatusOr<std::string> own = LocalHostTowards("192.0.2.1:5000");
  EXPECT_TRUE(!own.ok() || IsOfThisMachine(*own)) << *own;
  // Addresses for documentation belong to no machine.
  for (const char* const host :
       {"192.0.2.1", "2001:db8::1", "localhost", "0.0.0.0", "", "127.1"}) {
    EXPECT_FALSE(IsOfThisMachine(host)) << host;
  }
}

TEST(LocalHostTest, KnowsLoopback) {
  for (const char* const host :
       {"localhost", "127.0.0.1", "127.9.9.9", "::1"}) {
    EXPECT_TRUE(IsLoopback(host)) << host;
  }
  for (const char* const host :
       {"", "0.0.0.0", "::", "128.0.0.1", "10.0.0.127", "127.0.0.1.example",
        "localhost.example", "fe80::1"}) {
    EXPECT_FALSE(IsLoopback(host)) << host;
  }
}

}  // namespace
}  // namespace tributary
