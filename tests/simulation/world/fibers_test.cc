#include "tests/simulation/world/fibers.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tributary::simulation {
namespace {

using ::testing::ElementsAre;

// One process. Tests start threads and run events until there are none.
class FibersTest : public testing::Test {
 protected:
  FibersTest() { process_->process = 1; }
  ~FibersTest() override {
    process_->ended = true;
    fibers_.Unwind(1);
  }

  void RunEvents() {
    while (loop_.RunOne()) {
    }
  }
  // Waits in a thread.
  bool Await(const bool* condition,
             absl::Duration timeout = absl::InfiniteDuration()) {
    absl::Mutex mu;
    absl::MutexLock lock(&mu);
    return fibers_.AwaitUntil(&mu, absl::Condition(condition),
                              loop_.now() + timeout);
  }

  const std::shared_ptr<Life> process_ = std::make_shared<Life>();
  Random random_{1};
  EventLoop loop_{/*tracing=*/false, [](Life*) {},
                  [this](const Life& life) { fibers_.WakeReady(life); }};
  Fibers fibers_{&loop_, &random_};
  std::vector<std::string> log_;
};

TEST_F(FibersTest, WaitsTakeVirtualTime) {
  const bool never = false;
  absl::Time end;
  fibers_.Start(process_, [&] {
    EXPECT_FALSE(Await(&never, absl::Hours(1)));
    end = loop_.now();
  });
  RunEvents();
  EXPECT_GE(end, absl::UnixEpoch() + absl::Hours(1));
  EXPECT_LT(end, absl::UnixEpoch() + absl::Hours(1) + absl::Seconds(1));
}

TEST_F(FibersTest, AnEventOfTheProcessEndsAWait) {
  bool told = false;
  fibers_.Start(process_, [&] {
    EXPECT_TRUE(Await(&told));
    log_.push_back("woken");
  });
  loop_.After(absl::Seconds(5), process_, "tell", [&] { told = true; });
  RunEvents();
  EXPECT_THAT(log_, ElementsAre("woken"));
}

TEST_F(FibersTest, JoinWaitsForTheEndOfAThread) {
  fibers_.Start(process_, [&] {
    const auto other = fibers_.Start([&] { log_.push_back("other"); });
    other->Join();
    log_.push_back("joined");
  });
  RunEvents();
  EXPECT_THAT(log_, ElementsAre("other", "joined"));
}

// Appends `name` to the log when it is destroyed.
struct Logged {
  ~Logged() { log->push_back(name); }
  std::vector<std::string>* const log;
  const std::string name;
};

TEST_F(FibersTest, TheEndOfAProcessUnwindsItsNewestThreadsFirst) {
  const bool never = false;
  fibers_.Start(process_, [&] {
    const Logged logged{&log_, "first"};
    fibers_.Start(process_, [&] {
      const Logged inner{&log_, "second"};
      Await(&never);
    });
    Await(&never);
    log_.push_back("not reached");
  });
  RunEvents();
  process_->ended = true;
  fibers_.Unwind(1);
  EXPECT_THAT(log_, ElementsAre("second", "first"));
}

TEST_F(FibersTest, DestructorsMayWaitWhileAProcessIsUnwound) {
  const bool never = false;
  bool asked = false;
  bool answered = false;
  // The older thread answers, as a thread pool does that is declared before
  // what it serves.
  fibers_.Start(process_, [&] {
    Await(&asked);
    answered = true;
    Await(&never);
  });
  struct Asks {
    ~Asks() { end(); }
    const std::function<void()> end;
  };
  fibers_.Start(process_, [&] {
    const Asks asks{[&] {
      asked = true;
      EXPECT_TRUE(Await(&answered));
      log_.push_back("answered");
    }};
    Await(&never);
  });
  RunEvents();
  process_->ended = true;
  fibers_.Unwind(1);
  EXPECT_THAT(log_, ElementsAre("answered"));
}

}  // namespace
}  // namespace tributary::simulation
