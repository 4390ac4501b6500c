#include "deploy/dashboard/metrics_index.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>

#include "absl/cleanup/cleanup.h"

namespace tributary {
namespace {

constexpr int64_t kBlockBytes = 4 << 20;
// Longer lines are skipped: the lines of 100,000 workers are shorter.
constexpr int64_t kMaxLineBytes = 32 << 20;
constexpr int64_t kTailBytes = 64;

constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();

// Reads exactly `bytes` bytes at `offset`. Returns false if it cannot.
bool ReadAt(int fd, int64_t offset, int64_t bytes, char* to) {
  while (bytes > 0) {
    const ssize_t count = pread(fd, to, bytes, offset);
    if (count <= 0) return false;
    offset += count;
    bytes -= count;
    to += count;
  }
  return true;
}

// Finds the members of an object that are numbers, up to the first member that
// is an object or an array. nlohmann::json is ten times as slow.
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
      const bool is_number = error == std::errc();
      if (is_number) {
        rest_.remove_prefix(end - rest_.data());
      } else if (!SkipWord("null") && !SkipWord("true") && !SkipWord("false") &&
                 !SkipText()) {
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

void MetricsIndex::Restart() {
  if (!lines_.empty()) ++generation_;
  lines_.clear();
  end_ = 0;
  tail_.clear();
}

bool MetricsIndex::Continues(int fd, int64_t size) const {
  if (size < end_) return false;
  std::string tail(tail_.size(), '\0');
  return ReadAt(fd, end_ - static_cast<int64_t>(tail.size()),
                static_cast<int64_t>(tail.size()), tail.data()) &&
         tail == tail_;
}

void MetricsIndex::Update() {
  const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  const absl::Cleanup closer = [fd] { close(fd); };
  struct stat status;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return;
  if (status.st_ino != inode_ || !Continues(fd, status.st_size)) Restart();
  inode_ = status.st_ino;
  std::string block;
  int64_t size = std::min<int64_t>(kBlockBytes, status.st_size - end_);
  while (end_ < status.st_size) {
    block.resize(size);
    if (!ReadAt(fd, end_, size, block.data())) return;
    const char* begin = block.data();
    const char* const block_end = begin + size;
    while (const void* const newline =
               std::memchr(begin, '\n', block_end - begin)) {
      const char* const end = static_cast<const char*>(newline);
      AddLine(absl::string_view(begin, end - begin),
              end_ + (begin - block.data()));
      begin = end + 1;
    }
    const int64_t read = begin - block.data();
    if (read > 0) {
      end_ += read;
      const int64_t tail = std::min(read, kTailBytes);
      tail_.assign(begin - tail, tail);
      size = std::min<int64_t>(kBlockBytes, status.st_size - end_);
    } else if (end_ + size >= status.st_size) {
      return;  // The last line is not complete.
    } else if (size > kMaxLineBytes) {
      return;
    } else {
      size = std::min<int64_t>(2 * size, status.st_size - end_);
    }
  }
}

void MetricsIndex::AddLine(absl::string_view text, int64_t offset) {
  Line line;
  line.offset = offset;
  line.bytes = static_cast<int64_t>(text.size());
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
    if (field != kFields.end()) line.values[field - kFields.begin()] = value;
  }
  if (has_step) lines_.push_back(line);
}

std::string MetricsIndex::Read(const Line& line) const {
  const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  const absl::Cleanup closer = [fd] { close(fd); };
  std::string text(line.bytes, '\0');
  return ReadAt(fd, line.offset, line.bytes, text.data()) ? text : "";
}

}  // namespace tributary
