#include "deploy/tools/dashboard/run_view.h"

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/rendezvous.grpc.pb.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

constexpr int64_t kAll = int64_t{1} << 60;
constexpr char kJob[] =
    "name: \"x\" model { mlp { hidden: 8 } } data { random { shape: 4 } } "
    "batch { global: 8 micro_batches: 2 } optimizer { sgd { learning_rate: 0.1 "
    "} } steps: 9";

// Sends the records of a run of two workers, one line at a time.
class FakeCoordinator final : public Rendezvous::Service {
 public:
  // A coordinator of an earlier release does not send records.
  explicit FakeCoordinator(bool sends_records = true)
      : sends_records_(sends_records) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~FakeCoordinator() override { server_->Shutdown(); }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }

  // Sets the lines to those of the steps 1 to `steps`.
  void SetLines(int64_t generation, int steps) ABSL_LOCKS_EXCLUDED(mu_) {
    absl::MutexLock lock(&mu_);
    generation_ = generation;
    lines_.clear();
    for (int step = 1; step <= steps; ++step) {
      absl::StrAppend(&lines_, "{\"step\":", step, ",\"loss\":",
                      absl::StrFormat("%.17g", generation + 1.0 / step),
                      ",\"workers\":[{\"rank\":1,\"forward_ms\":1.5}]}\n");
    }
  }

  grpc::Status GetStatus(grpc::ServerContext*, const StatusRequest*,
                         StatusReply* reply) override {
    reply->set_phase(StatusReply::TRAINING);
    reply->set_step(3);
    reply->set_steps(9);
    reply->set_name("<script>");
    reply->set_workers(2);
    reply->set_servers(1);
    reply->set_parameters(100);
    return grpc::Status::OK;
  }

  grpc::Status GetRecords(grpc::ServerContext*, const RecordsRequest* request,
                          RecordsReply* reply) override {
    if (!sends_records_) {
      return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "");
    }
    absl::MutexLock lock(&mu_);
    reply->set_run_id("run");
    reply->set_generation(generation_);
    if (request->run_id() != "run") reply->set_job(kJob);
    const bool same =
        request->run_id() == "run" && request->generation() == generation_;
    reply->set_position(same ? request->position() : 0);
    const size_t end = lines_.find('\n', reply->position());
    const size_t next = end == std::string::npos ? lines_.size() : end + 1;
    reply->set_lines(
        lines_.substr(reply->position(), next - reply->position()));
    reply->set_next_position(static_cast<int64_t>(next));
    reply->set_more(next < lines_.size());
    for (int64_t id = 1; id <= 3; ++id) {
      if (id < request->first_event()) continue;
      JobEvent* const event = reply->add_event();
      event->set_id(id);
      event->set_kind("worker_lost");
      event->set_message("<b>");
    }
    return grpc::Status::OK;
  }

 private:
  const bool sends_records_;
  absl::Mutex mu_;
  int64_t generation_ ABSL_GUARDED_BY(mu_) = 1;
  std::string lines_ ABSL_GUARDED_BY(mu_);
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// Repeats `ask` until `is_expected` is true for its result, as the page does.
Json AskUntil(const std::function<Json()>& ask,
              const std::function<bool(const Json&)>& is_expected) {
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  Json json = ask();
  while (!is_expected(json) && absl::Now() < deadline) {
    absl::SleepFor(absl::Milliseconds(5));
    json = ask();
  }
  EXPECT_TRUE(is_expected(json)) << json;
  return json;
}

Json SeriesUntil(RunView* view, size_t lines, int64_t generation) {
  return AskUntil([view] { return view->Series(0, kAll, 100); },
                  [=](const Json& series) {
                    return series["lines"] == lines &&
                           series["generation"] == generation;
                  });
}

TEST(RunViewTest, ShowsARunThatItsCoordinatorSends) {
  FakeCoordinator coordinator;
  coordinator.SetLines(/*generation=*/1, 3);
  const auto view = RunView::OfCoordinator(coordinator.address(), {});
  Json series = SeriesUntil(view.get(), 3, 0);
  EXPECT_EQ(series["fields"]["loss"]["mean"], Json({2, 1.5, 1 + 1.0 / 3}));
  const Json lines = view->Lines(2, kAll, 10);
  ASSERT_EQ(lines["lines"].size(), 2u);
  EXPECT_EQ(lines["lines"][0]["step"], 2);
  EXPECT_EQ(lines["lines"][0]["workers"][0]["forward_ms"], 1.5);
  EXPECT_EQ(view->Events(2)["events"].size(), 2u);
  EXPECT_EQ(view->Events(200)["events"][0]["id"], 1);
  EXPECT_EQ(view->Job()["text"], kJob);
  EXPECT_EQ(view->Job()["error"], "");
  EXPECT_EQ(view->Log("server-0.log", 10)["entries"], nullptr);

  const Json status = AskUntil([&] { return view->Status(); },
                               [](const Json& json) { return json["live"]; });
  EXPECT_EQ(status["status"]["name"], "<script>");
  // Each worker computes half of the reduction tree, of 100 parameters.
  EXPECT_EQ(status["expected"]["workers"][1]["sent"], 400);
  EXPECT_EQ(status["expected"]["server"]["received"], 800);
  const Json overview = view->Overview();
  EXPECT_EQ(overview["name"], "<script>");
  EXPECT_EQ(overview["path"], coordinator.address());
  EXPECT_EQ(overview["step"], 3);
  EXPECT_EQ(overview["problem"], "");
}

TEST(RunViewTest, ReplacesLinesThatAreComputedAgain) {
  FakeCoordinator coordinator;
  coordinator.SetLines(/*generation=*/1, 5);
  const auto view = RunView::OfCoordinator(coordinator.address(), {});
  SeriesUntil(view.get(), 5, 0);
  coordinator.SetLines(/*generation=*/0, 0);
  view->Overview();
  coordinator.SetLines(/*generation=*/2, 4);
  const Json series =
      AskUntil([&] { return view->Series(0, kAll, 100); },
               [](const Json& json) {
                 return json["lines"] == 4 && json["generation"] != 0;
               });
  EXPECT_EQ(series["fields"]["loss"]["mean"][3], 2.25);
}

TEST(RunViewTest, SaysThatAnEarlierReleaseSendsNoRecords) {
  FakeCoordinator coordinator(/*sends_records=*/false);
  const auto view = RunView::OfCoordinator(coordinator.address(), {});
  const Json overview =
      AskUntil([&] { return view->Overview(); },
               [](const Json& json) { return json["problem"] != ""; });
  EXPECT_THAT(overview["problem"].get<std::string>(),
              HasSubstr("does not send records"));
  EXPECT_THAT(view->Job()["error"].get<std::string>(),
              HasSubstr("has not sent the job file yet"));
}

TEST(RunViewTest, EndsWhileNobodyAnswers) {
  // Port 1 refuses connections.
  const auto view = RunView::OfCoordinator("127.0.0.1:1", {});
  const Json overview = view->Overview();
  EXPECT_EQ(overview["state"], "connecting");
  EXPECT_EQ(overview["name"], "127.0.0.1:1");
  EXPECT_EQ(view->Series(0, kAll, 10)["lines"], 0);
}

}  // namespace
}  // namespace tributary
