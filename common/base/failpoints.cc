// Reads the actions of failpoints from the environment. TRIBUTARY_FAILPOINTS is
// a list, separated by ';', of
//   POINT=TERM[->TERM]...    TERM: [COUNT*]ACTION[(ARGUMENT)]
// as in FreeBSD's fail(9). Each time the process reaches the point, it performs
// the first term whose count is not used up. A term without a count never is.
// Actions:
//   off            does nothing
//   crash          sends SIGKILL to itself
//   stop(MS)       sends SIGSTOP to itself, and SIGCONT after MS milliseconds
//   error          returns an UNAVAILABLE error
//   memory         returns a RESOURCE_EXHAUSTED error
// Points:
//   worker  W1 register-sent, W2 registered, W3 before-pull, W4 mid-pull,
//           W5 after-pull, W6 before-backward-end, W7 before-push, W8 mid-push,
//           W9 push-sent-before-ack, W10 after-ack, W11 before-barrier,
//           W12 while-evaluating
//   server  S1 before-listen, S2 register-before-reply, S3 pull-before-read,
//           S4 push-chunk-received, S5 push-before-record,
//           S6 recorded-before-ack, S7 all-received-before-optimizer,
//           S8 mid-optimizer, S9 after-optimizer-before-version,
//           S10 after-version-before-reply, S11 checkpoint-folder,
//           S12 checkpoint-mid-file, S13 checkpoint-before-fsync,
//           S14 checkpoint-before-rename,
//           S15 checkpoint-after-rename-before-fsync,
//           S16 checkpoint-before-latest, S17 on-restore, S18 during-drain
//   replica J1 copy-received-before-kept, J2 kept-before-answer,
//           J3 before-copies-are-read, J4 asked-for-last-weights
// TRIBUTARY_FAILPOINT_LOG names a file that receives a line for each action.
// TRIBUTARY_LEDGER names a file that receives "attempt chunk step sample_count"
// for each update.
// TRIBUTARY_SAMPLE_LEDGER names a file that receives "step micro_batch" and a
// hash of each sample for each micro-batch that a worker computes.
#include <fcntl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "common/base/failpoint.h"

namespace tributary {
namespace {

struct Term {
  int64_t count = -1;  // -1: unlimited.
  std::string action;
  int64_t argument = 0;
};

[[noreturn]] void BadSetting(absl::string_view text) {
  std::fprintf(
      stderr,
      "error: TRIBUTARY_FAILPOINTS: \"%s\" is not POINT=TERM[->TERM]...\n",
      std::string(text).c_str());
  std::_Exit(2);
}

Term ParseTerm(absl::string_view text) {
  Term term;
  const absl::string_view whole = text;
  const size_t star = text.find('*');
  if (star != absl::string_view::npos) {
    if (!absl::SimpleAtoi(text.substr(0, star), &term.count)) BadSetting(whole);
    text.remove_prefix(star + 1);
  }
  const size_t open = text.find('(');
  if (open != absl::string_view::npos) {
    absl::string_view argument = text.substr(open + 1);
    if (!absl::ConsumeSuffix(&argument, ")") ||
        !absl::SimpleAtoi(argument, &term.argument)) {
      BadSetting(whole);
    }
    text = text.substr(0, open);
  }
  term.action = std::string(text);
  for (const char* known : {"off", "crash", "stop", "error", "memory"}) {
    if (term.action == known) return term;
  }
  BadSetting(whole);
}

class Failpoints {
 public:
  Failpoints() {
    const char* const setting = std::getenv("TRIBUTARY_FAILPOINTS");
    if (setting == nullptr) return;
    for (absl::string_view point :
         absl::StrSplit(setting, ';', absl::SkipEmpty())) {
      const size_t equals = point.find('=');
      if (equals == absl::string_view::npos) BadSetting(point);
      std::vector<Term>& terms = terms_[std::string(point.substr(0, equals))];
      for (absl::string_view term :
           absl::StrSplit(point.substr(equals + 1), "->")) {
        terms.push_back(ParseTerm(term));
      }
    }
  }

  Term Next(const std::string& point) {
    absl::MutexLock lock(&mu_);
    const auto found = terms_.find(point);
    if (found == terms_.end()) return {0, "off", 0};
    for (Term& term : found->second) {
      if (term.count == 0) continue;
      if (term.count > 0) --term.count;
      return term;
    }
    return {0, "off", 0};
  }

 private:
  absl::Mutex mu_;
  std::map<std::string, std::vector<Term>> terms_ ABSL_GUARDED_BY(mu_);
};

void AppendLine(const char* variable, const std::string& line) {
  const char* const path = std::getenv(variable);
  if (path == nullptr) return;
  const int file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  // A single write keeps the lines of concurrent threads and processes whole.
  if (file < 0 || write(file, line.data(), line.size()) < 0) {
    std::perror(path);
  }
  if (file >= 0) close(file);
}

// The hash FNV-1a (Fowler, Noll and Vo).
uint64_t Fnv1a(absl::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  }
  return hash;
}

// A stopped process cannot continue itself, so a child sends the SIGCONT.
void StandStill(int64_t milliseconds) {
  const pid_t self = getpid();
  const pid_t waker = fork();
  if (waker == 0) {
    timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000};
    nanosleep(&left, nullptr);
    kill(self, SIGCONT);
    _exit(0);
  }
  kill(self, SIGSTOP);
}

}  // namespace

absl::Status HitFailpoint(const char* point) {
  static Failpoints* const failpoints = new Failpoints();
  const Term term = failpoints->Next(point);
  if (term.action == "off") return absl::OkStatus();
  AppendLine("TRIBUTARY_FAILPOINT_LOG",
             absl::StrCat(point, " ", term.action, " ", getpid(), "\n"));
  if (term.action == "crash") {
    kill(getpid(), SIGKILL);
  } else if (term.action == "stop") {
    StandStill(term.argument);
  } else if (term.action == "memory") {
    return absl::ResourceExhaustedError(absl::StrCat("failpoint ", point));
  } else {
    return absl::UnavailableError(absl::StrCat("failpoint ", point));
  }
  return absl::OkStatus();
}

void RecordInLedger(int64_t attempt, int chunk, int64_t step,
                    int64_t sample_count) {
  AppendLine("TRIBUTARY_LEDGER", absl::StrCat(attempt, " ", chunk, " ", step,
                                              " ", sample_count, "\n"));
}

void RecordSamplesInLedger(int64_t step, int micro_batch, int64_t samples,
                           absl::string_view inputs) {
  std::string line = absl::StrCat(step, " ", micro_batch);
  const size_t bytes =
      samples > 0 ? inputs.size() / static_cast<size_t>(samples) : 0;
  for (int64_t sample = 0; sample < samples; ++sample) {
    absl::StrAppend(&line, " ", Fnv1a(inputs.substr(sample * bytes, bytes)));
  }
  AppendLine("TRIBUTARY_SAMPLE_LEDGER", line + "\n");
}

}  // namespace tributary
