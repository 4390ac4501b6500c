// Workers as processes, some of which have wrong or missing files.
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr char kJob[] = R"(
model { mlp { hidden: 8 } }
data { csv { train: "train.csv" } }
batch { global: 4 micro_batches: 4 }
optimizer { sgd { learning_rate: 0.1 } }
steps: 5
)";
constexpr char kData[] = "1,2,0\n3,4,1\n5,6,0\n7,8,1\n9,1,0\n";
constexpr char kOtherData[] = "1,2,0\n3,4,1\n5,6,0\n7,8,1\n9,2,0\n";

class RefusedWorkerTest : public testing::Test {
 protected:
  RefusedWorkerTest() { WriteWholeFile(folder_ + "/job.textproto", kJob); }

  std::vector<std::string> Server(int workers) const {
    return {
        program_,        "server",    folder_ + "/job.textproto", "--listen",
        "127.0.0.1:0",   "--workers", absl::StrCat(workers),      "--output",
        folder_ + "/run"};
  }

  // Returns the address that the server listens on.
  static std::string Address(const BackgroundCommand& server) {
    const std::string line = server.AwaitStandardError("listens on ");
    return line.substr(line.rfind(' ') + 1);
  }

  // Returns the command of a worker in its own folder, as on a separate
  // machine.
  std::vector<std::string> Worker(const std::string& address,
                                  const std::string& data) {
    const std::string machine = absl::StrCat(folder_, "/", ++machines_);
    std::filesystem::create_directory(machine);
    if (!data.empty()) WriteWholeFile(machine + "/train.csv", data);
    return {"/bin/sh", "-c",
            absl::StrCat("cd ", machine, " && exec ", program_,
                         " worker --threads 1 --coordinator ", address)};
  }

  const std::string program_ = std::filesystem::absolute(kTributary);
  const std::string folder_ = MakeTestFolder();
  int machines_ = 0;
};

TEST_F(RefusedWorkerTest, TheMajorityTrainsAndTheOthersAreToldWhy) {
  BackgroundCommand server(Server(/*workers=*/4));
  const std::string address = Address(server);
  BackgroundCommand odd(Worker(address, kOtherData));
  ASSERT_NE(odd.AwaitStandardError("computes on"), "");
  const CommandResult missing = BackgroundCommand(Worker(address, "")).Wait();
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_THAT(missing.standard_error, HasSubstr("error: train.csv: cannot "));
  EXPECT_THAT(missing.standard_error, HasSubstr("copy them to this machine"));
  BackgroundCommand first(Worker(address, kData));
  BackgroundCommand second(Worker(address, kData));
  const CommandResult refused = odd.Wait();
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.standard_error, HasSubstr("this worker's data (5 "));
  EXPECT_THAT(refused.standard_error, HasSubstr("and 1 more: copy the same "));
  EXPECT_EQ(first.Wait().exit_code, 0);
  EXPECT_EQ(second.Wait().exit_code, 0);
  const CommandResult served = server.Wait();
  EXPECT_EQ(served.exit_code, 0) << served.standard_error;
  EXPECT_THAT(served.standard_error, HasSubstr("cannot take part: train.csv"));
  EXPECT_THAT(served.standard_error, HasSubstr("this worker's data"));
}

TEST_F(RefusedWorkerTest, TwoThatDisagreeEndTheJob) {
  BackgroundCommand server(Server(/*workers=*/2));
  const std::string address = Address(server);
  BackgroundCommand one(Worker(address, kData));
  BackgroundCommand other(Worker(address, kOtherData));
  const CommandResult served = server.Wait();
  EXPECT_EQ(served.exit_code, 2);
  EXPECT_THAT(served.standard_error,
              HasSubstr("error: workers have different models or data"));
  for (BackgroundCommand* const worker : {&one, &other}) {
    const CommandResult told = worker->Wait();
    EXPECT_EQ(told.exit_code, 1);
    EXPECT_THAT(told.standard_error,
                HasSubstr("workers have different models or data"));
  }
}

}  // namespace
}  // namespace tributary
