#include "deploy/tools/runs/run_end.h"

#include "absl/strings/str_cat.h"
#include "common/text/escape.h"
#include "deploy/launch/job/run_report.h"
#include "deploy/tools/runs/run_entry.h"
#include "nlohmann/json.hpp"
#include "proto/rendezvous.pb.h"

namespace tributary {
namespace {

StatusReply::Phase PhaseOf(const std::string& status) {
  if (status == "done") return StatusReply::DONE;
  return status == "stopped" ? StatusReply::DRAINED : StatusReply::FAILED;
}

std::string Resume(const RunRecord& record) {
  return absl::StrCat("`tributary train --resume ", record.folder().path(),
                      "` continues it");
}

}  // namespace

std::string FormatEnd(const RunRecord& record) {
  const RunRecord::End& end = record.end();
  const std::string step = absl::StrCat("step ", end.steps.value_or(0));
  switch (PhaseOf(end.status)) {
    case StatusReply::DONE:
      break;
    case StatusReply::DRAINED:
      return EscapeForTerminal(absl::StrCat("the job was stopped after ", step,
                                            "; ", Resume(record), "\n"));
    default:
      return EscapeForTerminal(absl::StrCat("the job has failed after ", step,
                                            ": ", end.failure, "\n"));
  }
  const nlohmann::ordered_json summary = SummaryOf(record.folder());
  return EscapeForTerminal(absl::StrCat(
      "the job is done: ", step, "\n",
      summary.is_null() ? ""
                        : FormatRunReport(summary, record.folder().path())));
}

nlohmann::ordered_json EndJson(const RunRecord& record) {
  nlohmann::ordered_json json = {
      {"phase", StatusReply::Phase_Name(PhaseOf(record.end().status))}};
  json.update(EntryJson(EntryOf(record)));
  json["summary"] = SummaryOf(record.folder());
  return json;
}

absl::Status CheckEnd(const RunRecord& record) {
  if (PhaseOf(record.end().status) != StatusReply::FAILED) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the job has failed: ", record.end().failure));
}

absl::Status WithoutEnd(const RunRecord& record, const absl::Status& reason) {
  if (!record.progress().step.has_value()) return reason;
  return absl::FailedPreconditionError(
      absl::StrCat(record.folder().path(),
                   " has neither a server nor a summary: its job was "
                   "interrupted after step ",
                   *record.progress().step, " (", Resume(record),
                   "), or runs where server 0 does not share this folder"));
}

}  // namespace tributary
