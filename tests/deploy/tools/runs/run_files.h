// Writes the files of runs for tests.
#ifndef TRIBUTARY_TESTS_DEPLOY_TOOLS_RUNS_RUN_FILES_H_
#define TRIBUTARY_TESTS_DEPLOY_TOOLS_RUNS_RUN_FILES_H_

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/os/untrusted_folder.h"
#include "gtest/gtest.h"

namespace tributary {

// An empty folder, and functions that write runs into it.
class RunFilesTest : public ::testing::Test {
 protected:
  RunFilesTest()
      : root_(absl::StrCat(
            testing::TempDir(), "/",
            testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }

  void Write(const std::string& name, const std::string& text) {
    const std::filesystem::path path = std::filesystem::path(root_) / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
  }
  // Writes a job with this learning rate that began at `time`, in seconds since
  // 1970.
  void WriteJob(const std::string& run, const std::string& learning_rate,
                int time) {
    Write(absl::StrCat(run, "/job.textproto"),
          absl::StrCat("name: \"x\" model { mlp { hidden: 8 } } data { random "
                       "{ shape: 4 } } batch { global: 8 } optimizer { sgd { "
                       "learning_rate: ",
                       learning_rate, " } } steps: 9"));
    Write(absl::StrCat(run, "/events.jsonl"),
          absl::StrCat("{\"id\":1,\"time\":", time,
                       ",\"kind\":\"worker_joined\"}\n{\"id\":2}\n"));
  }
  UntrustedFolder Folder(const std::string& run) const {
    return UntrustedFolder(absl::StrCat(root_, "/", run));
  }

  const std::string root_;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_DEPLOY_TOOLS_RUNS_RUN_FILES_H_
