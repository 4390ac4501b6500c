#include "common/transport/security.h"

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/os/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/certificates.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

class SecurityTest : public testing::Test {
 protected:
  SecurityTest()
      : directory_(absl::StrCat(
            testing::TempDir(), "/",
            testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = absl::StrCat(directory_, "/", name);
    EXPECT_TRUE(WriteFileAtomically(path, {text}).ok());
    return path;
  }

  // The error of loading the folder for a worker.
  std::string Refusal() {
    const absl::StatusOr<Security> security =
        LoadSecurity(directory_, "", {Role::kWorker});
    EXPECT_EQ(security.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(security.status().message());
  }

  const std::string directory_;
};

TEST_F(SecurityTest, NothingIsFine) {
  const absl::StatusOr<Security> security =
      LoadSecurity("", "", {Role::kWorker});
  ASSERT_TRUE(security.ok());
  EXPECT_FALSE(security->any());
}

TEST_F(SecurityTest, TakesTheFirstRoleThatIsThere) {
  WriteTlsDirectory(directory_);
  std::filesystem::remove(directory_ + "/admin.pem");
  const absl::StatusOr<Security> security =
      LoadSecurity(directory_, "", {Role::kAdmin, Role::kServer});
  ASSERT_TRUE(security.ok()) << security.status();
  EXPECT_EQ(security->role, Role::kServer);
  EXPECT_TRUE(security->tls());
}

TEST_F(SecurityTest, AMissingFileIsNotFound) {
  const auto code = [this] {
    return LoadSecurity(directory_, "", {Role::kWorker}).status().code();
  };
  EXPECT_EQ(code(), absl::StatusCode::kNotFound);
  for (const char* file : {"ca.pem", "worker.pem", "worker-key.pem"}) {
    WriteTlsDirectory(directory_);
    std::filesystem::remove(absl::StrCat(directory_, "/", file));
    EXPECT_EQ(code(), absl::StatusCode::kNotFound) << file;
  }
}

TEST_F(SecurityTest, SaysWhichFileIsMissing) {
  EXPECT_THAT(
      std::string(
          LoadSecurity(directory_, "", {Role::kWorker}).status().message()),
      HasSubstr("has no worker.pem"));
}

TEST_F(SecurityTest, RefusesACertificateOfAnotherAuthority) {
  WriteTlsDirectory(directory_, TestAuthority(), TestAuthority().certificate);
  EXPECT_THAT(Refusal(), HasSubstr("issuer certificate"));
}

TEST_F(SecurityTest, RefusesAnExpiredCertificate) {
  const CertificateAndKey authority = TestAuthority();
  WriteTlsDirectory(directory_, authority, authority.certificate,
                    absl::Minutes(30));
  EXPECT_THAT(Refusal(), HasSubstr("certificate has expired"));
}

TEST_F(SecurityTest, RefusesTheCertificateOfAnotherRole) {
  WriteTlsDirectory(directory_);
  for (const char* name : {".pem", "-key.pem"}) {
    std::filesystem::rename(directory_ + "/server" + name,
                            directory_ + "/worker" + name);
  }
  EXPECT_THAT(Refusal(), HasSubstr("do not include DNS:worker.tributary"));
}

TEST_F(SecurityTest, RefusesTheKeyOfAnotherCertificate) {
  WriteTlsDirectory(directory_);
  std::filesystem::rename(directory_ + "/server-key.pem",
                          directory_ + "/worker-key.pem");
  EXPECT_THAT(Refusal(), HasSubstr("private key"));
}

TEST_F(SecurityTest, RefusesWhatIsNoCertificate) {
  WriteTlsDirectory(directory_);
  Write("worker.pem", "not PEM");
  EXPECT_THAT(Refusal(), HasSubstr("holds no certificate in PEM"));
}

TEST_F(SecurityTest, ReadsATokenWithoutItsLineEnd) {
  const std::string path = Write("token", "0123456789abcdef\n");
  const absl::StatusOr<Security> security =
      LoadSecurity("", path, {Role::kWorker});
  ASSERT_TRUE(security.ok()) << security.status();
  EXPECT_EQ(security->token, "0123456789abcdef");
}

TEST_F(SecurityTest, RefusesTokensThatAreNone) {
  for (const std::string& text :
       {std::string(), std::string("short\n"),
        std::string("two lines of text\nand another one\n"),
        std::string(1025, 'x'), std::string("0123456789abcdef\x80")}) {
    const absl::StatusOr<Security> security =
        LoadSecurity("", Write("token", text), {Role::kWorker});
    EXPECT_EQ(security.status().code(), absl::StatusCode::kInvalidArgument);
    // Not even a wrong one belongs in a message.
    if (!text.empty()) {
      EXPECT_EQ(security.status().message().find(text.substr(0, 9)),
                absl::string_view::npos);
    }
  }
  EXPECT_EQ(
      LoadSecurity("", directory_ + "/none", {Role::kWorker}).status().code(),
      absl::StatusCode::kNotFound);
}

TEST(RoleTest, NamesLeadBack) {
  for (const Role role : kAllRoles) {
    EXPECT_EQ(RoleOfDnsName(RoleDnsName(role)), role);
  }
  EXPECT_FALSE(RoleOfDnsName("server").has_value());
  EXPECT_FALSE(RoleOfDnsName("x.server.tributary").has_value());
}

}  // namespace
}  // namespace tributary
