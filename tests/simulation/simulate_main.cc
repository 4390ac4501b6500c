// Runs simulated histories:
//   simulate --histories 10000 --seed 1 [--jobs 2]
//   simulate --seed 4711 --histories 1 --trace
// Seeds count up from --seed. With --pipelines, all jobs have a pipeline, and
// with --tables, all have tables. For each history that fails, prints the
// command that repeats it; the exit code is then 1.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "tests/simulation/history.h"

namespace tributary::simulation {
namespace {

struct Flags {
  int64_t histories = 1000;
  uint64_t seed = 1;
  int jobs = 1;
  bool trace = false;
  Jobs drawn = Jobs::kAll;
};

[[noreturn]] void Usage() {
  std::fprintf(stderr,
               "usage: simulate [--histories N] [--seed S] [--jobs J] "
               "[--pipelines | --tables] [--trace]\n");
  std::exit(2);
}

Flags ParseFlags(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--trace") {
      flags.trace = true;
      continue;
    }
    if (flag == "--pipelines") {
      flags.drawn = Jobs::kPipelines;
      continue;
    }
    if (flag == "--tables") {
      flags.drawn = Jobs::kTables;
      continue;
    }
    if (i + 1 == argc) Usage();
    const char* const value = argv[++i];
    const bool good = flag == "--histories"
                          ? absl::SimpleAtoi(value, &flags.histories)
                      : flag == "--seed" ? absl::SimpleAtoi(value, &flags.seed)
                      : flag == "--jobs" ? absl::SimpleAtoi(value, &flags.jobs)
                                         : false;
    if (!good) Usage();
  }
  return flags;
}

struct Totals {
  int64_t histories = 0;
  int64_t failures = 0;
  int64_t events = 0;
  int64_t updates = 0;
  int64_t attempts = 0;
  int64_t restarts = 0;
  absl::Duration virtual_time;
  std::map<std::string, int64_t> injected;
};

// Runs every `jobs`-th history, starting at number `first`.
Totals RunSome(const Flags& flags, int first) {
  Totals totals;
  for (int64_t i = first; i < flags.histories; i += flags.jobs) {
    HistoryOptions options;
    options.seed = flags.seed + static_cast<uint64_t>(i);
    options.jobs = flags.drawn;
    options.tracing = flags.trace;
    options.folder = FastFolder();
    const HistoryResult result = RunHistory(options);
    ++totals.histories;
    totals.events += result.events;
    totals.updates += result.updates;
    totals.attempts += result.attempts;
    totals.restarts += result.restarts;
    totals.virtual_time += result.virtual_time;
    for (const auto& [kind, count] : result.injected) {
      totals.injected[kind] += count;
    }
    if (flags.trace) {
      std::printf("hash %016llx\n",
                  static_cast<unsigned long long>(result.hash));
    }
    if (result.violation.empty()) continue;
    ++totals.failures;
    std::printf("FAILED, simulate --seed %llu --histories 1%s --trace: %s\n",
                static_cast<unsigned long long>(options.seed),
                flags.drawn == Jobs::kPipelines ? " --pipelines"
                : flags.drawn == Jobs::kTables  ? " --tables"
                                                : "",
                result.violation.c_str());
    std::fflush(stdout);
  }
  return totals;
}

void Write(const Totals& totals, std::FILE* file) {
  std::fprintf(file, "%lld %lld %lld %lld %lld %lld %.3f\n",
               static_cast<long long>(totals.histories),
               static_cast<long long>(totals.failures),
               static_cast<long long>(totals.events),
               static_cast<long long>(totals.updates),
               static_cast<long long>(totals.attempts),
               static_cast<long long>(totals.restarts),
               absl::ToDoubleSeconds(totals.virtual_time));
  for (const auto& [kind, count] : totals.injected) {
    std::fprintf(file, "%lld %s\n", static_cast<long long>(count),
                 kind.c_str());
  }
}

bool Read(std::FILE* file, Totals* totals) {
  long long counts[6];
  double seconds = 0;
  if (std::fscanf(file, "%lld %lld %lld %lld %lld %lld %lf", &counts[0],
                  &counts[1], &counts[2], &counts[3], &counts[4], &counts[5],
                  &seconds) != 7) {
    return false;
  }
  totals->histories += counts[0];
  totals->failures += counts[1];
  totals->events += counts[2];
  totals->updates += counts[3];
  totals->attempts += counts[4];
  totals->restarts += counts[5];
  totals->virtual_time += absl::Seconds(seconds);
  long long count = 0;
  char kind[64];
  while (std::fscanf(file, "%lld %63[^\n]", &count, kind) == 2) {
    totals->injected[kind] += count;
  }
  return true;
}

int Main(int argc, char** argv) {
  const Flags flags = ParseFlags(argc, argv);
  const absl::Time start = absl::Now();
  std::vector<std::FILE*> pipes;
  for (int job = 0; job < flags.jobs; ++job) {
    int ends[2];
    if (pipe(ends) != 0) return 1;
    if (fork() == 0) {
      close(ends[0]);
      std::FILE* const out = fdopen(ends[1], "w");
      const Totals totals = RunSome(flags, job);
      Write(totals, out);
      std::fclose(out);
      std::fflush(stdout);
      std::_Exit(0);
    }
    close(ends[1]);
    pipes.push_back(fdopen(ends[0], "r"));
  }
  Totals totals;
  bool whole = true;
  for (std::FILE* const pipe : pipes) whole = Read(pipe, &totals) && whole;
  while (wait(nullptr) > 0) {
  }
  const double wall = absl::ToDoubleSeconds(absl::Now() - start);
  std::printf(
      "%lld histories, %lld failed; %.0f s of virtual time in %.1f s; %lld "
      "events, %lld updates, %lld attempts, %lld restarts\n",
      static_cast<long long>(totals.histories),
      static_cast<long long>(totals.failures),
      absl::ToDoubleSeconds(totals.virtual_time), wall,
      static_cast<long long>(totals.events),
      static_cast<long long>(totals.updates),
      static_cast<long long>(totals.attempts),
      static_cast<long long>(totals.restarts));
  for (const auto& [kind, count] : totals.injected) {
    std::printf("  %-24s %lld\n", kind.c_str(), static_cast<long long>(count));
  }
  if (!whole) std::printf("a process of histories died\n");
  return whole && totals.failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tributary::simulation

int main(int argc, char** argv) {
  return tributary::simulation::Main(argc, argv);
}
