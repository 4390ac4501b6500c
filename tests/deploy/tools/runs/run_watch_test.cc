#include "deploy/tools/runs/run_watch.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "deploy/tools/runs/run_entry.h"
#include "gmock/gmock.h"
#include "proto/rendezvous.grpc.pb.h"
#include "tests/deploy/tools/runs/run_files.h"

namespace tributary {
namespace {

using ::testing::HasSubstr;

constexpr char kToken[] = "the token of a job of this user";

// Remembers the tokens that it receives.
class Listener final : public Rendezvous::Service {
 public:
  explicit Listener(const std::string& host = "127.0.0.1") {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(host + ":0", grpc::InsecureServerCredentials(),
                             &port_);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~Listener() override { server_->Shutdown(); }

  int port() const { return port_; }
  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  std::string received() const {
    absl::MutexLock lock(&mu_);
    return received_;
  }

  grpc::Status GetStatus(grpc::ServerContext* context, const StatusRequest*,
                         StatusReply* reply) override {
    absl::MutexLock lock(&mu_);
    for (const auto& [name, value] : context->client_metadata()) {
      absl::StrAppend(&received_, std::string(value.data(), value.size()));
    }
    reply->set_phase(StatusReply::TRAINING);
    reply->set_step(3);
    reply->set_steps(9);
    reply->set_loss(0.5);
    reply->set_run_id("this run");
    return grpc::Status::OK;
  }

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  mutable absl::Mutex mu_;
  std::string received_ ABSL_GUARDED_BY(mu_);
};

class RunWatchTest : public RunFilesTest {
 protected:
  RunWatchTest() { rules_->security.token = kToken; }

  void WriteAddress(const std::string& address) {
    Write("a/server.json", absl::StrCat("{\"address\":\"", address, "\"}"));
  }
  // Queries the status until there is a reply.
  void Ask(RunWatch* run) {
    const absl::Time begin = absl::Now();
    const absl::Time deadline = begin + absl::Seconds(60);
    do {
      run->Update();
      if (run->poller() == nullptr) return;
      run->poller()->AwaitAnswer(deadline);
    } while (run->poller()->latest_asked() < begin && absl::Now() < deadline);
  }

  const std::shared_ptr<RunAddressRules> rules_ =
      std::make_shared<RunAddressRules>();
};

TEST_F(RunWatchTest, AsksTheServerOfThisUser) {
  const Listener listener;
  WriteAddress(listener.address());
  RunWatch run(Folder("a"), rules_);
  Ask(&run);
  EXPECT_TRUE(run.live());
  EXPECT_EQ(run.problem(), "");
  EXPECT_EQ(run.coordinator(), listener.address());
  EXPECT_THAT(listener.received(), HasSubstr(kToken));
  const RunEntry entry = EntryOf(run);
  EXPECT_EQ(entry.state, "training");
  EXPECT_EQ(entry.step, 3);
  EXPECT_EQ(entry.steps, 9);
  EXPECT_EQ(entry.loss, 0.5);
}

// The names are not resolved, either.
TEST_F(RunWatchTest, AsksNoOtherMachineBecauseAFileNamesIt) {
  const Listener listener;
  for (const std::string& host :
       {std::string("collector.example"), std::string("192.0.2.1"),
        std::string("unix:"), std::string("dns:///localhost")}) {
    SCOPED_TRACE(host);
    WriteAddress(absl::StrCat(host, ":", listener.port()));
    RunWatch run(Folder("a"), rules_);
    Ask(&run);
    EXPECT_EQ(run.poller(), nullptr);
    EXPECT_FALSE(run.live());
    EXPECT_THAT(run.problem(), HasSubstr("a/server.json"));
  }
  EXPECT_EQ(listener.received(), "");
}

TEST_F(RunWatchTest, AsksAnAddressThatTheUserHasNamed) {
  WriteAddress("collector.example:1");
  rules_->named = {"collector.example:1"};
  RunWatch run(Folder("a"), rules_);
  run.Update();
  EXPECT_EQ(run.coordinator(), "collector.example:1");
}

TEST_F(RunWatchTest, DoesNotAskWhereNobodyListens) {
  {
    const Listener gone;
    WriteAddress(gone.address());
  }
  RunWatch run(Folder("a"), rules_);
  Ask(&run);
  EXPECT_EQ(run.poller(), nullptr);
  EXPECT_EQ(run.problem(), "");
  EXPECT_EQ(EntryOf(run).state, kNoAnswer);
}

// The address in the folder of a killed server may belong to another job now.
TEST_F(RunWatchTest, DoesNotShowTheStatusOfAnotherRun) {
  const Listener listener;
  WriteAddress(listener.address());
  Write("a/run-id", "another run");
  RunWatch run(Folder("a"), rules_);
  Ask(&run);
  EXPECT_FALSE(run.live());
  Write("a/run-id", "this run");
  Ask(&run);
  EXPECT_TRUE(run.live());
}

}  // namespace
}  // namespace tributary
