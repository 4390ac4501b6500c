#include "deploy/tools/runs/run_entry.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "nlohmann/json.hpp"
#include "proto/rendezvous.pb.h"

namespace tributary {
namespace {

// Returns the first of two numbers that is known.
double Known(double first, double second) {
  return std::isnan(first) ? second : first;
}

nlohmann::ordered_json NumberOrNull(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value)
                              : nlohmann::ordered_json(nullptr);
}

}  // namespace

RunEntry EntryOf(const RunRecord& record) {
  const RunRecord::End& end = record.end();
  const RunRecord::Progress& progress = record.progress();
  RunEntry entry;
  entry.path = record.folder().path();
  entry.name = entry.path.substr(entry.path.rfind('/') + 1);
  entry.began = record.began();
  entry.fields = record.job().fields;
  entry.model = record.job().model;
  entry.state = end.status.empty() ? kNoAnswer : end.status;
  entry.unit = end.unit;
  entry.steps = record.job().steps;
  entry.step = end.steps.value_or(progress.step.value_or(0));
  entry.loss = Known(end.loss, progress.loss);
  entry.evaluation_loss = Known(end.evaluation_loss, progress.evaluation_loss);
  entry.evaluation_accuracy = std::isnan(end.evaluation_loss)
                                  ? progress.evaluation_accuracy
                                  : end.evaluation_accuracy;
  entry.seconds = Known(end.seconds, progress.seconds);
  return entry;
}

RunEntry EntryOf(const RunWatch& run) {
  RunEntry entry = EntryOf(run.record());
  entry.problem = run.problem();
  entry.live = run.live();
  if (!entry.live) return entry;
  const StatusReply status = run.poller()->latest();
  const RunRecord::Progress& progress = run.record().progress();
  entry.state = absl::AsciiStrToLower(StatusReply::Phase_Name(status.phase()));
  entry.step = status.step();
  entry.steps = status.steps();
  entry.unit = status.unit();
  if (!status.model().empty()) entry.model = status.model();
  entry.loss = status.has_loss() ? status.loss() : RunRecord::kAbsent;
  // An earlier end of the run, before it was resumed, does not count.
  entry.evaluation_loss = progress.evaluation_loss;
  entry.evaluation_accuracy = progress.evaluation_accuracy;
  entry.seconds = status.seconds();
  return entry;
}

nlohmann::ordered_json EntryJson(const RunEntry& entry) {
  nlohmann::ordered_json json = {
      {"name", entry.name}, {"path", entry.path},   {"problem", entry.problem},
      {"live", entry.live}, {"state", entry.state}, {"step", entry.step},
      {"steps", nullptr},   {"unit", entry.unit},   {"model", entry.model}};
  if (entry.steps > 0) json["steps"] = entry.steps;
  json["loss"] = NumberOrNull(entry.loss);
  json["evaluation_loss"] = NumberOrNull(entry.evaluation_loss);
  json["evaluation_accuracy"] = NumberOrNull(entry.evaluation_accuracy);
  json["seconds"] = NumberOrNull(entry.seconds);
  json["began"] =
      entry.began == absl::InfinitePast()
          ? nlohmann::ordered_json(nullptr)
          : nlohmann::ordered_json(absl::ToUnixSeconds(entry.began));
  return json;
}

bool ComesFirst(const RunEntry& a, const RunEntry& b) {
  if (a.live != b.live) return a.live;
  return a.began > b.began;
}

}  // namespace tributary
