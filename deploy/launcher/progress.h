// What the person who started a job sees of it while it runs.
#ifndef TRIBUTARY_DEPLOY_LAUNCHER_PROGRESS_H_
#define TRIBUTARY_DEPLOY_LAUNCHER_PROGRESS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "deploy/flags/environment.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// "950", "12.3k", "4.5M".
std::string FormatCount(double value);
// "0:38", "12:05", "1:02:03".
std::string FormatSeconds(double seconds);

// One line, without its end:
//   step 1200/6000 20% | loss 1.2345 | lr 3.0e-04 | norm 1.10 |
//   12.3k tokens/s | 8.1 ms (compute 82% exchange 11%) |
//   waiting 1.2 ms for worker 3: backward | ETA 0:38
// at most `width` columns wide (0: as wide as it gets). What does not fit is
// left out, the least wanted first.
std::string FormatProgress(const StatusReply& status, int width);

// The same as one JSON object, for --log-format json.
std::string FormatProgressJson(const StatusReply& status, absl::Time now);

enum class ProgressStyle {
  // One line, overwritten in place.
  kTerminal,
  // A new line every few steps.
  kLines,
  // The same as JSON objects.
  kJson,
  kNone,
};

// Terminal style needs a terminal that can overwrite a line: not TERM=dumb.
// NO_COLOR does not matter, because no style uses colors.
ProgressStyle ChooseProgressStyle(bool quiet, bool json, bool is_terminal,
                                  const Environment& environment);

// Writes progress and messages to one file descriptor, and keeps them from
// running into each other. Not thread-safe.
class ProgressDisplay {
 public:
  // `log_every_steps`: for lines. Neither does a line come within a second of
  // the one before it.
  ProgressDisplay(int fd, ProgressStyle style, int64_t log_every_steps);
  // Ends the line that it overwrites.
  ~ProgressDisplay();
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  void Update(const StatusReply& status, absl::Time now);
  // A line of its own, also with kNone. With kJson an object, whose level is
  // "warning" in place of a prefix "warning: ".
  void Message(absl::string_view text);
  // Leaves the last progress on the screen and goes to the next line.
  void Finish();

 private:
  bool LineIsDue(const StatusReply& status, absl::Time now);
  void Write(absl::string_view text);

  const int fd_;
  const ProgressStyle style_;
  const int64_t log_every_steps_;
  std::string shown_;  // On the terminal's current line.
  int64_t last_step_ = -1;
  StatusReply::Phase last_phase_ = StatusReply::PHASE_UNSPECIFIED;
  absl::Time last_time_ = absl::InfinitePast();
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCHER_PROGRESS_H_
