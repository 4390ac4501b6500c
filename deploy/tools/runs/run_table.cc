#include "deploy/tools/runs/run_table.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "common/text/counted.h"
#include "common/text/escape.h"
#include "deploy/launch/job/progress_display.h"

namespace tributary {
namespace {

constexpr char kUnknown[] = "-";
constexpr int kGap = 2;  // Spaces between two columns.

struct Column {
  std::string title;
  std::vector<std::string> cells;
  bool right_aligned = true;
};

std::string LossText(double loss) {
  return std::isnan(loss) ? kUnknown : absl::StrFormat("%.4f", loss);
}

// Makes the text fit into one cell.
std::string Cell(const std::string& text) {
  return EscapeForTerminal(
      absl::StrReplaceAll(text, {{"\n", "\\n"}, {"\t", "\\t"}}));
}

int Columns(const std::string& text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char byte) {
        // Each character of UTF-8 has one byte that does not continue another.
        return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
      }));
}

int WidthOf(const Column& column) {
  int width = Columns(column.title);
  for (const std::string& cell : column.cells) {
    width = std::max(width, Columns(cell));
  }
  return width;
}

std::vector<Column> FixedColumns(const std::vector<RunEntry>& runs) {
  std::vector<Column> columns = {{"run", {}, false},   {"began", {}, false},
                                 {"state", {}, false}, {"step", {}},
                                 {"loss", {}},         {"evaluation", {}},
                                 {"accuracy", {}},     {"time", {}}};
  for (const RunEntry& run : runs) {
    const std::string cells[] = {
        Cell(run.name),
        run.began == absl::InfinitePast()
            ? kUnknown
            : absl::FormatTime("%Y-%m-%d %H:%M", run.began,
                               absl::LocalTimeZone()),
        Cell(run.state),
        run.steps > 0 ? absl::StrCat(run.step, "/", run.steps)
                      : absl::StrCat(run.step),
        LossText(run.loss),
        LossText(run.evaluation_loss),
        std::isnan(run.evaluation_accuracy)
            ? kUnknown
            : absl::StrFormat("%.2f%%", 100 * run.evaluation_accuracy),
        std::isnan(run.seconds) ? kUnknown : FormatSeconds(run.seconds)};
    for (size_t i = 0; i < columns.size(); ++i) {
      columns[i].cells.push_back(cells[i]);
    }
  }
  columns.erase(std::remove_if(columns.begin(), columns.end(),
                               [](const Column& column) {
                                 return std::all_of(
                                     column.cells.begin(), column.cells.end(),
                                     [](const std::string& cell) {
                                       return cell == kUnknown;
                                     });
                               }),
                columns.end());
  return columns;
}

// The title of a field is the last part of its path or, if several fields end
// with this part, the path.
std::vector<Column> FieldColumns(const std::vector<RunEntry>& runs,
                                 const std::vector<std::string>& fields) {
  const auto last_part = [](const std::string& path) {
    return path.substr(path.rfind('.') + 1);
  };
  std::map<std::string, int> count;
  for (const std::string& path : fields) ++count[last_part(path)];
  std::vector<Column> columns;
  for (const std::string& path : fields) {
    Column column;
    column.title = Cell(count[last_part(path)] > 1 ? path : last_part(path));
    for (const RunEntry& run : runs) {
      const auto found =
          std::find_if(run.fields.begin(), run.fields.end(),
                       [&](const JobField& f) { return f.first == path; });
      column.cells.push_back(found == run.fields.end() ? kUnknown
                                                       : Cell(found->second));
    }
    columns.push_back(std::move(column));
  }
  return columns;
}

}  // namespace

std::string FormatRuns(const std::vector<RunEntry>& runs,
                       const std::vector<std::string>& fields, int width) {
  std::vector<Column> columns = FixedColumns(runs);
  int used = 0;
  for (const Column& column : columns) used += WidthOf(column) + kGap;
  int left_out = 0;
  for (Column& column : FieldColumns(runs, fields)) {
    const int needed = WidthOf(column) + kGap;
    // The last column needs no gap behind it.
    if (width > 0 && used + needed - kGap > width) {
      ++left_out;
      continue;
    }
    used += needed;
    columns.push_back(std::move(column));
  }
  std::string text;
  for (size_t row = 0; row <= runs.size(); ++row) {
    std::string line;
    for (const Column& column : columns) {
      const std::string& cell = row == 0 ? column.title : column.cells[row - 1];
      const std::string padding(WidthOf(column) - Columns(cell), ' ');
      absl::StrAppend(&line, column.right_aligned ? padding : cell,
                      column.right_aligned ? cell : padding,
                      std::string(kGap, ' '));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, line, "\n");
  }
  if (left_out > 0) {
    absl::StrAppend(&text, Counted(left_out, "further field"),
                    left_out == 1 ? " differs" : " differ",
                    ": see --json, or choose columns with --fields\n");
  }
  return text;
}

}  // namespace tributary
