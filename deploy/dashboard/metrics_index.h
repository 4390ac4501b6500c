// An index of the lines of a run's metrics.jsonl, which may have hundreds of
// megabytes and may still grow.
#ifndef TRIBUTARY_DEPLOY_DASHBOARD_METRICS_INDEX_H_
#define TRIBUTARY_DEPLOY_DASHBOARD_METRICS_INDEX_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace tributary {

// Keeps the position, the step and the numbers of each line, and reads whole
// lines from the file when they are asked for. Not thread-safe.
class MetricsIndex {
 public:
  // The numbers of a line that are kept, by their names in metrics.jsonl.
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
    int64_t offset = 0;
    int64_t bytes = 0;
    std::array<double, kFields.size()> values = {};  // NaN: absent.
  };

  explicit MetricsIndex(std::string path) : path_(std::move(path)) {}

  // Reads the lines that were added since the last call. If the file was
  // replaced, because a job has gone back to a checkpoint, reads it from its
  // beginning. Ignores a line that is not complete yet, and lines that are not
  // objects with a step. Does nothing if the file cannot be read.
  void Update();

  // All lines, in the file's order.
  const std::vector<Line>& lines() const { return lines_; }
  // Grows whenever the file was replaced.
  int64_t generation() const { return generation_; }

  // Returns the text of a line; an empty string if it cannot be read.
  std::string Read(const Line& line) const;

 private:
  void Restart();
  // Returns true if the file still begins and ends with what was read.
  bool Continues(int fd, int64_t size) const;
  void AddLine(absl::string_view text, int64_t offset);

  const std::string path_;
  std::vector<Line> lines_;
  int64_t generation_ = 0;
  ino_t inode_ = 0;
  int64_t end_ = 0;  // Up to where the file was read.
  // The last bytes before end_.
  std::string tail_;
};

}  // namespace tributary

#endif  // TRIBUTARY_DEPLOY_DASHBOARD_METRICS_INDEX_H_
