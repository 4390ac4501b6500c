#include "deploy/tools/dashboard/metrics_index.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/monotonic_clock.h"

namespace tributary {
namespace {

constexpr int64_t kBlockBytes = 4 << 20;
constexpr int64_t kTailBytes = 64;

constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();

// Finds the members of an object that are numbers, up to the first member that
// is an object or an array. null, which stands for a number that is not finite,
// is returned as infinity. nlohmann::json is ten times as slow.
class NumberScanner {
 public:
  explicit NumberScanner(absl::string_view text) : rest_(text) {
    ok_ = Skip('{');
  }

  // Returns the next name and sets `*value`; nullopt at the end.
  std::optional<absl::string_view> Next(double* value) {
    while (ok_ && Skip('"')) {
      const size_t quote = rest_.find('"');
      if (quote == absl::string_view::npos) break;
      const absl::string_view name = rest_.substr(0, quote);
      rest_.remove_prefix(quote + 1);
      if (!Skip(':')) break;
      const auto [end, error] =
          std::from_chars(rest_.data(), rest_.data() + rest_.size(), *value);
      bool is_number = error == std::errc();
      if (is_number) {
        rest_.remove_prefix(end - rest_.data());
      } else if (SkipWord("null")) {
        is_number = true;
        *value = std::numeric_limits<double>::infinity();
      } else if (!SkipWord("true") && !SkipWord("false") && !SkipText()) {
        break;
      }
      ok_ = Skip(',');
      if (is_number) return name;
    }
    return std::nullopt;
  }

 private:
  bool Skip(char expected) {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
    if (rest_.empty() || rest_.front() != expected) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool SkipWord(absl::string_view word) {
    if (rest_.substr(0, word.size()) != word) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  bool SkipText() {
    if (!Skip('"')) return false;
    for (size_t i = 0; i < rest_.size(); ++i) {
      if (rest_[i] == '\\') {
        ++i;
      } else if (rest_[i] == '"') {
        rest_.remove_prefix(i + 1);
        return true;
      }
    }
    return false;
  }

  absl::string_view rest_;
  bool ok_;
};

constexpr absl::string_view kEvaluationPrefix = "evaluation_";

// Returns the name of a metric that a program has named; an empty string for
// other fields.
absl::string_view NamedMetricOf(absl::string_view field) {
  constexpr auto& known = MetricsIndex::kFields;
  if (!absl::StartsWith(field, kEvaluationPrefix) ||
      std::find(known.begin(), known.end(), field) != known.end()) {
    return "";
  }
  const absl::string_view name = field.substr(kEvaluationPrefix.size());
  const bool valid = name.size() <= MetricsIndex::kMaxMetricName &&
                     std::all_of(name.begin(), name.end(), [](unsigned char c) {
                       return absl::ascii_isalnum(c) || c == '_';
                     });
  return valid ? name : "";
}

}  // namespace

void MetricsIndex::Clear() {
  lines_ = {};
  kinds_ = {};
  end_ = 0;
  skipping_ = false;
  tail_.clear();
}

void MetricsIndex::Restart() {
  if (!lines_.empty()) ++generation_;
  Clear();
}

bool MetricsIndex::Continues(const InputFile& file) const {
  if (file.facts().bytes < end_) return false;
  const auto size = static_cast<int64_t>(tail_.size());
  return file.Read(end_ - size, size) == tail_;
}

void MetricsIndex::Update(absl::Duration most) {
  const absl::Time deadline = MonotonicNow() + most;
  const absl::StatusOr<InputFile> file = open_();
  if (!file.ok()) return;
  if (file->facts().inode != inode_ || !Continues(*file)) Restart();
  inode_ = file->facts().inode;
  const int64_t bytes = file->facts().bytes;
  std::string block;
  int64_t size = std::min(kBlockBytes, bytes - end_);
  while (end_ < bytes) {
    block.resize(size);
    if (!file->ReadAt(end_, size, block.data())) return;
    const char* begin = block.data();
    const char* const block_end = begin + size;
    while (const void* const newline =
               std::memchr(begin, '\n', block_end - begin)) {
      const char* const end = static_cast<const char*>(newline);
      if (!std::exchange(skipping_, false)) {
        AddLine(absl::string_view(begin, end - begin),
                end_ + (begin - block.data()));
      }
      begin = end + 1;
    }
    if (block_end - begin >= kMaxLineBytes) skipping_ = true;
    if (skipping_) begin = block_end;
    const int64_t read = begin - block.data();
    if (read > 0) {
      end_ += read;
      const int64_t tail = std::min(read, kTailBytes);
      tail_.assign(begin - tail, tail);
      if (MonotonicNow() >= deadline) return;
      size = std::min(kBlockBytes, bytes - end_);
    } else if (end_ + size >= bytes) {
      return;  // The last line is not complete.
    } else {
      size = std::min(2 * size, bytes - end_);
    }
  }
}

void MetricsIndex::AddLine(absl::string_view text, int64_t offset) {
  Line line;
  line.offset = offset;
  line.bytes = static_cast<int32_t>(text.size());
  line.values.fill(kAbsent);
  NumberScanner scanner(text);
  bool has_step = false;
  double value = 0;
  while (const std::optional<absl::string_view> name = scanner.Next(&value)) {
    if (*name == "step" && value >= 0 && value < 1e18) {
      line.step = static_cast<int64_t>(value);
      has_step = true;
      continue;
    }
    const auto* const field = std::find(kFields.begin(), kFields.end(), *name);
    if (field == kFields.end()) {
      if (!NamedMetricOf(*name).empty()) line.has_named_metrics = true;
      continue;
    }
    line.values[field - kFields.begin()] = value;
    if (*name == "evaluation_loss") line.is_evaluation = true;
  }
  if (!has_step) return;
  Kind& kind = kinds_[line.is_evaluation ? 1 : 0];
  if (kind.seen++ % kind.stride != 0) return;
  ++kind.kept;
  lines_.push_back(line);
  if (lines_.size() == kMaxLines) Thin();
}

void MetricsIndex::Thin() {
  const size_t thinned = kinds_[0].kept >= kinds_[1].kept ? 0 : 1;
  size_t ordinal = 0;
  lines_.erase(std::remove_if(lines_.begin(), lines_.end(),
                              [&](const Line& line) {
                                return (line.is_evaluation ? 1U : 0U) ==
                                           thinned &&
                                       ordinal++ % 2 == 1;
                              }),
               lines_.end());
  kinds_[thinned].kept -= kinds_[thinned].kept / 2;
  kinds_[thinned].stride *= 2;
}

std::vector<std::string> MetricsIndex::Read(
    const std::vector<const Line*>& lines) const {
  std::vector<std::string> texts(lines.size());
  const absl::StatusOr<InputFile> file = open_();
  if (!file.ok()) return texts;
  for (size_t i = 0; i < lines.size(); ++i) {
    texts[i] = file->Read(lines[i]->offset, lines[i]->bytes);
  }
  return texts;
}

std::map<std::string, std::vector<double>> MetricsIndex::NamedMetrics(
    const std::vector<const Line*>& lines) const {
  std::map<std::string, std::vector<double>> metrics;
  const auto has_metrics = [](const Line* line) {
    return line->has_named_metrics && line->bytes <= kMaxEvaluationBytes;
  };
  if (std::none_of(lines.begin(), lines.end(), has_metrics)) return metrics;
  const absl::StatusOr<InputFile> file = open_();
  if (!file.ok()) return metrics;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (!has_metrics(lines[i])) continue;
    const std::string text = file->Read(lines[i]->offset, lines[i]->bytes);
    NumberScanner scanner(text);
    double value = 0;
    while (const auto field = scanner.Next(&value)) {
      const std::string name(NamedMetricOf(*field));
      if (name.empty()) continue;
      auto found = metrics.find(name);
      if (found == metrics.end()) {
        if (metrics.size() == kMaxNamedMetrics) continue;
        found =
            metrics.emplace(name, std::vector<double>(lines.size(), kAbsent))
                .first;
      }
      found->second[i] = value;
    }
  }
  return metrics;
}

std::string MetricsIndex::Csv() const {
  const auto is_shown = [](size_t field) {
    return kFields[field] != "resources_count";
  };
  std::string csv = "step";
  for (size_t i = 0; i < kFields.size(); ++i) {
    if (is_shown(i)) absl::StrAppend(&csv, ",", kFields[i]);
  }
  std::vector<const Line*> evaluations;
  for (const Line& line : lines_) {
    if (line.is_evaluation) evaluations.push_back(&line);
  }
  const auto metrics = NamedMetrics(evaluations);
  for (const auto& [name, values] : metrics) {
    absl::StrAppend(&csv, ",", kEvaluationPrefix, name);
  }
  csv += "\r\n";
  const auto append = [&csv](double value) {
    csv += ',';
    // Nine digits distinguish all float32 numbers.
    if (std::isfinite(value)) absl::StrAppendFormat(&csv, "%.9g", value);
  };
  size_t evaluation = 0;  // Position of the next one in `evaluations`.
  for (const Line& line : lines_) {
    absl::StrAppend(&csv, line.step);
    for (size_t i = 0; i < kFields.size(); ++i) {
      if (is_shown(i)) append(line.values[i]);
    }
    for (const auto& [name, values] : metrics) {
      append(line.is_evaluation ? values[evaluation] : kAbsent);
    }
    if (line.is_evaluation) ++evaluation;
    csv += "\r\n";
  }
  return csv;
}

}  // namespace tributary
