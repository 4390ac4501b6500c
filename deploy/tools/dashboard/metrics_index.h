// An index of the lines of a run's metrics.jsonl. The file may have hundreds of
// megabytes, and grows while the run continues.
#ifndef TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_METRICS_INDEX_H_
#define TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_METRICS_INDEX_H_

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/os/untrusted_folder.h"

namespace tributary {

// An index of metrics.jsonl, the metrics of a run. Keeps the position, the step
// and the values of lines in memory. The method Read reads the text of lines
// from the file. Bounds the memory and the time that any file, also a hostile
// one, can take. Not thread-safe.
class MetricsIndex {
 public:
  // The names, in metrics.jsonl, of the values that the index keeps of each
  // line.
  static constexpr std::array<absl::string_view, 10> kFields = {
      "epoch",
      "loss",
      "learning_rate",
      "gradient_norm",
      "samples_per_second",
      "step_seconds",
      "seconds",
      "evaluation_loss",
      "evaluation_accuracy",
      "resources_count"};
  // Returns the position of a name in kFields, which must contain it.
  static constexpr size_t FieldIndex(absl::string_view name) {
    size_t i = 0;
    while (kFields[i] != name) ++i;
    return i;
  }

  struct Line {
    int64_t step = 0;
    int64_t offset = 0;  // Offset of the line in the file.
    int32_t bytes = 0;   // Length without the line end.
    bool is_evaluation = false;
    // Whether the line has results of an evaluation that kFields does not
    // contain; see NamedMetrics.
    bool has_named_metrics = false;
    // The values of the fields kFields in this line. NaN for a field that the
    // line does not have, infinity for one that is not finite.
    std::array<double, kFields.size()> values = {};
  };

  // Longer lines are ignored: the lines of 20,000 workers are shorter.
  static constexpr int64_t kMaxLineBytes = 8 << 20;
  // Bounds of NamedMetrics. Lines of evaluations are shorter, and coordinators
  // refuse more metrics and longer names.
  static constexpr int64_t kMaxEvaluationBytes = 16 << 10;
  static constexpr size_t kMaxNamedMetrics = 64;
  static constexpr size_t kMaxMetricName = 64;
  // Maximum number of lines in the index. When there are more, the index keeps
  // every second line, then every fourth, and so on, of those about training
  // or, if there are more of them, of those about evaluations.
  static constexpr size_t kMaxLines = 1 << 17;
  // `open` opens metrics.jsonl.
  explicit MetricsIndex(std::function<absl::StatusOr<InputFile>()> open)
      : open_(std::move(open)) {}

  // Reads the lines that were added to metrics.jsonl since the last call. If
  // the file was replaced, because a job has gone back to a checkpoint, reads
  // it from its beginning. Ignores a line that is not complete yet, and lines
  // that are not objects with a step. Does nothing if the file cannot be read.
  // Takes little longer than `most`; the next call then continues.
  void Update(absl::Duration most = absl::Milliseconds(500));
  // Forgets all lines, and releases their memory.
  void Clear();

  // Returns the lines that Update has read, in the order of the file.
  const std::vector<Line>& lines() const { return lines_; }
  // Returns the lines as comma-separated values, for spreadsheets: a heading,
  // and a row for each line, with the step, the fields with which charts are
  // drawn, and the named metrics of evaluations. A field that a line does not
  // have is empty.
  std::string Csv() const;
  // Returns a number that increases whenever Update finds that metrics.jsonl
  // was replaced.
  int64_t generation() const { return generation_; }

  // Returns the texts of lines of metrics.jsonl; empty strings if the file
  // cannot be read.
  std::vector<std::string> Read(const std::vector<const Line*>& lines) const;

  // Returns the results of evaluations that programs have named, such as `f1`
  // for the field evaluation_f1: the values in each of `lines`, with the
  // markers of Line::values. Reads lines that have such results from the file.
  // Keeps the first kMaxNamedMetrics names, in the order of the lines, that
  // consist of letters, digits and underscores. Ignores lines of more than
  // kMaxEvaluationBytes.
  std::map<std::string, std::vector<double>> NamedMetrics(
      const std::vector<const Line*>& lines) const;

 private:
  void Restart();
  // Returns true if the file still contains the bytes of `tail_` before the
  // offset `end_`.
  bool Continues(const InputFile& file) const;
  void AddLine(absl::string_view text, int64_t offset);
  // Makes room for further lines.
  void Thin();

  // The lines of one kind: those about training or those about evaluations.
  struct Kind {
    int64_t seen = 0;    // Number of lines in the file.
    size_t kept = 0;     // Number of lines in lines_.
    int64_t stride = 1;  // Each stride-th line is kept.
  };

  const std::function<absl::StatusOr<InputFile>()> open_;
  std::vector<Line> lines_;
  std::array<Kind, 2> kinds_;  // Training, evaluations.
  int64_t generation_ = 0;
  ino_t inode_ = 0;
  int64_t end_ = 0;        // Offset up to which the file was read.
  bool skipping_ = false;  // Whether end_ is within a line that is too long.
  // The last bytes that were read from the file, which precede the offset
  // `end_`.
  std::string tail_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_TOOLS_DASHBOARD_METRICS_INDEX_H_
