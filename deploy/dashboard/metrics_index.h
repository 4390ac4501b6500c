// An index of the lines of a run's metrics.jsonl. The file may have hundreds of
// megabytes, and grows while the run continues.
#ifndef TRIBUTARY_DEPLOY_DASHBOARD_METRICS_INDEX_H_
#define TRIBUTARY_DEPLOY_DASHBOARD_METRICS_INDEX_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tributary {

// An index of metrics.jsonl, the metrics of a run. Keeps the position, the step
// and the values of each line in memory. The method Read reads the text of a
// line from the file. Not thread-safe.
class MetricsIndex {
 public:
  // The names, in metrics.jsonl, of the values that the index keeps of each
  // line.
  static constexpr std::array<absl::string_view, 9> kFields = {
      "epoch",
      "loss",
      "learning_rate",
      "gradient_norm",
      "samples_per_second",
      "step_seconds",
      "seconds",
      "evaluation_loss",
      "evaluation_accuracy"};

  struct Line {
    int64_t step = 0;
    int64_t offset = 0;  // Offset of the line in the file.
    int64_t bytes = 0;   // Length without the line end.
    // The values of the fields kFields in this line. NaN for a field that the
    // line does not have.
    std::array<double, kFields.size()> values = {};
  };

  explicit MetricsIndex(std::string path) : path_(std::move(path)) {}

  // Reads the lines that were added to metrics.jsonl since the last call. If
  // the file was replaced, because a job has gone back to a checkpoint, reads
  // it from its beginning. Ignores a line that is not complete yet, and lines
  // that are not objects with a step. Does nothing if the file cannot be read.
  void Update();

  // Returns all lines that Update has read, in the order of the file.
  const std::vector<Line>& lines() const { return lines_; }
  // Returns a number that increases whenever Update finds that metrics.jsonl
  // was replaced.
  int64_t generation() const { return generation_; }

  // Returns the text of a line of metrics.jsonl; an empty string if the file
  // cannot be read.
  std::string Read(const Line& line) const;

 private:
  void Restart();
  // Returns true if the file, which has `size` bytes, still contains the bytes
  // of `tail_` before the offset `end_`.
  bool Continues(int fd, int64_t size) const;
  void AddLine(absl::string_view text, int64_t offset);

  const std::string path_;
  std::vector<Line> lines_;
  int64_t generation_ = 0;
  ino_t inode_ = 0;
  int64_t end_ = 0;  // Offset up to which the file was read.
  // The last bytes that were read from the file, which precede the offset
  // `end_`.
  std::string tail_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_DASHBOARD_METRICS_INDEX_H_
