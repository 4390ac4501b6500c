#include "tests/simulation/world/world.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/failpoint.h"
#include "common/base/runtime.h"

namespace tributary {

absl::Status HitFailpoint(const char* point) {
  return simulation::World::current == nullptr
             ? absl::OkStatus()
             : simulation::World::current->HitFailpoint(point);
}

void RecordInLedger(int64_t attempt, int chunk, int64_t step,
                    int64_t sample_count) {
  if (simulation::World::current == nullptr) return;
  simulation::World::current->RecordUpdate(attempt, chunk, step, sample_count);
}

Runtime* SimulatedRuntime() { return &simulation::World::current->fibers; }

namespace simulation {
namespace {

constexpr int64_t kMostRestarts = 400;

// Returns a logger that discards its messages; traces show what matters.
Logger* SilentLog() {
  static Logger* const log = [] {
    LogOptions options;
    options.level = LogLevel::kError;
    options.standard_error = false;
    absl::StatusOr<std::unique_ptr<Logger>> made = Logger::Create(options);
    if (!made.ok()) std::abort();
    return made->release();
  }();
  return log;
}

}  // namespace

World* World::current = nullptr;

void Process::Start() {
  life_ = std::make_shared<Life>();
  life_->name = name_;
  life_->process = number_;
  world_->loop.Trace(name_, " starts");
  OnStart();
}

void Process::Crash(absl::Duration notice) {
  if (!running()) return;
  world_->loop.Trace(name_, " crashes");
  life_->ended = true;
  listener_ = nullptr;
  // The process is gone, so what its objects do while they end has no effect.
  OnCrash();
  EndLinks(life_.get(), notice);
}

void Process::Exit(const absl::Status& status) {
  world_->loop.Trace(name_, " exits: ", status.ToString());
  life_->ended = true;
  listener_ = nullptr;
  OnCrash();
  EndLinks(life_.get(), absl::Milliseconds(20));
  world_->OnExit(this, status);
}

std::shared_ptr<Life> Process::MakeScope(const std::string& what) const {
  auto scope = std::make_shared<Life>();
  scope->name = absl::StrCat(name_, "/", what);
  scope->process = number_;
  scope->parent = life_;
  return scope;
}

void Process::EndLinks(Life* life, absl::Duration notice) {
  const auto links = std::exchange(life->links, {});
  for (const std::weak_ptr<Link>& weak : links) {
    const std::shared_ptr<Link> link = weak.lock();
    if (link == nullptr) continue;
    const bool client = link->life(Link::kClient)->IsPartOf(life);
    link->SideEnded(client ? Link::kClient : Link::kServer, notice);
  }
}

void Process::EndScope(const std::shared_ptr<Life>& scope,
                       absl::Duration notice) {
  if (scope == nullptr) return;
  scope->ended = true;
  EndLinks(scope.get(), notice);
}

World::World(const Scenario& which, const ArenaLayout& arena,
             const std::string& folder, bool tracing, const Sabotage& sabotaged)
    : scenario(which),
      layout(arena),
      sabotage(sabotaged),
      loop(
          tracing,
          [this](Life* life) {
            Process* const process =
                processes[static_cast<size_t>(life->process)].get();
            process->Crash(absl::Milliseconds(20));
            RestartLater(process);
          },
          [this](const Life& life) { fibers.WakeReady(life); }),
      random(which.seed),
      fibers(&loop, &random),
      network(&loop, &random, which.slow_messages, which.slowest_message),
      disk(folder + "/disk"),
      log(SilentLog()),
      folder_(folder) {
  current = this;
}

World::~World() {
  loop.Clear();
  for (const auto& process : processes) {
    process->Crash(absl::ZeroDuration());
  }
  loop.Clear();
  current = nullptr;
}

void World::Violate(const std::string& what) {
  loop.Trace("VIOLATION: ", what);
  if (violation_.empty()) violation_ = what;
}

void World::Connect(
    const std::shared_ptr<Life>& client, std::function<Process*()> target,
    Service service, absl::Time deadline,
    std::function<void(absl::StatusOr<std::shared_ptr<Link>>)> done) {
  loop.After(random.Between(absl::Microseconds(20), absl::Milliseconds(2)),
             client, "-connect",
             [this, client, target = std::move(target), service, deadline,
              done = std::move(done)] {
               TryToConnect(client, target, service, deadline, done);
             });
}

Process* World::Find(absl::string_view name) const {
  for (const auto& process : processes) {
    if (process->name() == name) return process.get();
  }
  return nullptr;
}

bool World::Reaches(int client, const Process& process) const {
  const auto blocked = [&](int from, int to) {
    return network.BlockedUntil(from, to) > loop.now();
  };
  return process.listener() != nullptr && !process.listener()->silent() &&
         !blocked(client, process.number()) &&
         !blocked(process.number(), client);
}

std::shared_ptr<Link> World::TryOnce(const std::shared_ptr<Life>& client,
                                     Process* process, Service service) {
  if (process == nullptr || !Reaches(client->process, *process)) return nullptr;
  static constexpr const char* kNames[] = {
      "membership",   "enlistment", "exchange",   "read weights", "replica",
      "read replica", "save state", "read state", "member",       "transfer"};
  const std::shared_ptr<Link> link = Link::Create(
      &network, kNames[static_cast<int>(service)], client, process->listener());
  links_.push_back(link);
  link->Open([process, service, raw = link.get()] {
    process->Accept(service, raw->shared_from_this());
  });
  return link;
}

void World::TryToConnect(
    std::shared_ptr<Life> client, std::function<Process*()> target,
    Service service, absl::Time deadline,
    std::function<void(absl::StatusOr<std::shared_ptr<Link>>)> done) {
  if (const std::shared_ptr<Link> link = TryOnce(client, target(), service)) {
    done(link);
    return;
  }
  if (loop.now() > deadline) {
    done(absl::DeadlineExceededError("no process accepts the call"));
    return;
  }
  loop.After(random.Between(absl::Milliseconds(20), absl::Milliseconds(300)),
             client, "-connect",
             [this, client, target = std::move(target), service, deadline,
              done = std::move(done)] {
               TryToConnect(client, target, service, deadline, done);
             });
}

absl::StatusOr<std::shared_ptr<Link>> World::AwaitConnection(
    const std::shared_ptr<Life>& client,
    const std::function<Process*()>& target, Service service,
    absl::Time deadline, const std::function<bool()>& stop) {
  absl::Mutex mu;
  absl::MutexLock lock(&mu);
  absl::Duration wait =
      random.Between(absl::Microseconds(20), absl::Milliseconds(2));
  while (!fibers.AwaitUntil(&mu, absl::Condition(&stop), loop.now() + wait)) {
    if (std::shared_ptr<Link> link = TryOnce(client, target(), service)) {
      return link;
    }
    if (loop.now() > deadline) break;
    wait = random.Between(absl::Milliseconds(20), absl::Milliseconds(300));
  }
  return absl::UnavailableError("no process accepts the call");
}

void World::CutLinks(int process, int other, absl::Duration notice) {
  links_.erase(std::remove_if(links_.begin(), links_.end(),
                              [](const std::weak_ptr<Link>& weak) {
                                const auto link = weak.lock();
                                return link == nullptr || link->over();
                              }),
               links_.end());
  const auto links = links_;
  for (const auto& weak : links) {
    const std::shared_ptr<Link> link = weak.lock();
    if (link == nullptr) continue;
    const int ends[] = {link->life(Link::kClient)->process,
                        link->life(Link::kServer)->process};
    for (int side = 0; side < 2; ++side) {
      if (ends[side] == process && (other < 0 || ends[1 - side] == other)) {
        link->Cut(notice);
        break;
      }
    }
  }
}

void World::RestartLater(Process* process) {
  if (++restarts > kMostRestarts) {
    Violate(absl::StrCat("P5: ", process->name(), " was started ", restarts,
                         " times"));
    return;
  }
  const absl::Duration wait = random.Between(
      absl::Milliseconds(10), absl::Seconds(random.Chance(0.2) ? 8 : 2));
  loop.After(wait, nullptr, "restart", [this, process] {
    if (!process->running() && !done) process->Start();
  });
}

void World::OnExit(Process* process, const absl::Status& status) {
  if (status.ok()) return;
  static constexpr const char* kExpected[] = {"the job failed",
                                              "taken over",
                                              "the job was stopped",
                                              "stopped by request",
                                              "no worker for",
                                              "has not come within",
                                              "no process accepts the call",
                                              "another coordinator",
                                              "and its part of the weights",
                                              "was silent for longer"};
  bool expected = false;
  for (const char* reason : kExpected) {
    expected |= absl::StrContains(status.message(), reason);
  }
  // After any other error the process must retry and not end.
  if (!expected) {
    Violate(absl::StrCat(process->name(), " ended: ", status.ToString()));
  }
  // If two coordinators were running, the other one continues the job.
  if (process->coordinates() && servers[0] != process &&
      servers[0]->running()) {
    return;
  }
  RestartLater(process);
  if (process != servers[0]) return;
  // The job failed: an operator restarts all processes with --resume.
  for (const auto& other : processes) {
    if (!other->spare && !other->running()) RestartLater(other.get());
  }
}

absl::Status World::HitFailpoint(const char* point) {
  Life* const life = loop.running();
  if (life == nullptr || life->process != failpoint.process ||
      failpoint.point != point || life->silent()) {
    return absl::OkStatus();
  }
  if (failpoint.count-- > 0) return absl::OkStatus();
  failpoint.process = -1;
  loop.Trace(life->name, ": failpoint ", point);
  ++injected[failpoint.crash ? "crash at failpoint" : "error at failpoint"];
  if (!failpoint.crash) {
    return absl::UnavailableError(absl::StrCat("failpoint ", point));
  }
  life->root()->dying = true;
  return absl::OkStatus();
}

void World::RecordUpdate(int64_t attempt, int chunk, int64_t step,
                         int64_t sample_count) {
  if (loop.running() == nullptr || loop.running()->silent()) return;
  ledger.AddUpdate(attempt, chunk, step, sample_count);
  if (sabotage.counted_twice && step == 3 && chunk == 1) {
    ledger.AddUpdate(attempt, chunk, step, sample_count);
  }
}

}  // namespace simulation
}  // namespace tributary
