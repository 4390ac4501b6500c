#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/text/escape.h"
#include "deploy/commands/subcommands.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/environment.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/security_flags.h"
#include "deploy/tools/runs/run_folders.h"
#include "deploy/tools/runs/run_listing.h"
#include "deploy/tools/runs/run_table.h"
#include "deploy/tools/status/run_address.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

constexpr char kDefaultFolder[] = "runs";
constexpr int kWidthOfFiles = 200;
constexpr absl::Duration kStatusTimeout = absl::Seconds(2);

struct RunsFlags {
  std::vector<std::string> folders;
  std::string sort = "date";
  std::string state;
  std::string name;
  std::vector<std::string> where;
  std::string fields;
  int64_t limit = 0;
  bool json = false;
  SecurityFlags security;
};

// Returns the number of columns of the terminal, or enough for some fields if
// stdout is none.
int TerminalWidth() {
  winsize size = {};
  const bool is_terminal = isatty(STDOUT_FILENO) != 0 &&
                           ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return is_terminal ? size.ws_col : kWidthOfFiles;
}

std::string RunsJson(const std::vector<RunEntry>& runs) {
  nlohmann::ordered_json json = {{"runs", nlohmann::ordered_json::array()},
                                 {"differing_fields", DifferingFields(runs)}};
  for (const RunEntry& run : runs) {
    nlohmann::ordered_json entry = EntryJson(run);
    entry["job"] = nlohmann::ordered_json::object();
    for (const auto& [path, value] : run.fields) entry["job"][path] = value;
    json["runs"].push_back(std::move(entry));
  }
  return json.dump(-1, ' ', /*ensure_ascii=*/false,
                   nlohmann::ordered_json::error_handler_t::replace);
}

absl::Status ListTo(const RunsFlags& flags) {
  RunConditions conditions;
  conditions.name = flags.name;
  conditions.state = flags.state == "unfinished" ? kNoAnswer : flags.state;
  for (const std::string& text : flags.where) {
    TRIBUTARY_ASSIGN_OR_RETURN(JobField field, ParseFieldCondition(text));
    conditions.fields.push_back(std::move(field));
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      const Security security,
      ReadSecurity(flags.security,
                   {Role::kAdmin, Role::kServer, Role::kWorker}));
  std::vector<std::string> paths = flags.folders;
  if (paths.empty()) paths.push_back(kDefaultFolder);
  RunFolders folders;
  for (const std::string& path : paths) {
    TRIBUTARY_RETURN_IF_ERROR(folders.Add(path));
  }
  std::vector<RunEntry> runs = ListRuns(
      &folders, std::make_shared<RunAddressRules>(RunAddressRules{security}),
      kStatusTimeout);
  SelectRuns(conditions, &runs);
  SortRuns(flags.sort, &runs);
  if (flags.limit > 0 && static_cast<int64_t>(runs.size()) > flags.limit) {
    runs.resize(flags.limit);
  }
  if (flags.json) {
    absl::PrintF("%s\n", RunsJson(runs));
    return absl::OkStatus();
  }
  if (runs.empty()) {
    absl::PrintF("no such runs in %s\n", absl::StrJoin(paths, ", "));
    return absl::OkStatus();
  }
  const std::vector<std::string> fields =
      flags.fields.empty()
          ? DifferingFields(runs)
          : std::vector<std::string>(absl::StrSplit(flags.fields, ','));
  absl::PrintF("%s", FormatRuns(runs, fields,
                                flags.fields.empty() ? TerminalWidth() : 0));
  std::fflush(stdout);
  for (const RunEntry& run : runs) {
    if (run.problem.empty()) continue;
    absl::FPrintF(stderr, "warning: %s\n", EscapeForTerminal(run.problem));
  }
  return absl::OkStatus();
}

}  // namespace

int RunRunsCommand(const std::vector<std::string>& arguments,
                   const Environment& environment) {
  RunsFlags flags;
  CommandLine line(
      "runs", "[FOLDER...]",
      "Lists runs: when they began, their state, step, losses, and the fields "
      "of the job file in which they differ. FOLDER is a folder that contains "
      "runs, or the folder of a run. Default: runs.",
      {{"runs", "List the runs in the folder runs, the newest first."},
       {"runs --sort evaluation --limit 5", "Show the five best runs."},
       {"runs --where learning_rate=0.001 --json", "Print JSON for scripts."}});
  line.SetOperands(&flags.folders);
  line.AddChoice("sort", RunOrders(),
                 "Order of the runs: date (running jobs first, then the newest "
                 "run), name, loss or evaluation (the smallest loss first), "
                 "accuracy, steps or time (the largest first). Default date.",
                 &flags.sort);
  line.AddChoice("state",
                 {"running", "done", "stopped", "failed", "unfinished"},
                 "Show only runs in this state; unfinished: neither ended nor "
                 "running.",
                 &flags.state);
  line.AddText("name", "TEXT", "Show only runs whose name contains TEXT.",
               &flags.name);
  line.AddTexts("where", "FIELD=VALUE",
                "Show only runs whose job file has this value. FIELD is the "
                "path of the field, or its end. May be repeated.",
                &flags.where);
  line.AddText("fields", "FIELD,...",
               "Fields of the job file to show as columns, by their paths. "
               "Default: those in which the runs differ.",
               &flags.fields);
  line.AddInteger("limit", "Show only the first runs. Default: all.", 1,
                  1 << 20, &flags.limit);
  line.AddSwitch("json", "Print one JSON object.", &flags.json);
  AddSecurityFlags(&line, &flags.security);
  if (const auto code = line.ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  const absl::Status status = ListTo(flags);
  return status.ok() ? kExitDone : ReportError(status);
}

}  // namespace tributary
