// The worker in examples/python_wire, which is written from the pages in proto
// alone, against this project's servers and beside its workers. It shows that
// the pages suffice, and fails when the code departs from them.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/tensor_io/safetensors_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/support/command_runner.h"
#include "tests/support/network/reserved_port.h"
#include "tests/support/run_until_it_hits.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr char kPython[] = "/usr/bin/python3";
constexpr char kOurs[] = "ours";
constexpr char kTheirs[] = "python";
constexpr double kTolerance = 1e-5;

// 2576 elements in chunks of 1024: three, of which the last is shorter.
constexpr char kJob[] = R"(
model { mlp { hidden: [64, 32] activation: GELU $dropout } }
data { csv { train: "$data/rows.csv" test: "$data/rows.test.csv" } }
batch { global: 32 }
optimizer { $optimizer }
steps: $steps
evaluation { every_steps: 20 }
exchange {
  transport: WIRE
  parameter_server { chunk_bytes: 4096 $consistency }
  $encoding
}
$more
)";

struct Job {
  std::string name;
  std::string consistency;
  std::string encoding;
  std::string more;
  int servers = 1;
  std::vector<std::string> workers = {kTheirs};
  std::string optimizer = "sgd { learning_rate: 0.05 }";
  std::string dropout;
  int steps = 60;
  std::string text;  // Takes the place of kJob if it is not empty.

  friend void PrintTo(const Job& job, std::ostream* out) { *out << job.name; }
};

std::string TextOf(const Job& job, const std::string& data) {
  return absl::StrReplaceAll(job.text.empty() ? kJob : job.text,
                             {{"$dropout", job.dropout},
                              {"$data", data},
                              {"$optimizer", job.optimizer},
                              {"$steps", absl::StrCat(job.steps)},
                              {"$consistency", job.consistency},
                              {"$encoding", job.encoding},
                              {"$more", job.more}});
}

struct Result {
  std::map<std::string, std::vector<float>> weights;
  double evaluation_loss = 0;
};

class PythonWorkerTest : public testing::Test {
 protected:
  void SetUp() override {
    const CommandResult possible =
        RunCommand({kPython, "-c", "import google.protobuf, grpc, numpy"});
    if (possible.exit_code != 0 ||
        !std::filesystem::exists("/usr/bin/grpc_python_plugin")) {
      GTEST_SKIP() << "needs Debian's packages python3-grpcio, python3-numpy "
                      "and protobuf-compiler-grpc: "
                   << possible.standard_error;
    }
  }

  static std::string Script(const std::string& name) {
    return std::filesystem::absolute("examples/python_wire/" + name);
  }

  // Returns the address that the server listens on.
  static std::string Address(const BackgroundCommand& server) {
    const std::string line = server.AwaitStandardError("listens on ");
    return line.substr(line.rfind(' ') + 1);
  }

  std::string WriteJob(const Job& job) {
    const std::string path = folder_ + "/job.textproto";
    WriteWholeFile(path,
                   TextOf(job, std::filesystem::absolute("proto/testdata")));
    return path;
  }

  std::vector<std::string> Server(const Job& job, const std::string& output,
                                  const std::string& listen,
                                  const std::vector<std::string>& more = {}) {
    std::vector<std::string> command = {kTributary,
                                        "server",
                                        WriteJob(job),
                                        "--listen",
                                        listen,
                                        "--servers",
                                        absl::StrCat(job.servers),
                                        "--workers",
                                        absl::StrCat(job.workers.size()),
                                        "--output",
                                        absl::StrCat(folder_, "/", output)};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }

  static std::vector<std::string> Worker(
      const std::string& kind, const std::string& address,
      const std::vector<std::string>& more = {}) {
    std::vector<std::string> command =
        kind == kOurs
            ? std::vector<std::string>{kTributary, "worker", "--threads", "1"}
            : std::vector<std::string>{kPython, Script("worker.py")};
    command.insert(command.end(), {"--coordinator", address});
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }

  nlohmann::json Summary(const std::string& output) {
    return nlohmann::json::parse(
        ReadWholeFile(absl::StrCat(folder_, "/", output, "/summary.json")),
        nullptr, /*allow_exceptions=*/false);
  }

  Result ReadResult(const std::string& output) {
    Result result;
    const std::string run = absl::StrCat(folder_, "/", output);
    const auto model = SafetensorsFile::Open(run + "/final/model.safetensors");
    EXPECT_TRUE(model.ok()) << model.status();
    if (!model.ok()) return result;
    for (const TensorEntry& tensor : model->tensors()) {
      std::vector<float>& values = result.weights[tensor.name];
      values.resize((tensor.end - tensor.begin) / sizeof(float));
      EXPECT_TRUE(model->ReadFloats(tensor, absl::MakeSpan(values)).ok());
    }
    result.evaluation_loss = Summary(output).value(
        nlohmann::json::json_pointer("/evaluation/loss"), -1.0);
    return result;
  }

  // Trains with workers of these kinds, and returns the result.
  Result Train(const Job& job, const std::vector<std::string>& workers,
               const std::string& output,
               const std::vector<std::string>& security = {}) {
    BackgroundCommand server(Server(job, output, "127.0.0.1:0", security));
    const std::string address = Address(server);
    std::vector<std::unique_ptr<BackgroundCommand>> others;
    for (int shard = 1; shard < job.servers; ++shard) {
      others.push_back(
          std::make_unique<BackgroundCommand>(std::vector<std::string>{
              kTributary, "server", "--servers", absl::StrCat(job.servers),
              "--shard", absl::StrCat(shard), "--coordinator", address}));
    }
    for (const std::string& worker : workers) {
      others.push_back(std::make_unique<BackgroundCommand>(
          Worker(worker, address, security)));
    }
    for (const auto& process : others) {
      const CommandResult result = process->Wait();
      EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    }
    const CommandResult result = server.Wait();
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    return ReadResult(output);
  }

  static void ExpectNear(const Result& actual, const Result& expected) {
    ASSERT_EQ(actual.weights.size(), expected.weights.size());
    for (const auto& [name, values] : expected.weights) {
      ASSERT_EQ(actual.weights.count(name), 1) << name;
      const std::vector<float>& others = actual.weights.at(name);
      ASSERT_EQ(others.size(), values.size()) << name;
      double largest = 0;
      for (size_t i = 0; i < values.size(); ++i) {
        largest = std::max(largest, std::abs(double{values[i]} - others[i]));
      }
      EXPECT_LE(largest, kTolerance) << name;
    }
    EXPECT_GT(expected.evaluation_loss, 0);
    EXPECT_NEAR(actual.evaluation_loss, expected.evaluation_loss, kTolerance);
  }

  const std::string folder_ = MakeTestFolder();
};

class PythonWorkerModeTest : public PythonWorkerTest,
                             public testing::WithParamInterface<Job> {};

TEST_P(PythonWorkerModeTest, ItsWeightsEqualThoseOfOurWorkers) {
  const Job& job = GetParam();
  const Result theirs = Train(job, job.workers, "theirs");
  const Result ours =
      Train(job, std::vector<std::string>(job.workers.size(), kOurs), "ours");
  ExpectNear(theirs, ours);
}

std::vector<Job> Modes() {
  std::vector<Job> jobs;
  const auto add = [&jobs](const std::string& name) -> Job& {
    jobs.emplace_back();
    jobs.back().name = name;
    return jobs.back();
  };
  add("Synchronous");
  Job& two = add("TwoServersAndTwoWorkers");
  two.servers = 2;
  two.workers = {kTheirs, kTheirs};
  add("BesideOurWorker").workers = {kTheirs, kOurs};
  Job& clipped = add("ClippingAndDropout");
  clipped.more = "clip_norm: 0.3";
  clipped.dropout = "dropout: 0.2";
  // A number that rounds the other way in one of the implementations is
  // another number, so these need small steps to stay within the tolerance.
  for (const char* dtype : {"BFLOAT16", "FLOAT16"}) {
    Job& rounded = add(dtype);
    rounded.encoding = absl::StrCat("wire_dtype: ", dtype);
    rounded.optimizer = "sgd { learning_rate: 0.002 }";
    rounded.workers = {kTheirs, kTheirs};
  }
  Job& top_k = add("TopK");
  top_k.encoding = "compression { top_k { fraction: 0.1 } }";
  top_k.optimizer = "sgd { learning_rate: 0.001 momentum: 0 }";
  Job& eight_bit = add("EightBit");
  eight_bit.encoding = "compression { eight_bit {} }";
  eight_bit.optimizer = "sgd { learning_rate: 0.001 momentum: 0 }";
  eight_bit.servers = 2;
  Job& local = add("LocalSteps");
  local.consistency = "consistency { local_steps { inner_steps: 8 } }";
  local.workers = {kTheirs, kTheirs};
  Job& adamw = add("LocalStepsOfAdamW");
  adamw.consistency = "consistency { local_steps { inner_steps: 7 } }";
  adamw.optimizer = "adamw { learning_rate: 0.003 weight_decay: 0.1 }";
  adamw.more = "schedule { warmup_steps: 5 decay: COSINE } clip_norm: 0.5";
  Job& local_eight_bit = add("LocalStepsOfEightBit");
  local_eight_bit.consistency =
      "consistency { local_steps { inner_steps: 8 } }";
  local_eight_bit.encoding = "compression { eight_bit {} }";
  local_eight_bit.optimizer = "sgd { learning_rate: 0.001 momentum: 0 }";
  Job& local_bfloat16 = add("LocalStepsInBfloat16");
  local_bfloat16.consistency = "consistency { local_steps { inner_steps: 8 } }";
  local_bfloat16.encoding = "wire_dtype: BFLOAT16";
  local_bfloat16.optimizer = "sgd { learning_rate: 0.002 }";
  Job& asynchronous = add("Asynchronous");
  asynchronous.consistency = "consistency { asynchronous {} }";
  asynchronous.more = "clip_norm: 0.5";
  return jobs;
}

INSTANTIATE_TEST_SUITE_P(Modes, PythonWorkerModeTest,
                         testing::ValuesIn(Modes()),
                         [](const auto& info) { return info.param.name; });

// One table for users and genres, whose keys are hashes, and one for items.
constexpr char kTableJob[] = R"(
model { matrix_factorization { item_feature: "item" }
        loss: MEAN_SQUARED_ERROR }
data { csv { train: "$folder/ratings.csv" test: "$folder/ratings.test.csv" } }
batch { global: 32 micro_batches: 4 }
optimizer { $optimizer }
steps: $steps
evaluation { every_steps: 20 }
exchange { transport: WIRE parameter_server { chunk_bytes: 4096 } $encoding }
$more
sparse {
  $consistency
  table { name: "users" dim: 5 buckets: 7
          row_wise_adagrad { learning_rate: 0.3 } }
  table { name: "items" dim: 5 sgd { learning_rate: 0.3 momentum: 0 } }
  feature { column: "user" table: "users" }
  feature { column: "genres" table: "users" separator: "|" pooling: MEAN }
  feature { column: "item" table: "items" integer_keys: true pooling: NONE }
}
)";

// Writes ratings of some users and items.
void WriteRatings(const std::string& path, int first, int count) {
  std::string text = "user,genres,item,rating\n";
  for (int i = first; i < first + count; ++i) {
    absl::StrAppend(&text, "u", i * 7 % 13, ",", i % 3 == 0 ? "" : "drama",
                    i % 2 == 0 ? "|comedy" : "", ",", i * 11 % 17, ",",
                    i * 7 % 13 % 3 + i * 11 % 17 % 3, "\n");
  }
  WriteWholeFile(path, text);
}

TEST_F(PythonWorkerTest, ReadsAndSendsRowsOfTables) {
  WriteRatings(folder_ + "/ratings.csv", 0, 300);
  WriteRatings(folder_ + "/ratings.test.csv", 300, 40);
  const auto job_with = [&](const std::string& name) {
    Job job;
    job.name = name;
    job.text = absl::StrReplaceAll(kTableJob, {{"$folder", folder_}});
    return job;
  };
  std::vector<Job> jobs = {job_with("OneServer"), job_with("TwoServers"),
                           job_with("Lag"), job_with("BFLOAT16"),
                           job_with("INT8")};
  jobs[1].servers = 2;
  jobs[1].workers = {kTheirs, kOurs};
  jobs[1].more = "clip_norm: 0.5";
  jobs[2].consistency = "fixed_lag: 1";
  jobs[2].workers = {kTheirs, kTheirs};
  jobs[3].encoding = "wire_dtype: BFLOAT16";
  jobs[4].consistency = "wire_dtype: INT8";
  jobs[4].servers = 2;
  jobs[4].workers = {kTheirs, kTheirs};
  for (const Job& job : jobs) {
    SCOPED_TRACE(job.name);
    const Result theirs = Train(job, job.workers, job.name + "-theirs");
    const Result ours = Train(
        job, std::vector<std::string>(job.workers.size(), kOurs), job.name);
    ExpectNear(theirs, ours);
    // The variance of the ratings is 1.3.
    EXPECT_LT(theirs.evaluation_loss, 0.3);
  }
}

TEST_F(PythonWorkerTest, ItsFunctionsMatchTheTestVectors) {
  RunExpecting(0, {kPython, Script("vectors_test.py")});
}

TEST_F(PythonWorkerTest, ItDecidesAsThePagesSay) {
  RunExpecting(0, {kPython, Script("worker_test.py")});
}

TEST_F(PythonWorkerTest, SpeaksTlsAndSendsTheToken) {
  const std::string tls = folder_ + "/tls";
  ASSERT_EQ(RunCommand({kTributary, "certs", tls}).exit_code, 0);
  WriteWholeFile(folder_ + "/token", "a-token-of-this-test-only-0123456789\n");
  const std::vector<std::string> security = {"--tls-dir", tls, "--token-file",
                                             folder_ + "/token"};
  Job job;
  ExpectNear(Train(job, {kTheirs}, "secured", security),
             Train(job, {kOurs}, "plain"));
}

TEST_F(PythonWorkerTest, IsStartedByTrain) {
  Job job;
  job.workers = {kTheirs, kTheirs};
  RunExpecting(0, {kTributary, "train", WriteJob(job), "--workers", "2",
                   "--output", folder_ + "/started", "--worker-command",
                   absl::StrCat(kPython, " ", Script("worker.py"))});
  EXPECT_THAT(ReadWholeFile(folder_ + "/started/logs/worker-1.log"),
              HasSubstr("admitted as rank"));
  ExpectNear(ReadResult("started"), Train(job, {kOurs, kOurs}, "ours"));
}

TEST_F(PythonWorkerTest, JoinsAgainAfterTheServerWasKilled) {
  Job job;
  job.steps = 400;
  job.more = "checkpoint { every_steps: 10 } output { log_every_steps: 5 }";
  // No other process may take it between the servers.
  const ReservedPort port;
  RunUntilItHits([&] {
    std::filesystem::remove_all(folder_ + "/killed");
    auto server = std::make_unique<BackgroundCommand>(
        Server(job, "killed", port.address()));
    EXPECT_EQ(Address(*server), port.address());
    BackgroundCommand worker(Worker(kTheirs, port.address()));
    EXPECT_TRUE(AwaitLines(folder_ + "/killed/metrics.jsonl", 6));
    server.reset();  // SIGKILL.
    BackgroundCommand next(
        Server(job, "killed", port.address(), {"--resume", "auto"}));
    const CommandResult result = worker.Wait();
    EXPECT_EQ(result.exit_code, 0) << result.standard_error;
    if (!absl::StrContains(result.standard_error, "joining again")) {
      return false;
    }
    EXPECT_EQ(next.Wait().exit_code, 0);
    return true;
  });
  Job alone = job;
  alone.workers = {kOurs};
  ExpectNear(ReadResult("killed"), Train(alone, {kOurs}, "ours"));
}

TEST_F(PythonWorkerTest, OurWorkerFinishesTheStepsOfOneThatWasKilled) {
  Job job;
  job.steps = 400;
  job.workers = {kTheirs, kOurs};
  job.more = "output { log_every_steps: 5 }";
  RunUntilItHits([&] {
    std::filesystem::remove_all(folder_ + "/killed");
    BackgroundCommand server(Server(job, "killed", "127.0.0.1:0"));
    const std::string address = Address(server);
    auto theirs = std::make_unique<BackgroundCommand>(Worker(kTheirs, address));
    BackgroundCommand ours(Worker(kOurs, address));
    EXPECT_TRUE(AwaitLines(folder_ + "/killed/metrics.jsonl", 3));
    theirs.reset();  // SIGKILL.
    EXPECT_EQ(ours.Wait().exit_code, 0);
    EXPECT_EQ(server.Wait().exit_code, 0);
    return Summary("killed").value("workers_lost", 0) >= 1;
  });
  Job alone = job;
  alone.workers = {kOurs};
  ExpectNear(ReadResult("killed"), Train(alone, {kOurs}, "ours"));
}

TEST_F(PythonWorkerTest, RefusesAJobThatItDoesNotImplement) {
  Job job;
  job.consistency = "consistency { stale_synchronous {} }";
  BackgroundCommand server(Server(job, "refused", "127.0.0.1:0"));
  BackgroundCommand worker(Worker(kTheirs, Address(server)));
  EXPECT_EQ(worker.Wait().exit_code, 2);
  const CommandResult result = server.Wait();
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.standard_error, HasSubstr("stale_synchronous; "));
}

}  // namespace
}  // namespace tributary
