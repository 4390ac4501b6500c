#include "deploy/launch/job/run_report.h"

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "common/text/counted.h"
#include "deploy/launch/job/progress_display.h"

namespace tributary {
namespace {

using Json = nlohmann::ordered_json;

void AppendLine(absl::string_view label, absl::string_view value,
                std::string* report) {
  absl::StrAppendFormat(report, "%-12s %s\n", label, value);
}

// Returns the number at `key`, or `otherwise` if it is missing or null, as JSON
// represents NaN.
double Number(const Json& object, const char* key, double otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>()
                                                     : otherwise;
}

std::string Evaluation(const Json& evaluation) {
  std::string text =
      absl::StrFormat("loss %.4f", Number(evaluation, "loss", 0));
  if (evaluation.contains("accuracy")) {
    absl::StrAppendFormat(&text, ", accuracy %.2f %%",
                          100 * Number(evaluation, "accuracy", 0));
  }
  if (evaluation.contains("auc")) {
    absl::StrAppendFormat(&text, ", AUC %.4f", Number(evaluation, "auc", 0));
  }
  if (evaluation.contains("perplexity")) {
    absl::StrAppendFormat(&text, ", perplexity %.3f",
                          Number(evaluation, "perplexity", 0));
  }
  return text;
}

}  // namespace

std::string FormatRunReport(const Json& json, const std::string& directory) {
  std::string report;
  if (json.contains("final_loss")) {
    AppendLine("final loss",
               absl::StrFormat("%.4f", Number(json, "final_loss", NAN)),
               &report);
  }
  const auto evaluation = json.find("evaluation");
  if (evaluation != json.end() && evaluation->is_object()) {
    AppendLine("evaluation", Evaluation(*evaluation), &report);
  }
  const auto reason = json.find("stop_reason");
  if (reason != json.end() && reason->is_string()) {
    AppendLine("stopped",
               absl::StrCat("after step ",
                            static_cast<int64_t>(Number(json, "steps", 0)),
                            ": ", reason->get<std::string>()),
               &report);
  }
  const auto best = json.find("best");
  if (best != json.end() && best->is_object()) {
    AppendLine(
        "best",
        absl::StrCat("step ", static_cast<int64_t>(Number(*best, "step", 0)),
                     ", ", directory, "/best"),
        &report);
  }
  if (json.contains("seconds")) {
    std::string text = absl::StrCat(
        FormatSeconds(Number(json, "seconds", 0)), " for ",
        Counted(static_cast<int64_t>(Number(json, "steps", 0)), "step"));
    const auto unit = json.find("unit");
    if (unit != json.end() && unit->is_string()) {
      absl::StrAppend(&text, ", ",
                      FormatCount(Number(json, "samples_per_second", 0)), " ",
                      unit->get<std::string>(), "/s");
    }
    AppendLine("time", text, &report);
  }
  const auto failures =
      static_cast<int64_t>(Number(json, "checkpoint_failures", 0));
  if (failures > 0) {
    AppendLine(
        "checkpoints",
        absl::StrCat(Counted(failures, "checkpoint"), " could not be saved: ",
                     json.value("checkpoint_failure", "see the log")),
        &report);
  }
  AppendLine("model", absl::StrCat(directory, "/final/model.safetensors"),
             &report);
  const auto digest = json.find("weights_sha256");
  if (digest != json.end() && digest->is_string()) {
    AppendLine("weights", absl::StrCat("sha256 ", digest->get<std::string>()),
               &report);
  }
  return report;
}

StatusReply FinalStatus(const Json& json, StatusReply newest) {
  const auto steps = static_cast<int64_t>(Number(json, "steps", 0));
  if (newest.step() != steps) {
    // These values belong to an earlier step.
    newest.clear_learning_rate();
    newest.clear_gradient_norm();
  }
  newest.set_phase(StatusReply::DONE);
  newest.set_step(steps);
  newest.set_steps(steps);
  newest.clear_loss();
  if (json.contains("final_loss")) {
    newest.set_loss(Number(json, "final_loss", NAN));
  }
  const auto evaluation = json.find("evaluation");
  if (evaluation != json.end() && evaluation->is_object()) {
    newest.set_evaluation_version(steps);
    newest.set_evaluation_loss(Number(*evaluation, "loss", NAN));
    newest.set_evaluation_accuracy(Number(*evaluation, "accuracy", 0));
  }
  return newest;
}

}  // namespace tributary
