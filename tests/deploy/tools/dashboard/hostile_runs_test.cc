// The dashboard among runs whose files were made to harm it. Its speed and its
// memory do not depend on what these files contain.
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/json.h"
#include "common/os/process.h"
#include "deploy/tools/dashboard/dashboard.h"
#include "deploy/tools/dashboard/run_list.h"
#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "proto/rendezvous.grpc.pb.h"
#include "tests/deploy/tools/runs/run_files.h"

namespace tributary {
namespace {

namespace fs = std::filesystem;

constexpr int kOrdinaryRuns = 100;
// On an idle machine, the first list takes 0.05 s.
constexpr absl::Duration kLongestReply = absl::Seconds(10);

class RunningCoordinator final : public Rendezvous::Service {
 public:
  RunningCoordinator() {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~RunningCoordinator() override { server_->Shutdown(); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  grpc::Status GetStatus(grpc::ServerContext*, const StatusRequest*,
                         StatusReply* reply) override {
    reply->set_phase(StatusReply::TRAINING);
    reply->set_step(3);
    return grpc::Status::OK;
  }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

class HostileRunsTest : public RunFilesTest {
 protected:
  static constexpr const char* kFiles[] = {
      "job.textproto", "metrics.jsonl", "summary.json",      "events.jsonl",
      "server.json",   "sample.txt",    "logs/server-0.log",
  };

  void WriteHostileRuns() {
    const std::string deep =
        absl::StrCat(std::string(100000, '['), std::string(100000, ']'));
    const std::string line(9 << 20, 'x');
    fs::create_directories(root_ + "/links");
    fs::create_directory_symlink("/etc", root_ + "/links/logs");
    fs::create_directories(root_ + "/fifos/logs");
    Write("deep/job.textproto", "");
    for (const char* name : kFiles) {
      if (!absl::StrContains(name, '/')) {
        fs::create_symlink("/etc/passwd", absl::StrCat(root_, "/links/", name));
      }
      ASSERT_EQ(mkfifo(absl::StrCat(root_, "/fifos/", name).c_str(), 0600), 0);
      Write(absl::StrCat("deep/", name),
            absl::StrCat("{\"step\":1,\"time\":1,\"kind\":\"x\",\"x\":", deep,
                         "}\n"));
      Write(absl::StrCat("long/", name),
            absl::StrCat("{\"step\":1,\"x\":\"", line, "\"}\n{\"x\":\"", line));
      // A hole of a terabyte, which is one line.
      Write(absl::StrCat("endless/", name), "{\"step\":1}\n");
      fs::resize_file(absl::StrCat(root_, "/endless/", name),
                      uint64_t{1} << 40);
    }
    std::string lines;
    for (int i = 0; i < (32 << 20) / 11; ++i) lines += "{\"step\":1}\n";
    Write("many/metrics.jsonl", lines);
    std::string list = "model { mlp { hidden: [1";
    for (int i = 0; i < 500000; ++i) list += ",1";
    Write("list/job.textproto", absl::StrCat(list, "] } }"));
    Write("elsewhere/metrics.jsonl", "");
    Write("elsewhere/server.json", "{\"address\":\"192.0.2.1:80\"}");
    Write("<img src=x onerror=alert(1)>\n\x1b[2J\xff/metrics.jsonl",
          "{\"step\":1,\"loss\":\"<script>\"}\n");
    fs::create_directory_symlink("/etc", root_ + "/folder");
  }

  // Returns the reply to a request of the page.
  nlohmann::ordered_json Get(Dashboard* dashboard, const std::string& path,
                             const std::string& query = "") {
    HttpRequest request;
    request.path = path;
    request.query = query;
    request.host = "localhost";
    const absl::Time begin = absl::Now();
    const HttpResponse response = dashboard->Handle(request);
    EXPECT_LT(absl::Now() - begin, kLongestReply) << path << "?" << query;
    EXPECT_EQ(response.code, 200) << path << "?" << query;
    EXPECT_LT(response.body.size(), 8 << 20) << path << "?" << query;
    EXPECT_FALSE(absl::StrContains(response.body, "root:x:0"));
    return ParseOrderedJson(response.body);
  }
};

TEST_F(HostileRunsTest, ShowsTheRunningJobFirstInBoundedTimeAndMemory) {
  for (int i = 0; i < kOrdinaryRuns; ++i) {
    const std::string run = absl::StrCat("run-", 1000 + i);
    WriteJob(run, "0.1", 1000000 + i);
    Write(absl::StrCat(run, "/metrics.jsonl"), "{\"step\":9,\"loss\":1}\n");
    Write(absl::StrCat(run, "/summary.json"), R"({"status":"done","steps":9})");
  }
  const RunningCoordinator coordinator;
  WriteJob("m", "0.1", 1000);  // It began long before the others.
  Write("m/server.json",
        absl::StrCat("{\"address\":\"", coordinator.address(), "\"}"));
  WriteHostileRuns();
  [[maybe_unused]] const int64_t before = PeakMemoryBytes();
  RunList list{RunAddressRules()};
  ASSERT_TRUE(list.AddPath(root_).ok());
  list.AwaitStatuses(absl::Seconds(60));
  Dashboard dashboard(std::move(list), Dashboard::Options());
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  auto runs = Get(&dashboard, "/api/runs")["runs"];
  // The coordinator may have been too slow to answer.
  while (runs[0]["state"] != "training" && absl::Now() < deadline) {
    runs = Get(&dashboard, "/api/runs")["runs"];
  }
  ASSERT_EQ(runs.size(), kOrdinaryRuns + 1 + 9);
  EXPECT_EQ(runs[0]["name"], "m");
  EXPECT_EQ(runs[0]["state"], "training");
  for (const auto& run : runs) {
    const std::string query = absl::StrCat("run=", run["id"].get<int>());
    for (const char* path : {"/api/series", "/api/lines", "/api/status",
                             "/api/job", "/api/log", "/api/events"}) {
      Get(&dashboard, path, query);
    }
    if (run["name"] == "elsewhere") {
      EXPECT_TRUE(absl::StrContains(run["problem"].get<std::string>(),
                                    "is not an address of this machine"));
    }
  }
  Get(&dashboard, "/api/runs");
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  EXPECT_LT(PeakMemoryBytes() - before, 128 << 20);
#endif
}

}  // namespace
}  // namespace tributary
