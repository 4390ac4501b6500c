#include "deploy/tools/compare/comparison_report.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "common/base/status_macros.h"
#include "common/os/file.h"
#include "common/text/counted.h"
#include "common/text/escape.h"
#include "deploy/tools/compare/comparison_plot.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

constexpr double kMega = 1e6;
constexpr char kNothing[] = "-";
constexpr int kDigestLetters = 8;

using Row = std::vector<std::string>;

// Formats a table. The first `text_columns` columns are left-aligned, the
// others, which hold numbers, right-aligned.
std::string Table(const std::vector<Row>& rows, size_t text_columns) {
  std::vector<size_t> widths(rows[0].size());
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], row[i].size());
    }
  }
  std::string table;
  const auto add = [&](const Row& row) {
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string room(widths[i] - row[i].size(), ' ');
      absl::StrAppend(&table, i == 0 ? "| " : " ",
                      i < text_columns ? row[i] + room : room + row[i], " |");
    }
    absl::StrAppend(&table, "\n");
  };
  add(rows[0]);
  Row line;
  for (size_t i = 0; i < widths.size(); ++i) {
    line.push_back(std::string(widths[i] - 1, '-') +
                   (i < text_columns ? "-" : ":"));
  }
  add(line);
  for (size_t i = 1; i < rows.size(); ++i) add(rows[i]);
  return table;
}

// Escapes a name or an error for one line of Markdown.
std::string Plain(const std::string& text) {
  return absl::StrReplaceAll(
      EscapeForTerminal(text),
      {{"\n", " "}, {"|", "\\|"}, {"<", "&lt;"}, {"`", "'"}});
}

std::string Number(absl::optional<double> value, int decimals) {
  if (!value.has_value() || !std::isfinite(*value)) return kNothing;
  return absl::StrFormat("%.*f", decimals, *value);
}

std::string Milliseconds(absl::optional<double> value) {
  const bool small = value.has_value() && *value < 9.995;
  return Number(value, small ? 2 : 1);
}

std::string Megabytes(absl::optional<double> bytes) {
  if (!bytes.has_value()) return kNothing;
  const double value = *bytes / kMega;
  return Number(value, value > 0 && value < 9.95 ? 2 : 0);
}

double LargestMemory(const RunFigures& figures) {
  double largest = 0;
  for (const ProcessFigures& process : figures.processes) {
    largest = std::max(largest, process.peak_memory_bytes);
  }
  return largest;
}

Row RunRow(const ComparedRun& run) {
  Row row = {run.name, run.transport};
  if (!run.figures.has_value()) {
    row.push_back(run.state == ComparedRun::State::kFailed    ? "failed"
                  : run.state == ComparedRun::State::kStopped ? "stopped"
                                                              : "not run");
    row.resize(12, kNothing);
    return row;
  }
  const RunFigures& f = *run.figures;
  row.insert(
      row.end(),
      {Milliseconds(f.step_ms), Milliseconds(f.predicted_ms),
       Milliseconds(f.compute_ms), Milliseconds(f.exchange_ms),
       Milliseconds(f.waiting_ms), Megabytes(f.total_bytes_sent()),
       Megabytes(LargestMemory(f)), Megabytes(f.total_memory()),
       Number(f.evaluation_loss.has_value() ? *f.evaluation_loss : f.final_loss,
              /*decimals=*/4),
       f.weights_sha256.substr(0, kDigestLetters)});
  return row;
}

std::string Setting(const Comparison& comparison) {
  std::string text = absl::StrCat(
      comparison.model.empty() ? ""
                               : absl::StrCat("model ", comparison.model, "; "),
      Counted(comparison.workers, "worker"), ", ",
      Counted(comparison.threads, "thread"),
      comparison.workers == 1 ? ", on " : " each, on ",
      Counted(comparison.cores, "core"));
  for (const ComparedRun& run : comparison.runs) {
    if (!run.figures.has_value()) continue;
    absl::StrAppend(&text, "; ", WithCommas(run.figures->parameters),
                    " parameters, ", WithCommas(run.figures->steps),
                    run.figures->steps == 1 ? " step" : " steps");
    break;
  }
  return text;
}

bool Uses(const Comparison& comparison, const std::string& transport) {
  return std::any_of(
      comparison.runs.begin(), comparison.runs.end(),
      [&](const ComparedRun& run) { return run.transport == transport; });
}

std::string Notes(const Comparison& comparison) {
  std::string notes =
      "`step`: mean time per step of the job, in ms. `predicted`: step time "
      "predicted from the computing time and from what this machine needs to "
      "move and add the bytes. `compute`, `exchange` and `waiting`: components "
      "of the step, averaged over the workers. `exchange` is the part that "
      "computation does not hide; `waiting` is the time spent waiting for "
      "other workers, which an all-reduce cannot separate from its exchange. "
      "`sent`: bytes sent by all processes per step. `memory`: peak of the "
      "largest process, and of all processes together; shared memory counts in "
      "each process that uses it. `loss`: on held-out data if there is any, "
      "else over the last steps. `weights`: the first digits of their "
      "digest.\n";
  for (const std::vector<std::string>& names : RunsOfSameWeights(comparison)) {
    absl::StrAppend(&notes, "\n- The same weights, bit for bit: ",
                    absl::StrJoin(names, ", "), ".");
  }
  if (Uses(comparison, "shared memory")) {
    absl::StrAppend(
        &notes,
        "\n- Bytes that pass through shared memory do not count as sent.");
    if (Uses(comparison, "TCP")) {
      absl::StrAppend(&notes,
                      " `--set exchange.transport=WIRE` compares all of them "
                      "over TCP, as between hosts.");
    }
  }
  if (FindDone(comparison, "data_parallel") != nullptr) {
    absl::StrAppend(
        &notes,
        "\n- data_parallel: servers and workers are threads of one process, "
        "and each worker has a device. As in PyTorch's DataParallel, device 0 "
        "is the primary, which also adds the gradients and runs the optimizer. "
        "The memory of the process is divided in proportion to what its "
        "servers and workers need.");
  }
  if (FindDone(comparison, "asynchronous") != nullptr) {
    absl::StrAppend(
        &notes,
        "\n- asynchronous: each worker takes steps of its own, so a step of "
        "the job takes a worker's step time divided by the number of workers.");
  }
  return absl::StrCat(notes, "\n");
}

std::string ProcessTable(const Comparison& comparison) {
  std::vector<Row> rows = {{"exchange", "process", "sent, MB per step",
                            "received, MB per step", "memory, MB", "CPU, s"}};
  for (const ComparedRun& run : comparison.runs) {
    if (!run.figures.has_value()) continue;
    for (const ProcessFigures& process : run.figures->processes) {
      rows.push_back({run.name, process.Name(), Megabytes(process.bytes_sent),
                      Megabytes(process.bytes_received),
                      Megabytes(process.peak_memory_bytes),
                      Number(process.cpu_seconds, /*decimals=*/2)});
    }
  }
  return rows.size() == 1 ? std::string() : Table(rows, 2);
}

std::string HostTable(const Comparison& comparison) {
  std::vector<Row> rows = {{"servers", "host", "out, MB per step",
                            "in, MB per step", "memory, MB",
                            "predicted step, ms"}};
  std::string placement;
  for (const HostFigures& host : comparison.hosts) {
    const bool first = host.placement != placement;
    placement = host.placement;
    rows.push_back({first ? host.placement : "", host.host,
                    Megabytes(host.bytes_out), Megabytes(host.bytes_in),
                    Megabytes(host.memory_bytes),
                    first ? Milliseconds(host.step_ms) : ""});
  }
  return Table(rows, 2);
}

std::string NotRun(const Comparison& comparison) {
  std::string text;
  for (const ComparedRun& run : comparison.runs) {
    if (run.state == ComparedRun::State::kFailed) {
      absl::StrAppend(&text, "- ", run.name, " failed: ", Plain(run.error),
                      "\n");
    } else if (run.state == ComparedRun::State::kStopped) {
      absl::StrAppend(&text, "- ", run.name, " was stopped.\n");
    } else if (run.state == ComparedRun::State::kWaiting) {
      absl::StrAppend(&text, "- ", run.name, " was not started.\n");
    }
  }
  for (const LeftOutExchange& left : comparison.left_out) {
    absl::StrAppend(&text, "- ", left.name,
                    " was left out: ", Plain(left.reason), "\n");
  }
  return text;
}

// Returns null if the value is absent or not finite.
nlohmann::ordered_json Optional(absl::optional<double> value) {
  if (!value.has_value() || !std::isfinite(*value)) return nullptr;
  return *value;
}

nlohmann::ordered_json FiguresJson(const RunFigures& figures) {
  nlohmann::ordered_json processes = nlohmann::ordered_json::array();
  for (const ProcessFigures& process : figures.processes) {
    processes.push_back({{"role", process.role},
                         {"rank", process.rank},
                         {"bytes_sent_per_step", process.bytes_sent},
                         {"bytes_received_per_step", process.bytes_received},
                         {"peak_memory_bytes", process.peak_memory_bytes},
                         {"cpu_seconds", process.cpu_seconds}});
  }
  return {{"steps", figures.steps},
          {"seconds", figures.seconds},
          {"step_ms", figures.step_ms},
          {"predicted_step_ms", Optional(figures.predicted_ms)},
          {"compute_ms", figures.compute_ms},
          {"data_ms", figures.data_ms},
          {"exchange_ms", figures.exchange_ms},
          {"waiting_ms", Optional(figures.waiting_ms)},
          {"other_ms", figures.other_ms},
          {"bytes_sent_per_step", figures.total_bytes_sent()},
          {"peak_memory_bytes", figures.total_memory()},
          {"final_loss", Optional(figures.final_loss)},
          {"evaluation_loss", Optional(figures.evaluation_loss)},
          {"evaluation_accuracy", Optional(figures.evaluation_accuracy)},
          {"weights_sha256", figures.weights_sha256},
          {"processes", std::move(processes)}};
}

nlohmann::ordered_json RunJson(const ComparedRun& run) {
  nlohmann::ordered_json json = {
      {"exchange", run.name},
      {"servers", run.servers},
      {"transport", run.transport},
      {"folder", run.folder},
      {"status", StateName(run.state)},
      {"error", nullptr},
      {"figures", run.figures.has_value() ? FiguresJson(*run.figures)
                                          : nlohmann::ordered_json()},
      {"bubble", nullptr}};
  if (run.bubble.has_value()) {
    json["bubble"] = {{"measured", run.bubble->measured},
                      {"formula", run.bubble->formula}};
  }
  if (!run.error.empty()) json["error"] = run.error;
  nlohmann::ordered_json losses = nlohmann::ordered_json::array();
  for (const LossPoint& point : run.losses) {
    losses.push_back({{"step", point.step},
                      {"seconds", Optional(point.seconds)},
                      {"loss", Optional(point.loss)}});
  }
  json["losses"] = std::move(losses);
  return json;
}

}  // namespace

std::string ComparisonTable(const Comparison& comparison) {
  std::vector<Row> rows = {{"exchange", "over", "step", "predicted", "compute",
                            "exchange", "waiting", "sent, MB", "memory, MB",
                            "all, MB", "loss", "weights"}};
  for (const ComparedRun& run : comparison.runs) rows.push_back(RunRow(run));
  return Table(rows, 2);
}

std::string BubbleLines(const Comparison& comparison) {
  std::string lines;
  for (const ComparedRun& run : comparison.runs) {
    if (!run.bubble.has_value()) continue;
    absl::StrAppendFormat(
        &lines,
        "%s: workers are idle for %.1f %% of a step; the bubble of the "
        "schedule is %.1f %% with equal passes.\n",
        run.name, 100 * run.bubble->measured, 100 * run.bubble->formula);
  }
  return lines;
}

std::string PrimaryLines(const Comparison& comparison) {
  const ComparedRun* const run = FindDone(comparison, "data_parallel");
  if (run == nullptr || run->figures->processes.size() < 2) return "";
  const std::vector<ProcessFigures>& devices = run->figures->processes;
  ProcessFigures other;
  for (size_t i = 1; i < devices.size(); ++i) {
    other.peak_memory_bytes =
        std::max(other.peak_memory_bytes, devices[i].peak_memory_bytes);
    other.cpu_seconds = std::max(other.cpu_seconds, devices[i].cpu_seconds);
  }
  if (other.peak_memory_bytes <= 0 || other.cpu_seconds <= 0) return "";
  return absl::StrFormat(
      "data_parallel: the primary, device 0, needs %.1f times the memory and "
      "%.1f times the CPU time of another device.\n",
      devices[0].peak_memory_bytes / other.peak_memory_bytes,
      devices[0].cpu_seconds / other.cpu_seconds);
}

std::string ComparisonMarkdown(const Comparison& comparison) {
  std::string text = absl::StrCat(
      "# ", Plain(comparison.job), " under ",
      Counted(comparison.runs.size(), "exchange"), "\n\n", Setting(comparison),
      ".\n\n![Loss, time, memory and bytes of each run]", "(compare.svg)\n\n",
      ComparisonTable(comparison), "\n", Notes(comparison));
  const std::string lines =
      absl::StrCat(BubbleLines(comparison), PrimaryLines(comparison));
  if (!lines.empty()) absl::StrAppend(&text, "\n", lines);
  const std::string missing = NotRun(comparison);
  if (!missing.empty()) absl::StrAppend(&text, "\n## Not run\n\n", missing);
  const std::string processes = ProcessTable(comparison);
  if (!processes.empty()) {
    absl::StrAppend(&text, "\n## Each process, as measured\n\n", processes);
  }
  if (comparison.hosts.empty()) return text;
  absl::StrAppendFormat(
      &text,
      "\n## With one host per worker\n\n"
      "Predicted bytes through each host's link, and predicted step time, in "
      "synchronous mode with links of %.3g Gbit/s; `tributary plan` predicts "
      "them for other links and numbers of workers. A server on a worker's "
      "host corresponds to the primary of PyTorch's DataParallel: the load of "
      "its link grows in proportion to the number of workers, while an "
      "all-reduce or shards load a link with at most twice the model.\n\n%s",
      8e-9 * comparison.bandwidth, HostTable(comparison));
  return text;
}

nlohmann::ordered_json ComparisonJson(const Comparison& comparison) {
  nlohmann::ordered_json json = {{"job", comparison.job},
                                 {"workers", comparison.workers},
                                 {"threads", comparison.threads},
                                 {"cores", comparison.cores}};
  nlohmann::ordered_json runs = nlohmann::ordered_json::array();
  for (const ComparedRun& run : comparison.runs) runs.push_back(RunJson(run));
  json["runs"] = std::move(runs);
  nlohmann::ordered_json left_out = nlohmann::ordered_json::array();
  for (const LeftOutExchange& left : comparison.left_out) {
    left_out.push_back({{"exchange", left.name}, {"reason", left.reason}});
  }
  json["left_out"] = std::move(left_out);
  json["same_weights"] = RunsOfSameWeights(comparison);
  json["bandwidth_bytes_per_second"] = comparison.bandwidth;
  nlohmann::ordered_json hosts = nlohmann::ordered_json::array();
  for (const HostFigures& host : comparison.hosts) {
    hosts.push_back({{"servers", host.placement},
                     {"host", host.host},
                     {"bytes_out_per_step", host.bytes_out},
                     {"bytes_in_per_step", host.bytes_in},
                     {"peak_memory_bytes", Optional(host.memory_bytes)},
                     {"predicted_step_ms", host.step_ms}});
  }
  json["hosts"] = std::move(hosts);
  return json;
}

absl::Status WriteComparison(const Comparison& comparison,
                             const std::string& folder) {
  const auto write = [&](const char* name, const std::string& text) {
    return WriteFileAtomically(absl::StrCat(folder, "/", name), {text});
  };
  TRIBUTARY_RETURN_IF_ERROR(write("compare.svg", ComparisonPlot(comparison)));
  TRIBUTARY_RETURN_IF_ERROR(
      write("compare.md", ComparisonMarkdown(comparison)));
  return write(
      "compare.json",
      absl::StrCat(ComparisonJson(comparison)
                       .dump(2, ' ', /*ensure_ascii=*/false,
                             nlohmann::ordered_json::error_handler_t::replace),
                   "\n"));
}

}  // namespace tributary
