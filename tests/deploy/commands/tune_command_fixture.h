// What the tests of `tributary tune` share.
#ifndef TRIBUTARY_TESTS_DEPLOY_COMMANDS_TUNE_COMMAND_FIXTURE_H_
#define TRIBUTARY_TESTS_DEPLOY_COMMANDS_TUNE_COMMAND_FIXTURE_H_

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/json.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/command_runner.h"

namespace tributary {

inline constexpr char kTuneJob[] = R"(
  name: "tiny"
  model { mlp { hidden: 8 } }
  data { random { samples: 64 shape: 4 classes: 3 } }
  batch { global: 8 micro_batches: 2 }
  optimizer { sgd { learning_rate: 0.01 momentum: 0.9 } }
  schedule { decay: COSINE }
  steps: 27
  output { tensorboard: false }
)";

inline constexpr char kTuneSearch[] = R"(
  job: "job.textproto"
  parameter { path: "optimizer.sgd.learning_rate"
              number { low: 1e-3 high: 1 log: true } }
  parameter { path: "model.mlp.hidden" choice { value: "8" value: "16" } }
  objective { metric: "final_loss" goal: MINIMIZE }
  scheduler { successive_halving { rungs: 3 } }
  budget { trials: 9 }
)";

inline constexpr char kTuneTwoTrials[] = R"(
  job: "job.textproto"
  parameter { path: "model.mlp.hidden" choice { value: "8" value: "16" } }
  objective { metric: "final_loss" goal: MINIMIZE }
  sampler { grid {} }
)";

// A gate at which the workers of trials wait: no trial is trained before the
// test admits its worker, however late the test is.
class WorkerGate {
 public:
  // `path` must not exist.
  explicit WorkerGate(const std::string& path) : path_(path) {
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0);
    fd_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
    EXPECT_GE(fd_, 0);
  }
  ~WorkerGate() { close(fd_); }
  WorkerGate(const WorkerGate&) = delete;
  WorkerGate& operator=(const WorkerGate&) = delete;

  // The arguments with which `tributary tune` starts such workers. A worker
  // that has reached the gate has written a line to its log.
  std::vector<std::string> Arguments() const {
    return {"--worker-command",
            absl::StrCat("sh -c 'echo waiting; read pass <\"", path_,
                         "\"; exec ", kTributary, " worker'")};
  }
  // Admits so many more workers.
  void Admit(int workers) {
    EXPECT_EQ(write(fd_, std::string(workers, '\n').data(), workers), workers);
  }
  void AdmitAll() { Admit(1000); }

 private:
  const std::string path_;
  int fd_ = -1;
};

// The folder of a test has a job and a search of nine trials.
class TuneCommandFixture : public testing::Test {
 protected:
  using Json = nlohmann::ordered_json;

  TuneCommandFixture() {
    WriteWholeFile(folder_ + "/job.textproto", kTuneJob);
    WriteWholeFile(search_, kTuneSearch);
  }

  std::string Folder(const std::string& name) const {
    return absl::StrCat(folder_, "/", name);
  }
  std::vector<std::string> TuneArguments(
      const std::string& name, const std::vector<std::string>& more) const {
    std::vector<std::string> arguments = {kTributary, "tune", search_,
                                          "--output", Folder(name)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  }
  Json StatusOfStudy(const std::string& name) const {
    return ParseOrderedJson(
        RunExpecting(0, {kTributary, "tune", "status", Folder(name), "--json"})
            .standard_output);
  }

  // Runs `tributary tune`, and kills it when the study's journal has so many
  // lines. Removes the journal's lock if that process has held it: the next one
  // would do so only after half a minute.
  void KillAfter(int lines, const std::string& name,
                 const std::vector<std::string>& arguments) const {
    BackgroundCommand command(arguments);
    EXPECT_TRUE(AwaitLines(Folder(name) + "/study.journal", lines));
    command.Signal(SIGKILL);
    command.Wait();
    std::filesystem::remove(Folder(name) + "/study.journal.lock");
  }

  // Makes the job read rows of a file, which are decoded.
  void ReadRows() const {
    std::string rows;
    for (int i = 0; i < 64; ++i) {
      absl::StrAppend(&rows, i % 7, ",", i % 5, ",", i % 3, "\n");
    }
    WriteWholeFile(Folder("rows.csv"), rows);
    WriteWholeFile(
        Folder("job.textproto"),
        absl::StrReplaceAll(
            kTuneJob,
            {{"random { samples: 64 shape: 4 classes: 3 }",
              absl::StrCat("csv { train: '", Folder("rows.csv"), "' }")}}));
  }

  const std::string folder_ = MakeTestFolder();
  const std::string search_ = folder_ + "/search.textproto";
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_DEPLOY_COMMANDS_TUNE_COMMAND_FIXTURE_H_
