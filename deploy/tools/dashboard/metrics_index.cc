#include "deploy/tools/dashboard/metrics_index.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

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
    if (field == kFields.end()) continue;
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

std::string MetricsIndex::Csv() const {
  const auto is_shown = [](size_t field) {
    return kFields[field] != "resources_count";
  };
  std::string csv = "step";
  for (size_t i = 0; i < kFields.size(); ++i) {
    if (is_shown(i)) absl::StrAppend(&csv, ",", kFields[i]);
  }
  csv += "\r\n";
  for (const Line& line : lines_) {
    absl::StrAppend(&csv, line.step);
    for (size_t i = 0; i < kFields.size(); ++i) {
      if (!is_shown(i)) continue;
      csv += ',';
      // Nine digits distinguish all float32 numbers.
      if (std::isfinite(line.values[i])) {
        absl::StrAppendFormat(&csv, "%.9g", line.values[i]);
      }
    }
    csv += "\r\n";
  }
  return csv;
}

}  // namespace tributary
