#include "deploy/launch/job/progress_display.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "common/text/counted.h"
#include "common/text/escape.h"

namespace tributary {
namespace {

constexpr int kDefaultWidth = 80;
// The progress line names a straggler if waiting takes at least this share of a
// step's time.
constexpr double kWaitingShare = 0.05;

// A part of the line. When the line is too narrow, parts with a higher number
// are omitted first.
struct Field {
  int dispensable = 0;
  std::string text;
};

std::string FormatLoss(double loss) {
  return std::isfinite(loss) ? absl::StrFormat("%.4f", loss)
                             : absl::StrFormat("%f", loss);
}

int Percent(double share) {
  return static_cast<int>(std::lround(
      100 * std::min(1.0, std::max(0.0, std::isfinite(share) ? share : 0))));
}

std::string StepText(const StatusReply& status, bool with_percent) {
  std::string text = absl::StrCat("step ", status.step(), "/", status.steps());
  if (with_percent && status.steps() > 0) {
    // Rounded down, so that 100% means that the job is complete.
    absl::StrAppend(&text, " ", 100 * status.step() / status.steps(), "%");
  }
  return text;
}

std::string EvaluationText(const StatusReply& status) {
  const auto auc = status.evaluation_metric().find("auc");
  if (auc != status.evaluation_metric().end()) {
    return absl::StrFormat("auc %.4f", auc->second);
  }
  if (status.evaluation_accuracy() > 0 && status.unit() != "tokens") {
    return absl::StrFormat("acc %.2f%%", 100 * status.evaluation_accuracy());
  }
  return absl::StrCat("eval ", FormatLoss(status.evaluation_loss()));
}

std::string WaitingText(const StatusReply& status) {
  return absl::StrCat("waiting: ", Counted(status.servers(), "server"), ", ",
                      Counted(status.workers(), "worker"), " joined");
}

// Returns "31 ms", "1.2 ms", "12 s".
std::string FormatMilliseconds(double milliseconds) {
  if (milliseconds >= 9999.5) {
    return absl::StrFormat("%.0f s", milliseconds / 1000);
  }
  return absl::StrFormat(milliseconds >= 9.95 ? "%.0f ms" : "%.1f ms",
                         milliseconds);
}

bool NamesStraggler(const StatusReply& status) {
  return status.phase() == StatusReply::TRAINING &&
         status.waiting_milliseconds() >
             kWaitingShare * status.step_milliseconds();
}

std::string StragglerText(const StatusReply& status) {
  std::string text = absl::StrCat(
      "waiting ", FormatMilliseconds(status.waiting_milliseconds()),
      " for worker ", status.waiting_rank());
  if (!status.waiting_phase().empty()) {
    absl::StrAppend(&text, ": ", status.waiting_phase());
  }
  return text;
}

std::vector<Field> Fields(const StatusReply& status) {
  std::vector<Field> fields;
  fields.push_back({0, StepText(status, /*with_percent=*/true)});
  if (status.phase() == StatusReply::EVALUATING) {
    fields.push_back({2, "evaluating"});
  } else if (status.phase() == StatusReply::FINISHING) {
    fields.push_back({2, "writing the model"});
  }
  // Absent until the first metrics are available, and if nobody reports it.
  if (status.has_loss()) {
    fields.push_back({0, absl::StrCat("loss ", FormatLoss(status.loss()))});
  }
  if (status.evaluation_version() >= 0 && status.evaluation_loss() != 0) {
    fields.push_back({3, EvaluationText(status)});
  }
  if (status.learning_rate() > 0) {
    fields.push_back({6, absl::StrFormat("lr %.1e", status.learning_rate())});
  }
  if (status.gradient_norm() > 0) {
    fields.push_back({7, absl::StrFormat("norm %.2f", status.gradient_norm())});
  }
  if (status.samples_per_second() > 0) {
    fields.push_back({4, absl::StrCat(FormatCount(status.samples_per_second()),
                                      " ", status.unit(), "/s")});
  }
  if (status.step_milliseconds() > 0) {
    fields.push_back(
        {5, absl::StrFormat("%.1f ms", status.step_milliseconds())});
    const int compute = Percent(status.compute_share());
    const int exchange = Percent(status.exchange_share());
    // Both are 0 if no worker has reported its times.
    if (compute + exchange > 0) {
      fields.push_back({8, absl::StrFormat("compute %d%% exchange %d%%",
                                           compute, exchange)});
    }
  }
  if (NamesStraggler(status)) fields.push_back({1, StragglerText(status)});
  if (status.phase() == StatusReply::TRAINING && status.seconds_left() > 0) {
    fields.push_back(
        {2, absl::StrCat("ETA ", FormatSeconds(status.seconds_left()))});
  }
  return fields;
}

std::string JoinFields(const std::vector<Field>& fields) {
  std::string line;
  for (const Field& field : fields) {
    // The shares are parts of the milliseconds, so the line shows them
    // together.
    if (field.dispensable == 8) {
      absl::StrAppend(&line, " (", field.text, ")");
    } else {
      absl::StrAppend(&line, line.empty() ? "" : " | ", field.text);
    }
  }
  return line;
}

std::string JsonTime(absl::Time now) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", now, absl::UTCTimeZone());
}

std::string FormatMessageJson(absl::string_view text, absl::Time now) {
  nlohmann::ordered_json json;
  json["ts"] = JsonTime(now);
  json["level"] = absl::ConsumePrefix(&text, "warning: ") ? "warning" : "info";
  json["msg"] = std::string(text);
  return json.dump(-1, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

int TerminalWidth(int fd) {
  winsize size = {};
  if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return kDefaultWidth;
  }
  return size.ws_col;
}

}  // namespace

std::string FormatCount(double value) {
  if (!std::isfinite(value)) return "?";
  const char* const kUnits[] = {"", "k", "M", "G", "T"};
  int unit = 0;
  // Values from 999.5 would be printed as 1000.
  while (value >= 999.5 && unit < 4) {
    value /= 1000;
    ++unit;
  }
  const bool whole =
      value >= 99.95 || (unit == 0 && value == std::floor(value));
  return absl::StrFormat(whole ? "%.0f%s" : "%.1f%s", value, kUnits[unit]);
}

std::string FormatSeconds(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "?";
  const int64_t total = std::llround(std::min(seconds, 1e12));
  const int64_t hours = total / 3600;
  const int64_t minutes = total / 60 % 60;
  return hours > 0 ? absl::StrFormat("%d:%02d:%02d", hours, minutes, total % 60)
                   : absl::StrFormat("%d:%02d", minutes, total % 60);
}

std::string FormatProgress(const StatusReply& status, int width) {
  if (status.phase() == StatusReply::PHASE_UNSPECIFIED) return "starting";
  if (status.phase() == StatusReply::WAITING) {
    const std::string text = WaitingText(status);
    return width > 0 ? text.substr(0, width) : text;
  }
  std::vector<Field> fields = Fields(status);
  std::string line = JoinFields(fields);
  while (width > 0 && static_cast<int>(line.size()) > width) {
    const auto least = std::max_element(fields.begin(), fields.end(),
                                        [](const Field& a, const Field& b) {
                                          return a.dispensable < b.dispensable;
                                        });
    if (least->dispensable == 0) return line.substr(0, width);
    fields.erase(least);
    line = JoinFields(fields);
  }
  return line;
}

std::string FormatProgressJson(const StatusReply& status, absl::Time now) {
  nlohmann::ordered_json json;
  json["ts"] = JsonTime(now);
  json["level"] = "info";
  json["msg"] = "progress";
  json["phase"] = StatusReply::Phase_Name(status.phase());
  json["step"] = status.step();
  json["steps"] = status.steps();
  if (status.has_loss()) json["loss"] = status.loss();
  json["learning_rate"] = status.learning_rate();
  json["gradient_norm"] = status.gradient_norm();
  json["samples_per_second"] = status.samples_per_second();
  json["unit"] = status.unit();
  json["step_milliseconds"] = status.step_milliseconds();
  json["compute_share"] = status.compute_share();
  json["exchange_share"] = status.exchange_share();
  json["seconds_left"] = status.seconds_left();
  if (status.waiting_milliseconds() > 0) {
    json["waiting"] = {{"rank", status.waiting_rank()},
                       {"ms", status.waiting_milliseconds()},
                       {"phase", status.waiting_phase()}};
  }
  json["workers"] = status.workers();
  return json.dump();
}

ProgressStyle ChooseProgressStyle(bool quiet, bool json, bool is_terminal,
                                  const Environment& environment) {
  if (quiet) return ProgressStyle::kNone;
  if (json) return ProgressStyle::kJson;
  const bool dumb = environment("TERM").value_or("dumb") == "dumb";
  return is_terminal && !dumb ? ProgressStyle::kTerminal
                              : ProgressStyle::kLines;
}

ProgressDisplay::ProgressDisplay(int fd, ProgressStyle style,
                                 int64_t log_every_steps,
                                 absl::Duration interval)
    : fd_(fd),
      style_(style),
      log_every_steps_(std::max<int64_t>(1, log_every_steps)),
      interval_(interval) {}

ProgressDisplay::~ProgressDisplay() { Finish(); }

bool ProgressDisplay::LineIsDue(const StatusReply& status, absl::Time now) {
  const bool new_phase = status.phase() != last_phase_;
  const bool new_step =
      status.step() / log_every_steps_ != last_step_ / log_every_steps_;
  last_phase_ = status.phase();
  if (status.phase() == StatusReply::WAITING) return new_phase;
  if (status.step() == 0) return false;
  const bool done = status.phase() == StatusReply::DONE;
  if (status.step() == status.steps() && !done) return false;
  const bool evaluated = status.evaluation_version() > 0 &&
                         status.evaluation_version() != last_evaluation_;
  const bool due =
      done ? new_phase
           : evaluated || (new_step && now - last_time_ >= interval_);
  if (!due) return false;
  last_step_ = status.step();
  last_evaluation_ = status.evaluation_version();
  return true;
}

void ProgressDisplay::Update(const StatusReply& status, absl::Time now) {
  switch (style_) {
    case ProgressStyle::kNone:
      return;
    case ProgressStyle::kTerminal: {
      // Leaves the last column free, because some terminals wrap after writing
      // it.
      std::string line = FormatProgress(status, TerminalWidth(fd_) - 1);
      if (line == shown_) return;
      shown_ = std::move(line);
      Write(absl::StrCat("\r", shown_, "\x1b[K"));
      return;
    }
    case ProgressStyle::kLines:
    case ProgressStyle::kJson:
      if (!LineIsDue(status, now)) return;
      last_time_ = now;
      Write(absl::StrCat(style_ == ProgressStyle::kJson
                             ? FormatProgressJson(status, now)
                             : FormatProgress(status, 0),
                         "\n"));
      return;
  }
}

void ProgressDisplay::Message(absl::string_view text) {
  if (style_ == ProgressStyle::kJson) {
    Write(absl::StrCat(FormatMessageJson(text, absl::Now()), "\n"));
  } else if (shown_.empty()) {
    Write(absl::StrCat(text, "\n"));
  } else {
    Write(absl::StrCat("\r\x1b[K", text, "\n", shown_));
  }
}

void ProgressDisplay::ShowStages(const StatusReply& status) {
  if (style_ == ProgressStyle::kNone) return;
  for (const JobEvent& event : status.event()) {
    if (event.kind() != "stage" || event.id() <= last_stage_event_) continue;
    last_stage_event_ = event.id();
    // The text may come from a peer.
    Message(EscapeForTerminal(event.message()));
  }
}

void ProgressDisplay::Finish() {
  if (shown_.empty()) return;
  Write("\n");
  shown_.clear();
}

void ProgressDisplay::Write(absl::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(fd_, text.data(), text.size());
    // A failed write only hides progress, so the error is ignored.
    if (count <= 0) return;
    text.remove_prefix(count);
  }
}

}  // namespace tributary
