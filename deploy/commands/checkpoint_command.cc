#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/os/file.h"
#include "common/os/file_system.h"
#include "common/text/counted.h"
#include "common/text/nearest.h"
#include "deploy/commands/subcommands.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/exit_code.h"
#include "server/checkpoint/checkpoint_diff.h"
#include "server/checkpoint/checkpoint_folder.h"
#include "server/checkpoint/final_folder.h"
#include "server/checkpoint/manifest.h"
#include "server/checkpoint/shard_files.h"

namespace tributary {
namespace {

constexpr char kCheckpointHelp[] =
    "Lists, verifies and compares the checkpoints of a run.\n\n"
    "Examples:\n"
    "  tributary checkpoint ls runs/licenses-20240501-120000\n"
    "      List them with step, time, size, and whether they are complete.\n"
    "  tributary checkpoint verify runs/licenses-20240501-120000\n"
    "      Read all files and compare them with their digests.\n"
    "  tributary checkpoint diff runs/a runs/b\n"
    "      Compare their latest checkpoints, and list the tensors that "
    "differ.\n"
    "\n"
    "Usage: tributary checkpoint ls RUN [flags]\n"
    "       tributary checkpoint verify RUN|CHECKPOINT [flags]\n"
    "       tributary checkpoint diff A B [flags]\n\n"
    "'tributary checkpoint ls --help' lists the flags of ls.\n";

// Returns the checkpoints at `path`, oldest first. `path` is a run's folder,
// the folder with its checkpoints, or one checkpoint.
absl::StatusOr<std::vector<std::string>> FindCheckpoints(
    const std::string& path) {
  if (!IsFolder(path)) {
    return absl::NotFoundError(absl::StrCat(
        path, PathExists(path) ? " is not a folder" : " is missing"));
  }
  const std::string within = CheckpointsFolder(path);
  const std::string folder = IsFolder(within) ? within : path;
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<CheckpointName> names,
                             ListCheckpoints(folder));
  std::vector<std::string> paths;
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    paths.push_back(name->path);
  }
  const bool is_one = PathExists(absl::StrCat(path, "/", kManifestName));
  if (paths.empty() && is_one) paths.push_back(path);
  if (paths.empty()) {
    return absl::NotFoundError(
        absl::StrCat(folder, " is not a checkpoint and contains none"));
  }
  return paths;
}

// Returns the folders that `verify` reads: the results of FindCheckpoints and,
// if `path` is a run's folder, those of the best and the final weights.
absl::StatusOr<std::vector<std::string>> FindVerifiable(
    const std::string& path) {
  std::vector<std::string> more;
  const std::string best = BestFolder(path), model = FinalFolder(path);
  if (PathExists(absl::StrCat(best, "/", kManifestName))) more.push_back(best);
  if (PathExists(absl::StrCat(model, "/", kFinalModelName))) {
    more.push_back(model);
  }
  absl::StatusOr<std::vector<std::string>> paths = FindCheckpoints(path);
  if (absl::IsNotFound(paths.status()) && !more.empty()) return more;
  if (paths.ok()) paths->insert(paths->end(), more.begin(), more.end());
  return paths;
}

// Returns `path` if it is a checkpoint, otherwise the latest checkpoint of the
// run at `path`.
absl::StatusOr<std::string> FindCheckpoint(const std::string& path) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                             FindCheckpoints(path));
  return paths.back();
}

// Returns the kind of the model of the run at `path`, or an empty string if
// there is no job file there.
std::string ModelOf(const std::string& path) {
  const absl::StatusOr<JobSpec> job = LoadJob(path + "/job.textproto");
  return job.ok() ? ModelTitle(*job) : "";
}

// The description of one checkpoint in `checkpoint ls`.
struct Summary {
  std::string path;
  absl::Time time;
  int64_t step = 0;
  int64_t bytes = 0;
  int servers = 0;
  absl::Status whole;  // OK if all files have the sizes in the manifest.
};

absl::Status CheckSizes(const std::string& folder,
                        const CheckpointManifest& manifest) {
  for (const CheckpointFile& file : manifest.file()) {
    const std::string path = absl::StrCat(folder, "/", file.name());
    struct stat facts;
    if (stat(path.c_str(), &facts) != 0) {
      return absl::DataLossError(absl::StrCat(path, ": is missing"));
    }
    if (facts.st_size != file.bytes()) {
      return absl::DataLossError(absl::StrCat(
          path, ": has ", facts.st_size, " bytes, expected ", file.bytes()));
    }
  }
  return absl::OkStatus();
}

Summary Summarize(const std::string& path) {
  Summary summary;
  summary.path = path;
  struct stat facts;
  if (stat(path.c_str(), &facts) == 0) {
    summary.time = absl::TimeFromTimespec(facts.st_mtim);
  }
  const absl::StatusOr<CheckpointManifest> manifest = ReadManifest(path);
  if (!manifest.ok()) {
    summary.whole = manifest.status();
    return summary;
  }
  summary.step = manifest->step();
  summary.servers = manifest->servers();
  for (const CheckpointFile& file : manifest->file()) {
    summary.bytes += file.bytes();
  }
  summary.whole = CheckSizes(path, *manifest);
  return summary;
}

nlohmann::ordered_json ToJson(const Summary& summary) {
  nlohmann::ordered_json json = {
      {"path", summary.path},
      {"time",
       absl::FormatTime(absl::RFC3339_sec, summary.time, absl::UTCTimeZone())},
      {"whole", summary.whole.ok()}};
  if (summary.servers > 0) {
    json["step"] = summary.step;
    json["servers"] = summary.servers;
    json["bytes"] = summary.bytes;
  }
  if (!summary.whole.ok()) {
    json["damage"] = std::string(summary.whole.message());
  }
  return json;
}

void PrintJson(const nlohmann::ordered_json& json) {
  // Paths may contain bytes that are not valid UTF-8.
  std::printf("%s\n", json.dump(-1, ' ', false,
                                nlohmann::json::error_handler_t::replace)
                          .c_str());
}

std::string NameOf(const std::string& path) {
  const size_t end = path.find_last_not_of('/');
  return path.substr(0, end + 1).substr(path.rfind('/', end) + 1);
}

void PrintTable(const std::vector<Summary>& summaries) {
  std::printf("%10s  %-19s  %10s  %7s  %s\n", "step", "time", "MB", "servers",
              "");
  for (const Summary& summary : summaries) {
    const bool known = summary.servers > 0;
    absl::PrintF("%10s  %-19s  %10s  %7s  %s\n",
                 known ? absl::StrCat(summary.step) : NameOf(summary.path),
                 absl::FormatTime("%Y-%m-%d %H:%M:%S", summary.time,
                                  absl::LocalTimeZone()),
                 known ? absl::StrFormat(
                             "%.1f", 1e-6 * static_cast<double>(summary.bytes))
                       : "?",
                 known ? absl::StrCat(summary.servers) : "?",
                 summary.whole.ok()
                     ? "whole"
                     : absl::StrCat("damaged: ", summary.whole.message()));
  }
}

int RunListing(const std::vector<std::string>& arguments,
               const Environment& environment) {
  std::string path;
  bool json = false;
  CommandLine line(
      "checkpoint ls", "RUN",
      "Lists the checkpoints in a run's folder, oldest first. Checks names and "
      "sizes only; 'tributary checkpoint verify' reads the contents.",
      {{"checkpoint ls runs/licenses-20240501-120000", "Print a table."},
       {"checkpoint ls RUN --json", "Print JSON for scripts."}});
  line.SetOperand(/*required=*/true, &path);
  line.AddSwitch("json", "Print one JSON object.", &json);
  if (const auto code = line.ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  const absl::StatusOr<std::vector<std::string>> paths = FindCheckpoints(path);
  if (!paths.ok()) return ReportError(paths.status());
  std::vector<Summary> summaries;
  for (const std::string& one : *paths) summaries.push_back(Summarize(one));
  const std::string model = ModelOf(path);
  if (!json) {
    if (!model.empty()) std::printf("model: %s\n", model.c_str());
    PrintTable(summaries);
    return kExitDone;
  }
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Summary& summary : summaries) list.push_back(ToJson(summary));
  nlohmann::ordered_json result;
  if (!model.empty()) result["model"] = model;
  result["checkpoints"] = std::move(list);
  PrintJson(result);
  return kExitDone;
}

int RunVerify(const std::vector<std::string>& arguments,
              const Environment& environment) {
  std::string path;
  bool json = false;
  CommandLine line(
      "checkpoint verify", "RUN|CHECKPOINT",
      "Reads one checkpoint, or all checkpoints and the final model in a run's "
      "folder, and compares them with the digests taken when they were "
      "written. "
      "Exits with 1 if one is damaged, and names the file and the position.",
      {{"checkpoint verify runs/licenses-20240501-120000",
        "Verify all of them."},
       {"checkpoint verify RUN/checkpoints/step-00000100",
        "Verify one of them."}});
  line.SetOperand(/*required=*/true, &path);
  line.AddSwitch("json", "Print one JSON object.", &json);
  if (const auto code = line.ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  const absl::StatusOr<std::vector<std::string>> paths = FindVerifiable(path);
  if (!paths.ok()) return ReportError(paths.status());
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  size_t damaged = 0;
  for (const std::string& one : *paths) {
    Summary summary = Summarize(one);
    summary.whole = one == FinalFolder(path) ? VerifyFinalFolder(one)
                                             : VerifyCheckpoint(one);
    if (!summary.whole.ok()) ++damaged;
    if (json) {
      list.push_back(ToJson(summary));
    } else if (summary.whole.ok()) {
      absl::PrintF("%s: whole, %.1f MB\n", one,
                   1e-6 * static_cast<double>(summary.bytes));
    } else {
      absl::PrintF("%s: damaged: %s\n", one, summary.whole.message());
    }
    std::fflush(stdout);
  }
  if (json) PrintJson({{"checkpoints", std::move(list)}});
  if (damaged == 0) return kExitDone;
  return ReportError(absl::DataLossError(absl::StrCat(
      damaged, " of ",
      Counted(paths->size(), "checkpoint is", "checkpoints are"), " damaged")));
}

nlohmann::ordered_json ToJson(const CheckpointDiff& diff) {
  nlohmann::ordered_json tensors = nlohmann::ordered_json::array();
  for (const TensorDiff& tensor : diff.tensors) {
    // JSON has no NaN: it becomes null.
    tensors.push_back({{"name", tensor.name},
                       {"elements", tensor.elements},
                       {"differing", tensor.differing},
                       {"largest_difference", tensor.largest_difference}});
  }
  nlohmann::ordered_json tables = nlohmann::ordered_json::array();
  for (const TableDiff& table : diff.tables) {
    tables.push_back({{"name", table.name},
                      {"rows", table.rows},
                      {"only_in_a", table.only_in_a},
                      {"only_in_b", table.only_in_b},
                      {"differing", table.differing}});
  }
  return {{"equal", diff.equal()},       {"step_a", diff.step_a},
          {"step_b", diff.step_b},       {"only_in_a", diff.only_in_a},
          {"only_in_b", diff.only_in_b}, {"tensors", std::move(tensors)},
          {"tables", std::move(tables)}};
}

// Prints nothing if `state` is empty.
void PrintMissing(const std::vector<std::string>& state, const char* where) {
  if (state.empty()) return;
  absl::PrintF("state in %s only: %s\n", where, absl::StrJoin(state, ", "));
}

void PrintDiff(const CheckpointDiff& diff) {
  size_t width = 6;
  int64_t differing = 0;
  for (const TensorDiff& tensor : diff.tensors) {
    width = std::max(width, tensor.name.size());
    differing += tensor.differing > 0;
  }
  const int column = static_cast<int>(width);
  absl::PrintF("%-*s  %12s  %12s  %s\n", column, "tensor", "elements",
               "differing", "largest difference");
  for (const TensorDiff& tensor : diff.tensors) {
    if (tensor.differing == 0) {
      absl::PrintF("%-*s  %12d  %12s\n", column, tensor.name, tensor.elements,
                   "equal");
    } else {
      absl::PrintF("%-*s  %12d  %12d  %g\n", column, tensor.name,
                   tensor.elements, tensor.differing,
                   tensor.largest_difference);
    }
  }
  for (const TableDiff& table : diff.tables) {
    if (table.equal()) {
      absl::PrintF("table %s: %d rows, equal\n", table.name, table.rows);
    } else {
      absl::PrintF(
          "table %s: %d rows, of which %d differ, %d are in the first only, "
          "and "
          "%d in the second\n",
          table.name, table.rows, table.differing, table.only_in_a,
          table.only_in_b);
    }
  }
  if (diff.step_a != diff.step_b) {
    absl::PrintF("steps %d and %d\n", diff.step_a, diff.step_b);
  }
  if (diff.equal()) {
    absl::PrintF("all bits are equal\n");
    return;
  }
  absl::PrintF("tensors that differ: %d of %d\n", differing,
               diff.tensors.size());
  PrintMissing(diff.only_in_a, "the first");
  PrintMissing(diff.only_in_b, "the second");
}

// Returns 2 for all errors, including damage. As with `diff` and `cmp`, 1 means
// that the inputs differ.
int ReportTrouble(const absl::Status& status) {
  return ReportError(status, kExitUsage);
}

int RunDiff(const std::vector<std::string>& arguments,
            const Environment& environment) {
  std::string a, b;
  bool json = false;
  CommandLine line(
      "checkpoint diff", "A B",
      "Compares the weights, the optimizer state and the rows of tables of two "
      "checkpoints of the same model, regardless of the numbers of servers and "
      "chunks. A and B "
      "are checkpoints, or runs, for their latest checkpoints. The folders "
      "`best` and `final` of a run count as checkpoints; `final` has no "
      "optimizer state of the weights. Exits with 0 if "
      "all bits are equal, with 1 if some differ or if only one has some "
      "state, and with 2 if they cannot be compared. The step numbers are not "
      "compared.",
      {{"checkpoint diff runs/a runs/b",
        "Compare the latest checkpoints of two runs."},
       {"checkpoint diff runs/a/final runs/b/final",
        "Compare the final weights of two runs."},
       {"checkpoint diff RUN/checkpoints/step-00000500 RUN",
        "Show what has changed since step 500."}});
  line.SetOperand(/*required=*/true, &a);
  line.SetOperand(/*required=*/true, &b);
  line.AddSwitch("json", "Print one JSON object.", &json);
  if (const auto code = line.ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  for (std::string* const path : {&a, &b}) {
    absl::StatusOr<std::string> found = FindCheckpoint(*path);
    if (!found.ok()) return ReportTrouble(found.status());
    *path = *std::move(found);
  }
  const absl::StatusOr<CheckpointDiff> diff = DiffCheckpoints(a, b);
  if (!diff.ok()) return ReportTrouble(diff.status());
  if (json) {
    PrintJson(ToJson(*diff));
  } else {
    PrintDiff(*diff);
  }
  return diff->equal() ? kExitDone : kExitFailed;
}

}  // namespace

int RunCheckpointCommand(const std::vector<std::string>& arguments,
                         const Environment& environment) {
  const std::string what = arguments.empty() ? "" : arguments[0];
  const std::vector<std::string> rest(
      arguments.begin() + (arguments.empty() ? 0 : 1), arguments.end());
  if (what == "--help" || what == "-h") {
    std::fputs(kCheckpointHelp, stdout);
    return kExitDone;
  }
  if (what == "ls") return RunListing(rest, environment);
  if (what == "verify") return RunVerify(rest, environment);
  if (what == "diff") return RunDiff(rest, environment);
  return ReportError(absl::InvalidArgumentError(
      absl::StrCat(what.empty() ? "checkpoint: missing action"
                                : absl::StrCat("unknown action ", what),
                   " (expected 'checkpoint ls', 'verify' or 'diff')",
                   DidYouMean(what, {"ls", "verify", "diff"}))));
}

}  // namespace tributary
