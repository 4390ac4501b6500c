// Shows the progress of a running job.
#ifndef TRIBUTARY_DEPLOY_LAUNCH_JOB_PROGRESS_DISPLAY_H_
#define TRIBUTARY_DEPLOY_LAUNCH_JOB_PROGRESS_DISPLAY_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "deploy/flags/environment.h"
#include "proto/rendezvous.pb.h"

namespace tributary {

// Formats a count for the progress line: "950", "12.3k" or "4.5M".
std::string FormatCount(double value);
// Formats a duration as minutes and seconds, with hours if needed: "0:38",
// "12:05" or "1:02:03".
std::string FormatSeconds(double seconds);

// Returns the progress of a job as one line of at most `width` columns
// (unlimited if 0), without a line end. Omits the least important parts of a
// line that does not fit. Example of a complete line:
//   step 1200/6000 20% | loss 1.2345 | lr 3.0e-04 | norm 1.10 |
//   12.3k tokens/s | 8.1 ms (compute 82% exchange 11%) |
//   waiting 1.2 ms for worker 3: backward | ETA 0:38
std::string FormatProgress(const StatusReply& status, int width);

// Returns the phase, the step and the metrics of `status` as one JSON object
// without a line end, for --log-format json.
std::string FormatProgressJson(const StatusReply& status, absl::Time now);

enum class ProgressStyle {
  // One progress line that is overwritten in place.
  kTerminal,
  // A new progress line every few steps; see ProgressDisplay.
  kLines,
  // Like kLines, but each line is a JSON object.
  kJson,
  kNone,
};

// Returns the style in which to show progress: kNone if `quiet` is true,
// otherwise kJson if `json` is true. Otherwise returns kTerminal for a terminal
// that can overwrite a line, which TERM=dumb cannot, and kLines for all other
// outputs. NO_COLOR has no effect, because no style uses colors.
ProgressStyle ChooseProgressStyle(bool quiet, bool json, bool is_terminal,
                                  const Environment& environment);

// Writes progress and messages to one file descriptor without mixing them. Not
// thread-safe.
class ProgressDisplay {
 public:
  // With kLines and kJson, writes at most one progress line per
  // `log_every_steps` steps and per `interval`. Always writes the line after an
  // evaluation. Writes the line of the last step when the phase is DONE,
  // because its values are final only then.
  ProgressDisplay(int fd, ProgressStyle style, int64_t log_every_steps,
                  absl::Duration interval = absl::Seconds(1));
  // Ends the progress line that this object overwrites in place.
  ~ProgressDisplay();
  ProgressDisplay(const ProgressDisplay&) = delete;
  ProgressDisplay& operator=(const ProgressDisplay&) = delete;

  // Shows the progress in the style of this object. Does nothing with kNone.
  void Update(const StatusReply& status, absl::Time now);
  // Writes a message on a line of its own, also with kNone. With kJson the
  // message is written as a JSON object, and a prefix "warning: " becomes the
  // level "warning".
  void Message(absl::string_view text);
  // Writes one line for each event of kind `stage` in `status` that it has not
  // written yet. Writes nothing with kNone.
  void ShowStages(const StatusReply& status);
  // Leaves the current progress line on the screen and moves to a new line.
  // Does nothing if no progress line is shown.
  void Finish();

 private:
  bool LineIsDue(const StatusReply& status, absl::Time now);
  void Write(absl::string_view text);

  const int fd_;
  const ProgressStyle style_;
  const int64_t log_every_steps_;
  const absl::Duration interval_;
  std::string shown_;  // The text on the terminal's current line.
  int64_t last_step_ = 0;
  int64_t last_evaluation_ = 0;
  int64_t last_stage_event_ = 0;
  StatusReply::Phase last_phase_ = StatusReply::PHASE_UNSPECIFIED;
  absl::Time last_time_ = absl::InfinitePast();
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_LAUNCH_JOB_PROGRESS_DISPLAY_H_
