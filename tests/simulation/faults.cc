#include "tests/simulation/faults.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "tests/simulation/processes/server_process.h"
#include "tests/simulation/world/client_stream.h"

namespace tributary::simulation {
namespace {

// The time after which gRPC's keepalive closes the connection to a silent peer.
constexpr absl::Duration kKeepalive = absl::Seconds(15);

constexpr const char* kServerPoints[] = {
    "S2",  "S3",  "S4",  "S5",  "S6",  "S7",  "S8",  "S9",
    "S10", "S11", "S12", "S13", "S14", "S15", "S16", "S17"};
// Failpoints at which the call may fail.
constexpr const char* kErrorPoints[] = {"S2",  "S3",  "S4",  "S5",  "S6", "S11",
                                        "S12", "S13", "S14", "S15", "S16"};

// The points that workers pass whose model is a network.
constexpr const char* kWorkerPoints[] = {"W1", "W2",  "W3", "W5",
                                         "W9", "W11", "W12"};

}  // namespace

Faults::Faults(World* world, Process* coordinator, Process* spare_coordinator,
               Process* spare_worker)
    : world_(world),
      coordinator_(coordinator),
      spare_coordinator_(spare_coordinator),
      spare_worker_(spare_worker),
      left_(world->scenario.faults),
      next_event_(
          world->random.Uniform(1, world->scenario.events_between_faults)) {}

bool Faults::over() const {
  return left_ == 0 && world_->loop.now() >= last_end_;
}

void Faults::OnEvent() {
  if (left_ == 0 || world_->loop.events() < next_event_) return;
  --left_;
  next_event_ =
      world_->loop.events() +
      world_->random.Uniform(1, world_->scenario.events_between_faults);
  Lasts(absl::ZeroDuration());
  Inject();
}

void Faults::Inject() {
  const int64_t kind = world_->random.Uniform(0, 99);
  if (kind < 30) {
    CrashSome();
  } else if (kind < 34) {
    CrashAll();
  } else if (kind < 46) {
    CrashAtPoint();
  } else if (kind < 52) {
    CrashAtDiskOperation();
  } else if (kind < 58) {
    BreakDisk();
  } else if (kind < 68) {
    Pause();
  } else if (kind < 72) {
    PauseCoordinator();
  } else if (kind < 82) {
    Partition();
  } else if (kind < 94) {
    CutConnection();
  } else if (kind < 98) {
    ClaimRank();
  } else {
    Drain();
  }
}

void Faults::Lasts(absl::Duration duration) {
  last_end_ = std::max(last_end_, world_->loop.now() + duration);
}

Process* Faults::Any() {
  const auto count = static_cast<int64_t>(world_->processes.size());
  return world_
      ->processes[static_cast<size_t>(world_->random.Uniform(0, count - 1))]
      .get();
}

Process* Faults::AnyRunning() {
  for (int tries = 0; tries < 8; ++tries) {
    Process* const process = Any();
    if (process->running()) return process;
  }
  return nullptr;
}

absl::Duration Faults::Notice() {
  return world_->random.Chance(0.8) ? absl::Milliseconds(20) : kKeepalive;
}

void Faults::CrashAndRestart(Process* process) {
  process->Crash(Notice());
  // When its pause is over, it starts as a new process.
  world_->RestartLater(process);
}

void Faults::CrashSome() {
  const int64_t victims =
      world_->random.Chance(0.8) ? 1 : world_->random.Uniform(2, 4);
  for (int64_t i = 0; i < victims; ++i) {
    Process* const process = AnyRunning();
    if (process == nullptr) continue;
    ++world_->injected["crash"];
    CrashAndRestart(process);
  }
}

void Faults::CrashAll() {
  const bool power = world_->random.Chance(0.7);
  ++world_->injected[power ? "power cut" : "crash of all"];
  for (const auto& process : world_->processes) {
    if (!process->running()) continue;
    process->Crash(absl::ZeroDuration());
    if (process.get() != spare_coordinator_)
      world_->RestartLater(process.get());
  }
  if (!coordinator_->running()) world_->RestartLater(coordinator_);
  if (power) world_->disk.LoseUnsynced(world_->random.Bits());
}

void Faults::CrashAtPoint() {
  Process* const process = AnyRunning();
  if (process == nullptr || world_->failpoint.process >= 0) return;
  Random* const random = &world_->random;
  ArmedFailpoint armed;
  armed.crash = random->Chance(0.7);
  armed.point =
      armed.crash
          ? kServerPoints[random->Uniform(0, std::size(kServerPoints) - 1)]
          : kErrorPoints[random->Uniform(0, std::size(kErrorPoints) - 1)];
  armed.process = world_
                      ->servers[static_cast<size_t>(
                          random->Uniform(0, world_->scenario.servers - 1))]
                      ->number();
  armed.count = random->Uniform(0, random->Chance(0.5) ? 3 : 40);
  if (world_->scenario.network() && random->Chance(0.6)) {
    ArmForWorker(&armed);
  }
  world_->failpoint = armed;
}

void Faults::ArmForWorker(ArmedFailpoint* armed) {
  Random* const random = &world_->random;
  armed->crash = true;
  armed->point =
      kWorkerPoints[random->Uniform(0, std::size(kWorkerPoints) - 1)];
  if (world_->scenario.late_rows > 0 && random->Chance(0.5)) {
    armed->point = kLateRows;
  }
  const int64_t worker = random->Uniform(0, world_->scenario.workers - 1);
  armed->process = world_->Find(absl::StrCat("worker-", worker))->number();
}

void Faults::CrashAtDiskOperation() {
  const int64_t shard = world_->random.Uniform(0, world_->scenario.servers - 1);
  Process* const process = world_->servers[static_cast<size_t>(shard)];
  static_cast<ServerProcess*>(process)->CrashAtDiskCall(
      world_->random.Uniform(0, 30));
  ++world_->injected["crash at a disk call"];
}

void Faults::BreakDisk() {
  DiskFault& fault = world_->disk_fault;
  Random* const random = &world_->random;
  fault.operations_left = random->Uniform(0, 60);
  fault.error_number = random->Chance(0.5) ? ENOSPC : EIO;
  fault.until = absl::InfinitePast();
  ++world_->injected["disk error"];
  if (!random->Chance(0.5)) return;
  const absl::Duration lasts =
      random->Between(absl::Milliseconds(100), absl::Seconds(10));
  fault.until = world_->loop.now() + lasts;
  Lasts(lasts);
}

absl::Duration Faults::Stop(Process* process, absl::Duration least,
                            absl::Duration most) {
  const absl::Duration time = world_->random.Between(least, most);
  world_->loop.Trace(process->name(), " stands still for ",
                     absl::FormatDuration(time));
  process->life()->paused_until = world_->loop.now() + time;
  // A paused process does not answer keepalive pings.
  if (time > kKeepalive) {
    world_->loop.After(kKeepalive, nullptr, "keepalive",
                       [this, number = process->number()] {
                         world_->CutLinks(number, -1, absl::Seconds(5));
                       });
  }
  Lasts(time);
  return time;
}

void Faults::Pause() {
  Process* const process = AnyRunning();
  if (process == nullptr) return;
  ++world_->injected["pause"];
  const absl::Duration lease = world_->scenario.lease;
  Stop(process, absl::Milliseconds(10),
       world_->random.Chance(0.5) ? lease / 2 : 3 * lease + absl::Seconds(5));
}

void Faults::PauseCoordinator() {
  if (!coordinator_->running() || spare_coordinator_->running()) return;
  ++world_->injected["second coordinator"];
  const absl::Duration time =
      Stop(coordinator_, absl::Seconds(2), absl::Seconds(40));
  // An operator may take it for failed and start another one.
  world_->loop.After(world_->random.Between(absl::ZeroDuration(), time * 1.1),
                     nullptr, "second coordinator", [this] {
                       if (world_->done || spare_coordinator_->running())
                         return;
                       spare_coordinator_->Start();
                     });
}

void Faults::Partition() {
  Process* const from = AnyRunning();
  Process* const to = AnyRunning();
  if (from == nullptr || to == nullptr || from == to) return;
  const bool both = world_->random.Chance(0.5);
  ++world_->injected[both ? "partition" : "one-way partition"];
  const absl::Duration time = world_->random.Between(
      absl::Milliseconds(50),
      world_->random.Chance(0.5) ? absl::Seconds(2) : absl::Seconds(25));
  const absl::Time until = world_->loop.now() + time;
  world_->loop.Trace("nothing gets from ", from->name(), " to ", to->name(),
                     both ? " and back for " : " for ",
                     absl::FormatDuration(time));
  world_->network.Block(from->number(), to->number(), until);
  if (both) world_->network.Block(to->number(), from->number(), until);
  if (time > kKeepalive || world_->random.Chance(0.3)) {
    world_->loop.After(std::min(time, kKeepalive), nullptr, "keepalive",
                       [this, a = from->number(), b = to->number()] {
                         world_->CutLinks(a, b, absl::Seconds(5));
                       });
  }
  Lasts(time);
}

void Faults::CutConnection() {
  Process* const process = AnyRunning();
  if (process == nullptr) return;
  ++world_->injected["cut"];
  const bool all = world_->random.Chance(0.3);
  const absl::Duration notice = world_->random.Between(
      absl::Milliseconds(1),
      world_->random.Chance(0.5) ? absl::Milliseconds(50) : absl::Seconds(8));
  world_->CutLinks(process->number(), all ? -1 : Any()->number(), notice);
  Lasts(notice);
}

void Faults::ClaimRank() {
  if (spare_worker_->running()) return;
  ++world_->injected["rank claimed twice"];
  spare_worker_->Start();
}

void Faults::Drain() {
  if (!coordinator_->running()) return;
  ++world_->injected["SIGTERM"];
  static_cast<ServerProcess*>(coordinator_)->Drain();
}

}  // namespace tributary::simulation
