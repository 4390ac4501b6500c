#include "deploy/tools/runs/run_record.h"

#include <cmath>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "common/base/json.h"
#include "common/job/job.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

using Json = nlohmann::ordered_json;

// Lines at the end of metrics.jsonl in which the newest values are looked for.
constexpr int64_t kEndBytes = 64 << 10;
// The same if these contain no complete line, as with a thousand workers.
constexpr int64_t kLongEndBytes = 1 << 20;
// The first line of events.jsonl fits.
constexpr int64_t kEventBytes = 8192;

double NumberIn(const Json& object, const char* name) {
  if (!object.is_object()) return RunRecord::kAbsent;
  const auto found = object.find(name);
  return found == object.end() || !found->is_number() ? RunRecord::kAbsent
                                                      : found->get<double>();
}

absl::optional<int64_t> StepIn(const Json& object, const char* name) {
  const double value = NumberIn(object, name);
  if (!(value >= 0 && value < 1e18)) return absl::nullopt;
  return static_cast<int64_t>(value);
}

}  // namespace

nlohmann::ordered_json SummaryOf(const UntrustedFolder& folder) {
  const absl::StatusOr<std::string> text =
      folder.Read("summary.json", RunRecord::kMaxSummaryBytes);
  if (!text.ok()) return nullptr;
  Json json = ParseOrderedJson(*text);
  if (!json.is_object()) json = nullptr;
  return json;
}

bool RunRecord::HasChanged(const char* name, InputFile::Facts* known) const {
  const InputFile::Facts facts =
      folder_.Look(name).value_or(InputFile::Facts());
  if (facts == *known) return false;
  *known = facts;
  return true;
}

void RunRecord::Update() {
  if (HasChanged("summary.json", &summary_file_)) ReadSummary();
  if (HasChanged("metrics.jsonl", &metrics_file_)) ReadMetrics();
  if (HasChanged("job.textproto", &job_file_)) ReadJob();
  // The first event stays the same when others are added.
  const InputFile::Facts events =
      folder_.Look("events.jsonl").value_or(InputFile::Facts());
  if (events.inode != events_file_ || first_event_ == absl::InfinitePast()) {
    events_file_ = events.inode;
    ReadFirstEvent();
  }
}

void RunRecord::ReadSummary() {
  end_ = End();
  const Json summary = SummaryOf(folder_);
  if (!summary.is_object()) return;
  end_.status = StringMember(summary, "status");
  end_.failure = StringMember(summary, "failure");
  end_.unit = StringMember(summary, "unit");
  end_.seconds = NumberIn(summary, "seconds");
  end_.steps = StepIn(summary, "steps");
  end_.loss = NumberIn(summary, "final_loss");
  const auto evaluation = summary.find("evaluation");
  if (evaluation == summary.end()) return;
  end_.evaluation_loss = NumberIn(*evaluation, "loss");
  end_.evaluation_accuracy = NumberIn(*evaluation, "accuracy");
}

void RunRecord::ReadMetrics() {
  progress_ = Progress();
  for (const int64_t bytes : {kEndBytes, kLongEndBytes}) {
    const absl::StatusOr<std::string> text =
        folder_.ReadEnd("metrics.jsonl", bytes);
    if (!text.ok()) return;
    const std::vector<absl::string_view> lines = absl::StrSplit(*text, '\n');
    // The newest line about training, and the newest one about an evaluation.
    bool trained = false;
    bool evaluated = false;
    for (auto line = lines.rbegin();
         line != lines.rend() && !(trained && evaluated); ++line) {
      // Parsing the other lines would only take time.
      if (line->empty() ||
          (trained && !absl::StrContains(*line, "evaluation_loss"))) {
        continue;
      }
      // A crash may have cut the last line.
      const Json json = ParseOrderedJson(*line);
      const absl::optional<int64_t> step = StepIn(json, "step");
      if (!step.has_value()) continue;
      if (!progress_.step.has_value()) progress_.step = step;
      const double loss = NumberIn(json, "evaluation_loss");
      if (std::isnan(loss) ? trained : evaluated) continue;
      if (std::isnan(loss)) {
        trained = true;
        progress_.loss = NumberIn(json, "loss");
        progress_.seconds = NumberIn(json, "seconds");
      } else {
        evaluated = true;
        progress_.evaluation_loss = loss;
        progress_.evaluation_accuracy = NumberIn(json, "evaluation_accuracy");
      }
    }
    if (progress_.step.has_value()) return;
  }
}

void RunRecord::ReadJob() {
  job_ = Job();
  const absl::StatusOr<std::string> text =
      folder_.Read("job.textproto", kMaxJobBytes);
  job_.status = text.status();
  if (!text.ok()) return;
  const absl::StatusOr<JobSpec> job =
      ParseJob(*text, folder_.PathOf("job.textproto"));
  job_.status = job.status();
  if (!job.ok()) return;
  job_.model = ModelTitle(*job);
  job_.steps = job->steps();
  job_.fields = FieldsOf(*job);
}

void RunRecord::ReadFirstEvent() {
  first_event_ = absl::InfinitePast();
  const absl::StatusOr<InputFile> file = folder_.Open("events.jsonl");
  if (!file.ok()) return;
  const std::string text = file->Read(0, kEventBytes);
  const double time =
      NumberIn(ParseOrderedJson(text.substr(0, text.find('\n'))), "time");
  if (time > 0 && time < 1e12) {
    first_event_ = absl::UnixEpoch() + absl::Seconds(time);
  }
}

}  // namespace tributary
