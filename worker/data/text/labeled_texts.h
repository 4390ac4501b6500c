// Reads files of texts with labels.
#ifndef TRIBUTARY_WORKER_DATA_TEXT_LABELED_TEXTS_H_
#define TRIBUTARY_WORKER_DATA_TEXT_LABELED_TEXTS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace tributary {

// Maximum number of classes of texts. If there are more different labels, the
// label's column probably does not contain classes.
inline constexpr int64_t kMaxTextClasses = 1 << 16;

struct LabeledTexts {
  std::string path;
  std::vector<std::string> texts;
  std::vector<std::string> seconds;  // Second texts of pairs, or empty.
  std::vector<std::string> labels;   // Empty if the file has no such column.
  std::vector<int64_t> lines;        // Line numbers, from 1.

  int64_t size() const { return static_cast<int64_t>(lines.size()); }
};

// Parses a CSV or TSV file with the columns that `spec` names. If
// `needs_labels` is false, the label's column may be absent, and labels may be
// empty. `path` is the file's name, which determines the delimiter. Accepts
// arbitrary bytes. Returns InvalidArgument, naming the file and the line, if
// `bytes` is malformed, lacks a column, or has an empty text or label.
absl::StatusOr<LabeledTexts> ParseLabeledTexts(const LabeledTextSpec& spec,
                                               bool needs_labels,
                                               const std::string& path,
                                               absl::string_view bytes);

// Reads texts for prediction from the file `path`. If its name ends in .txt or
// .txt.gz, each line is a text, and InvalidArgument is returned if `spec`
// requires pairs of texts. Otherwise parses the file with ParseLabeledTexts.
// Also returns the errors of AppendWholeFile.
absl::StatusOr<LabeledTexts> ReadTextsToPredict(const LabeledTextSpec& spec,
                                                const std::string& path);

// Returns the different labels in the order of the classes: in numeric order if
// all are integers, otherwise in the order of their bytes. Returns
// InvalidArgument if there are fewer than two different labels, or more than
// kMaxTextClasses.
absl::StatusOr<std::vector<std::string>> ClassesOfTexts(
    const LabeledTexts& texts);

// Returns the class of each text. Returns InvalidArgument, naming the line, if
// a label is not one of `classes`.
absl::StatusOr<std::vector<int32_t>> NumberLabels(
    const LabeledTexts& texts, const std::vector<std::string>& classes);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_TEXT_LABELED_TEXTS_H_
