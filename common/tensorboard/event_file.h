// Writes TensorBoard's event files, which are TFRecord files of events.
#ifndef TRIBUTARY_COMMON_TENSORBOARD_EVENT_FILE_H_
#define TRIBUTARY_COMMON_TENSORBOARD_EVENT_FILE_H_

#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace tributary {

// The value of a hyperparameter: `text` if it is not empty, otherwise `number`.
struct HyperParameter {
  double number = 0;
  std::string text;
};

// Writes one event file. Each event reaches the kernel before its method
// returns. After a write error, status() returns that error, and later events
// are written if possible. Not thread-safe.
class EventFile {
 public:
  // Creates a new file in `folder`, and the folder if it does not exist. The
  // file's name contains the time `now`, the name of this host and a number
  // that makes the name unique. TensorBoard reads the files of a folder in the
  // order of their names, and therefore in the order of their creation. Returns
  // the system's error, with the path, if the file cannot be written.
  static absl::StatusOr<std::unique_ptr<EventFile>> Create(
      const std::string& folder, absl::Time now);

  // Tells TensorBoard to drop all events of step `step` and later steps that
  // earlier files contain, because the job computes these steps again.
  void AddRestart(absl::Time now, int64_t step);
  // Adds one value for each tag, such as "train/loss".
  void AddScalars(absl::Time now, int64_t step,
                  const std::map<std::string, double>& values);
  void AddText(absl::Time now, int64_t step, absl::string_view tag,
               absl::string_view text);
  // These functions add the hyperparameters of the run, which TensorBoard's
  // HParams page shows, and whether the run has succeeded.
  void AddSessionStart(absl::Time now,
                       const std::map<std::string, HyperParameter>& parameters);
  void AddSessionEnd(absl::Time now, bool success);

  const absl::Status& status() const { return status_; }

 private:
  EventFile(std::string path, std::ofstream file)
      : path_(std::move(path)), file_(std::move(file)) {}
  void Write(const std::string& event);

  const std::string path_;
  std::ofstream file_;
  absl::Status status_;
};

// Returns the CRC-32C (RFC 3720, appendix B.4) of `bytes`, masked as TFRecord
// files require: rotated right by 15 bits, plus a constant.
uint32_t MaskedCrc32c(absl::string_view bytes);

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_TENSORBOARD_EVENT_FILE_H_
