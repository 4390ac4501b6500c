// `tributary certs`, and processes that use what it made.
#include <sys/stat.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr char kCertsCommandJob[] = R"(
model { mlp { hidden: [ 8 ] } loss: MEAN_SQUARED_ERROR }
data { csv { train: "examples/data/waves.train.csv" label_column: -1 } }
batch { global: 64 micro_batches: 4 }
optimizer { sgd { learning_rate: 0.01 } }
steps: 5
evaluation { disabled: true }
exchange { transport: WIRE }
)";

mode_t ModeOf(const std::string& path) {
  struct stat info = {};
  EXPECT_EQ(stat(path.c_str(), &info), 0) << path;
  return info.st_mode & 0777;
}

TEST(CertsCommandTest, KeepsKeysFromOthersAndReplacesNothing) {
  const std::string folder = MakeTestFolder() + "/tls";
  const CommandResult made = RunExpecting(0, {kTributary, "certs", folder});
  EXPECT_THAT(made.standard_output, HasSubstr("certificates for tests"));
  for (const char* name : {"ca", "server", "worker", "admin"}) {
    EXPECT_EQ(ModeOf(absl::StrCat(folder, "/", name, "-key.pem")), 0600u);
    EXPECT_EQ(ModeOf(absl::StrCat(folder, "/", name, ".pem")) & 0400, 0400u);
  }
  const std::string before = ReadWholeFile(folder + "/ca.pem");
  const CommandResult again = RunExpecting(2, {kTributary, "certs", folder});
  EXPECT_THAT(again.standard_error, HasSubstr("exists already"));
  EXPECT_EQ(ReadWholeFile(folder + "/ca.pem"), before);
}

TEST(CertsCommandTest, TrainUsesThem) {
  const std::string folder = MakeTestFolder();
  WriteWholeFile(folder + "/job.textproto", kCertsCommandJob);
  WriteWholeFile(folder + "/token", "0123456789abcdef\n");
  ASSERT_EQ(RunCommand({kTributary, "certs", folder + "/tls"}).exit_code, 0);
  const CommandResult plain =
      RunExpecting(0, {kTributary, "train", folder + "/job.textproto",
                       "--output", folder + "/plain"});
  const CommandResult secure =
      RunExpecting(0,
                   {kTributary, "train", folder + "/job.textproto", "--servers",
                    "2", "--output", folder + "/secure"},
                   {"TRIBUTARY_TLS_DIR=" + folder + "/tls",
                    "TRIBUTARY_TOKEN_FILE=" + folder + "/token"});
  const auto digest = [&](const std::string& run) {
    const std::string summary =
        ReadWholeFile(absl::StrCat(folder, "/", run, "/summary.json"));
    return summary.substr(summary.find("weights_sha256"), 84);
  };
  EXPECT_EQ(digest("secure"), digest("plain"));
  for (const char* name : {"server-0", "server-1", "worker-0"}) {
    EXPECT_EQ(ReadWholeFile(absl::StrCat(folder, "/secure/logs/", name, ".log"))
                  .find("0123456789abcdef"),
              std::string::npos);
  }
}

TEST(CertsCommandTest, TokensDoNotGoToOtherMachinesUnencrypted) {
  const std::string folder = MakeTestFolder();
  WriteWholeFile(folder + "/token", "0123456789abcdef\n");
  for (const std::string command : {"worker", "status"}) {
    std::vector<std::string> arguments = {kTributary, command};
    if (command == "worker") arguments.push_back("--coordinator");
    arguments.insert(arguments.end(),
                     {"192.0.2.1:29400", "--token-file", folder + "/token"});
    const CommandResult result = RunExpecting(2, arguments);
    EXPECT_THAT(result.standard_error,
                HasSubstr("192.0.2.1:29400 unencrypted"));
  }
}

}  // namespace
}  // namespace tributary
