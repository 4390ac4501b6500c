#include "deploy/tools/conformance/scenarios.h"

#include <signal.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/job/rounds.h"
#include "common/os/file.h"
#include "deploy/tools/conformance/rules.h"

namespace tributary {
namespace {

using Outcome = absl::StatusOr<std::optional<Fault>>;

// The version at which scenarios interrupt the job, unless it has few rounds.
constexpr int64_t kInterrupted = 5;
// The shortest lease that a slow machine keeps reliably.
constexpr absl::Duration kShortLease = absl::Seconds(2);

Outcome EndOf(const Scene& scene) {
  if (!scene.error().ok()) return scene.error();
  return scene.fault();
}

// Waits for the end of the job, and compares the result.
Outcome Finish(Scene* scene) {
  if (scene->AwaitSuccess()) scene->CheckResult();
  return EndOf(*scene);
}

Outcome Train(const Subject& subject, const std::string& name,
              const std::vector<std::string>& changes, int servers,
              int workers) {
  Scene scene(subject, name, changes, servers, workers);
  for (int i = 0; i < workers; ++i) {
    if (scene.Start() == nullptr) return EndOf(scene);
  }
  return Finish(&scene);
}

// Returns the version at which to interrupt the job.
int64_t InterruptedVersion(const Scene& scene) {
  if (scene.steps() == 0) return kInterrupted;
  const int64_t rounds = Rounds(scene.job(), scene.steps()).count();
  return std::clamp<int64_t>(rounds / 2, 1, kInterrupted);
}

// Starts a worker that does not receive the version at which the job is
// interrupted until Release, and waits until it would.
Scene::Worker* StartHeld(Scene* scene, int others = 0) {
  Scene::Worker* const worker = scene->Start(
      [scene](WireTap* tap) { tap->Hold(InterruptedVersion(*scene)); });
  for (int i = 0; i < others; ++i) {
    if (scene->Start() == nullptr) return nullptr;
  }
  if (worker == nullptr ||
      !scene->Await([worker] { return worker->tap->holds(); })) {
    return nullptr;
  }
  return worker;
}

Outcome LateJoin(const Subject& subject) {
  Scene scene(subject, "late-join", {});
  Scene::Worker* const first = StartHeld(&scene);
  if (first == nullptr) return EndOf(scene);
  Scene::Worker* const late = scene.Start();
  if (late == nullptr ||
      !scene.Await([late] { return late->conversation->has_deal(); })) {
    return EndOf(scene);
  }
  first->tap->Release();
  return Finish(&scene);
}

Outcome LostWorker(const Subject& subject) {
  Scene scene(subject, "lost-worker", {}, /*servers=*/1, /*workers=*/2);
  Scene::Worker* const survivor = StartHeld(&scene, /*others=*/1);
  if (survivor == nullptr) return EndOf(scene);
  scene.Kill(1);
  survivor->tap->Release();
  return Finish(&scene);
}

// The worker that must initialize the weights is lost before it has sent them.
// Another one, which has connected to the servers without, must then send them.
Outcome LostInitializer(const Subject& subject) {
  Scene scene(subject, "lost-initializer", {});
  Scene::Worker* const first = scene.Start([&scene](WireTap* tap) {
    tap->DropInitial();
    // A job that has its initial weights would otherwise end without the other
    // worker.
    tap->Hold(InterruptedVersion(scene));
  });
  const auto connected = [](const Scene::Worker* worker) {
    return [worker] { return worker->conversation->connected(); };
  };
  if (first == nullptr || !scene.Await(connected(first))) return EndOf(scene);
  Scene::Worker* const second = scene.Start();
  if (second == nullptr || !scene.Await(connected(second))) return EndOf(scene);
  scene.Kill(0);
  return Finish(&scene);
}

Outcome ExpiredLease(const Subject& subject) {
  Scene scene(subject, "expired-lease", {}, /*servers=*/1, /*workers=*/1,
              kShortLease);
  Scene::Worker* const worker = StartHeld(&scene);
  if (worker == nullptr) return EndOf(scene);
  scene.Signal(*worker, SIGSTOP);
  const int before = worker->conversation->dismissals();
  if (!scene.Await([worker, before] {
        return worker->conversation->dismissals() > before;
      })) {
    return EndOf(scene);
  }
  scene.Signal(*worker, SIGCONT);
  worker->tap->Release();
  return Finish(&scene);
}

Outcome LostServer(const Subject& subject) {
  Scene scene(subject, "lost-server", {"checkpoint.every_steps=2"});
  Scene::Worker* const worker = StartHeld(&scene);
  if (worker == nullptr) return EndOf(scene);
  worker->tap->Break(absl::UnavailableError("the server was lost"));
  scene.ReplaceServers();
  worker->tap->Release();
  worker->tap->Allow();
  return Finish(&scene);
}

// Returns, for example, "end-not-found".
std::string NameOf(const char* prefix, absl::StatusCode code) {
  return absl::StrCat(
      prefix,
      absl::StrReplaceAll(absl::AsciiStrToLower(absl::StatusCodeToString(code)),
                          {{"_", "-"}}));
}

// Returns a fault if the worker has ended without a call of Membership.
std::optional<Fault> EndedBeforeItJoined(const Scene& scene,
                                         const Scene::Worker& worker) {
  if (!worker.exit.has_value() || worker.tap->memberships() > 0) {
    return std::nullopt;
  }
  return Fault{
      absl::StrCat(scene.DescribeEnd(worker), " before it called Membership"),
      "PROTOCOL.md, A job from start to end: a worker calls Membership "
      "and sends Join (item 2)"};
}

// Refuses the worker's first call. It must join again.
Outcome Retry(const Subject& subject, absl::StatusCode code) {
  const std::string text = absl::StatusCodeToString(code);
  Scene scene(subject, NameOf("retry-", code), {});
  Scene::Worker* const worker = scene.Start([&](WireTap* tap) {
    tap->RefuseOnce(absl::Status(code, "refused once by the conformance test"));
  });
  if (worker == nullptr) return EndOf(scene);
  // A fast worker may have trained the whole job when it is looked at.
  scene.Await(
      [worker] {
        return worker->conversation->joins() > 0 || worker->exit.has_value();
      },
      /*may_end=*/true);
  if (!scene.error().ok()) return scene.error();
  if (auto fault = EndedBeforeItJoined(scene, *worker)) return fault;
  const bool joined = worker->conversation->joins() > 0;
  if (!joined && !worker->exit.has_value() && worker->tap->memberships() == 1) {
    return Fault{
        absl::StrCat(
            "it did not join again after a server ended Membership with ",
            text),
        absl::StrCat(kLostRule,
                     "wait with exponential backoff, and join again")};
  }
  if (!joined && worker->exit.has_value()) {
    return Fault{
        absl::StrCat("it ended after a server ended Membership with ", text),
        absl::StrCat(kLostRule,
                     "wait with exponential backoff, and join again")};
  }
  return Finish(&scene);
}

// Refuses the worker's first call. It must end.
Outcome End(const Subject& subject, absl::StatusCode code) {
  const std::string text = absl::StatusCodeToString(code);
  Scene scene(subject, NameOf("end-", code), {});
  Scene::Worker* const worker = scene.Start([&](WireTap* tap) {
    tap->RefuseOnce(absl::Status(code, "refused by the conformance test"));
  });
  if (worker == nullptr) return EndOf(scene);
  const auto decided = [worker] {
    return worker->exit.has_value() || worker->tap->memberships() > 1;
  };
  scene.Await(decided, /*may_end=*/true);
  if (!scene.error().ok()) return scene.error();
  if (auto fault = EndedBeforeItJoined(scene, *worker)) return fault;
  const std::string cause =
      absl::StrCat(" after a server ended Membership with ", text);
  const bool is_success = code == absl::StatusCode::kOutOfRange;
  const char* const rule =
      is_success ? "OUT_OF_RANGE means that the job is done: exit with success"
                 : "on any other code, exit with the message as the error";
  if (worker->tap->memberships() > 1) {
    return Fault{absl::StrCat("it joined again", cause),
                 absl::StrCat(kLostRule, rule)};
  }
  if (!worker->exit.has_value()) {
    return Fault{absl::StrCat("it did not exit", cause),
                 absl::StrCat(kLostRule, rule)};
  }
  if ((*worker->exit == 0) != is_success) {
    return Fault{absl::StrCat("it ", DescribeExit(*worker->exit), cause),
                 absl::StrCat(kLostRule, rule)};
  }
  return EndOf(scene);
}

Outcome Stop(const Subject& subject) {
  // More steps than any worker computes within the time limit.
  const char* const endless =
      subject.job.has_epochs() ? "epochs=1000000" : "steps=1000000000";
  Scene scene(subject, "stop", {endless, "checkpoint.every_steps=2"});
  Scene::Worker* const worker = StartHeld(&scene);
  if (worker == nullptr) return EndOf(scene);
  scene.cluster()->Stop();
  worker->tap->Release();
  const bool ended = scene.Await([worker] { return worker->exit.has_value(); },
                                 /*may_end=*/true);
  if (ended && !worker->conversation->finished()) {
    scene.Add({absl::StrCat("it ", DescribeExit(*worker->exit),
                            " before the job was stopped"),
               "PROTOCOL.md, A job from start to end: workers stay until they "
               "receive Finished (item 8)"});
  }
  return EndOf(scene);
}

}  // namespace

std::vector<Scenario> AllScenarios() {
  std::vector<Scenario> all;
  const auto train = [&all](const std::string& name, const std::string& summary,
                            int servers, int workers,
                            const std::vector<std::string>& changes = {}) {
    all.push_back({name, summary, [=](const Subject& subject) {
                     return Train(subject, name, changes, servers, workers);
                   }});
  };
  train("train", "one worker trains a job", 1, 1);
  train("two-servers", "a job with two servers", 2, 1);
  train("two-workers", "two workers share every step", 1, 2);
  train("evaluation", "two workers share frequent evaluations", 1, 2,
        {"evaluation={every_steps: 2 batch: 16}"});
  train("bfloat16", "gradients and weights in 16 bits", 1, 1,
        {"exchange.wire_dtype=BFLOAT16"});
  all.back().applies = [](const JobSpec& job) {
    return !job.exchange().has_compression();
  };
  train("eight-bit-rows", "rows and their gradients in 8 bits", 2, 1,
        {"sparse.wire_dtype=INT8"});
  all.back().applies = [](const JobSpec& job) { return job.has_sparse(); };
  all.push_back({"late-join", "a second worker joins later", &LateJoin});
  all.push_back({"lost-worker", "one of two workers is killed", &LostWorker});
  all.push_back({"lost-initializer",
                 "the worker that initializes the weights is killed",
                 &LostInitializer});
  all.push_back({"expired-lease",
                 "a worker is suspended for longer than its lease",
                 &ExpiredLease});
  all.push_back(
      {"lost-server", "the server is lost and comes back", &LostServer});
  all.push_back({"stop", "the job is stopped", &Stop});
  for (const auto code :
       {absl::StatusCode::kUnavailable, absl::StatusCode::kAborted,
        absl::StatusCode::kDeadlineExceeded}) {
    all.push_back({NameOf("retry-", code), "a call ends with this code",
                   [code](const Subject& s) { return Retry(s, code); }});
  }
  for (const auto code :
       {absl::StatusCode::kUnauthenticated, absl::StatusCode::kPermissionDenied,
        absl::StatusCode::kResourceExhausted,
        absl::StatusCode::kFailedPrecondition,
        absl::StatusCode::kInvalidArgument, absl::StatusCode::kOutOfRange}) {
    all.push_back({NameOf("end-", code), "a call ends with this code",
                   [code](const Subject& s) { return End(s, code); }});
  }
  return all;
}

absl::StatusOr<std::string> ConformanceJob(const std::string& folder) {
  const auto table = [](int begin, int rows) {
    std::string text = "a,b,c,d,class\n";
    for (int row = begin; row < begin + rows; ++row) {
      for (int column = 0; column < 4; ++column) {
        absl::StrAppendFormat(
            &text, "%.4f,",
            std::sin(1.7 * row + 2.3 * column) + (column == row % 3 ? 1 : 0));
      }
      absl::StrAppend(&text, row % 3, "\n");
    }
    return text;
  };
  TRIBUTARY_RETURN_IF_ERROR(
      WriteFileAtomically(folder + "/train.csv", {table(0, 90)}));
  TRIBUTARY_RETURN_IF_ERROR(
      WriteFileAtomically(folder + "/test.csv", {table(90, 50)}));
  // Three chunks, of which the last is shorter; a short last batch in each
  // epoch.
  return absl::StrCat(R"(
      model { mlp { hidden: [64, 32] } }
      data { csv { train: ")",
                      folder, "/train.csv\" test: \"", folder,
                      R"(/test.csv" } }
      batch { global: 32 micro_batches: 8 }
      optimizer { sgd { learning_rate: 0.01 } }
      steps: 12
      evaluation { every_steps: 6 }
      exchange { parameter_server { chunk_bytes: 4096 } }
      output { sample_bytes: 0 })");
}

}  // namespace tributary
