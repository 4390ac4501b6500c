#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/text/nearest.h"
#include "deploy/commands/subcommands.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/exit_code.h"
#include "deploy/tools/tables/saved_table.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

constexpr char kSparseHelp[] =
    "Looks into the tables of a run (see `sparse` in the job file).\n\n"
    "Examples:\n"
    "  tributary sparse stats runs/clicks\n"
    "      Count the rows of each table, and measure their norms.\n"
    "  tributary sparse lookup runs/clicks --feature C1 68fd1e64\n"
    "      Print the row of a text of a feature.\n"
    "  tributary sparse export runs/clicks --table users --output users\n"
    "      Write users/keys.npy and users/values.npy.\n"
    "  tributary sparse diff runs/a runs/b\n"
    "      Say whether two runs have the same rows.\n"
    "\n"
    "Usage: tributary sparse stats RUN [flags]\n"
    "       tributary sparse lookup RUN KEY|TEXT [flags]\n"
    "       tributary sparse export RUN [flags]\n"
    "       tributary sparse diff RUN RUN [flags]\n\n"
    "RUN is a run's folder, for its final rows or, before its end, its newest\n"
    "checkpoint, or a checkpoint. `tributary checkpoint diff` compares the "
    "tables of\ntwo checkpoints. 'tributary sparse stats --help' lists the "
    "flags of stats.\n";

int RunStats(const std::vector<std::string>& arguments,
             const Environment& environment) {
  std::string run;
  bool json = false;
  CommandLine line("sparse stats", "RUN",
                   "Prints for each table of a run the number of rows, the "
                   "bytes of their values and state, the norms of the rows, "
                   "and how many steps ago they had their last gradient.",
                   {{"sparse stats runs/clicks", "Describe the tables."}});
  line.SetOperand(/*required=*/true, &run);
  line.AddSwitch("json", "Print one JSON object.", &json);
  if (const auto code = line.ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  const absl::StatusOr<std::vector<TableStatistics>> tables =
      MeasureTables(run);
  if (!tables.ok()) return ReportError(tables.status());
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const TableStatistics& table : *tables) {
    if (json) {
      all.push_back({{"table", table.name},
                     {"dim", table.dim},
                     {"rows", table.rows},
                     {"bytes", table.bytes},
                     {"waiting", table.candidates},
                     {"mean_norm", table.mean_norm},
                     {"largest_norm", table.largest_norm},
                     {"median_age", table.median_age},
                     {"oldest_age", table.oldest_age}});
      continue;
    }
    absl::PrintF(
        "%s: %d rows of %d values, %d bytes with state%s; norm %.4g on "
        "average, "
        "at most %.4g; last gradient %d steps ago in the median, at most %d\n",
        table.name, table.rows, table.dim, table.bytes,
        table.candidates > 0
            ? absl::StrCat(", ", table.candidates, " keys wait for admission")
            : "",
        table.mean_norm, table.largest_norm, table.median_age,
        table.oldest_age);
  }
  if (json) std::printf("%s\n", all.dump().c_str());
  return kExitDone;
}

int RunLookup(const std::vector<std::string>& arguments,
              const Environment& environment) {
  std::string run, key, table, feature;
  bool json = false;
  CommandLine line(
      "sparse lookup", "RUN KEY|TEXT",
      "Prints the row of a key, or of a text of a feature: the value of the "
      "column in the data. A key without a row has its initial values.",
      {{"sparse lookup runs/clicks --feature C1 68fd1e64",
        "Print the row of a text."},
       {"sparse lookup runs/clicks --table ids 17",
        "Print the row of a key."}});
  line.SetOperand(/*required=*/true, &run);
  line.SetOperand(/*required=*/true, &key);
  line.AddText("table", "NAME", "The table of the key.", &table);
  line.AddText("feature", "NAME", "The feature of the text.", &feature);
  line.AddSwitch("json", "Print one JSON object.", &json);
  if (const auto code = line.ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  const auto look_up = [&]() -> absl::StatusOr<SavedRow> {
    if (feature.empty() == table.empty()) {
      return absl::InvalidArgumentError(
          "sparse lookup: name a feature, whose text follows (--feature), or a "
          "table, whose key follows (--table)");
    }
    if (!feature.empty()) return LookUpText(run, feature, key);
    uint64_t number = 0;
    if (!absl::SimpleAtoi(key, &number)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "sparse lookup: \"", key,
          "\" is not a key, an unsigned number; --feature takes texts"));
    }
    return LookUpKey(run, table, number);
  };
  const absl::StatusOr<SavedRow> row = look_up();
  if (!row.ok()) return ReportError(row.status());
  if (json) {
    std::printf("%s\n", nlohmann::ordered_json({{"table", row->table},
                                                {"key", row->key},
                                                {"exists", row->exists},
                                                {"last_step", row->last_step},
                                                {"values", row->values}})
                            .dump()
                            .c_str());
    return kExitDone;
  }
  absl::PrintF("table %s, key %d: %s\n", row->table, row->key,
               row->exists
                   ? absl::StrCat("last gradient in step ", row->last_step + 1)
                   : "no row; its initial values are");
  for (const float value : row->values) absl::PrintF("%.9g\n", value);
  return kExitDone;
}

int RunExport(const std::vector<std::string>& arguments,
              const Environment& environment) {
  std::string run, table, output;
  CommandLine line(
      "sparse export", "RUN",
      "Writes the rows of a table to arrays that NumPy reads: OUTPUT/keys.npy "
      "(uint64, [rows]) and OUTPUT/values.npy (float32, [rows, dim]), in the "
      "order of buckets and keys.",
      {{"sparse export runs/clicks --table users --output users",
        "Write users/keys.npy and users/values.npy."}});
  line.SetOperand(/*required=*/true, &run);
  line.AddText("table", "NAME",
               "The table. Default: the only table of the job.", &table);
  line.AddText("output", "FOLDER", "Where to write. Default: the table's name.",
               &output);
  if (const auto code = line.ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  const absl::StatusOr<ExportedTable> exported =
      ExportTable(run, table, output);
  if (!exported.ok()) return ReportError(exported.status());
  absl::PrintF("%s: %d rows\n", exported->folder, exported->rows);
  return kExitDone;
}

int RunDiff(const std::vector<std::string>& arguments,
            const Environment& environment) {
  std::string a, b;
  bool json = false;
  CommandLine line(
      "sparse diff", "A B",
      "Compares the rows of two runs or checkpoints of the same model: values, "
      "state, and the steps of the last gradients. Exits with 0 if all are "
      "equal, with 1 if some differ, and with 2 if they cannot be compared. "
      "`tributary checkpoint diff` also compares the weights.",
      {{"sparse diff runs/a runs/b", "Compare the rows of two runs."}});
  line.SetOperand(/*required=*/true, &a);
  line.SetOperand(/*required=*/true, &b);
  line.AddSwitch("json", "Print one JSON object.", &json);
  if (const auto code = line.ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  const absl::StatusOr<std::vector<TableDiff>> tables = DiffTables(a, b);
  // As with `diff` and `cmp`, 1 means that the inputs differ.
  if (!tables.ok()) return ReportError(tables.status(), kExitUsage);
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  bool equal = true;
  for (const TableDiff& table : *tables) {
    equal = equal && table.equal();
    if (json) {
      all.push_back({{"table", table.name},
                     {"rows", table.rows},
                     {"only_in_a", table.only_in_a},
                     {"only_in_b", table.only_in_b},
                     {"differing", table.differing}});
    } else if (table.equal()) {
      absl::PrintF("%s: %d rows, equal\n", table.name, table.rows);
    } else {
      absl::PrintF(
          "%s: %d rows, of which %d differ, %d are in the first only, and %d "
          "in the second only\n",
          table.name, table.rows, table.differing, table.only_in_a,
          table.only_in_b);
    }
  }
  if (json) std::printf("%s\n", all.dump().c_str());
  return equal ? kExitDone : kExitFailed;
}

}  // namespace

int RunSparseCommand(const std::vector<std::string>& arguments,
                     const Environment& environment) {
  const std::string what = arguments.empty() ? "" : arguments[0];
  const std::vector<std::string> rest(
      arguments.begin() + (arguments.empty() ? 0 : 1), arguments.end());
  if (what == "--help" || what == "-h") {
    std::fputs(kSparseHelp, stdout);
    return kExitDone;
  }
  if (what == "stats") return RunStats(rest, environment);
  if (what == "lookup") return RunLookup(rest, environment);
  if (what == "export") return RunExport(rest, environment);
  if (what == "diff") return RunDiff(rest, environment);
  return ReportError(absl::InvalidArgumentError(
      absl::StrCat(what.empty() ? "sparse: missing action"
                                : absl::StrCat("unknown action ", what),
                   " (expected 'sparse stats', 'lookup', 'export' or 'diff')",
                   DidYouMean(what, {"stats", "lookup", "export", "diff"}))));
}

}  // namespace tributary
