#include "deploy/flags/http_certificate.h"

#include <fstream>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/os/temporary_directory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/status_matchers.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

TEST(HttpCertificateTest, IsNullWithoutTls) {
  Security security;
  security.token = "a token without certificates";
  EXPECT_EQ(HttpCertificateOf(security), nullptr);
}

TEST(HttpCertificateTest, ReadsTheFilesOfTheRoleAgain) {
  const auto directory = TemporaryDirectory::Create();
  ASSERT_TRUE(directory.ok()) << directory.status();
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(absl::StrCat((*directory)->path(), "/", name)) << text;
  };
  Security security;
  security.tls_directory = (*directory)->path();
  security.role = Role::kServer;
  write("ca.pem", "authority");
  write("server.pem", "old");
  write("server-key.pem", "old key");
  const auto certificate = HttpCertificateOf(security);
  EXPECT_EQ(*certificate(), (HttpServer::Certificate{"old", "old key"}));
  write("server.pem", "new");
  write("server-key.pem", "new key");
  EXPECT_EQ(*certificate(), (HttpServer::Certificate{"new", "new key"}));
  security.role = Role::kWorker;
  EXPECT_THAT(HttpCertificateOf(security)(),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("worker.pem")));
}

}  // namespace
}  // namespace tributary
