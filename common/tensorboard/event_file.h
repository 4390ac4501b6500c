// TensorBoard's event files: events in the framing of TFRecord files.
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

// A hyperparameter: a number, or a text if `text` is not empty.
struct HyperParameter {
  double number = 0;
  std::string text;
};

// Writes one event file. Each event reaches the kernel before its method
// returns. After a write error, status() returns that error, and later events
// are written if possible. Not thread-safe.
class EventFile {
 public:
  // Creates a file in `folder`, which is created if it does not exist. Its name
  // contains `now`, the host and a number that no other file of this folder
  // has, so that TensorBoard reads the files of a folder in the order in which
  // they were created. Returns the system's error, with the path.
  static absl::StatusOr<std::unique_ptr<EventFile>> Create(
      const std::string& folder, absl::Time now);

  // Tells TensorBoard to drop the events of `step` and of later steps that
  // earlier files contain.
  void AddRestart(absl::Time now, int64_t step);
  // Adds values by tag, such as "train/loss".
  void AddScalars(absl::Time now, int64_t step,
                  const std::map<std::string, double>& values);
  void AddText(absl::Time now, int64_t step, absl::string_view tag,
               absl::string_view text);
  // State the run's hyperparameters, for the HParams page, and how it ended.
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
