#include "worker/data/files/data_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <limits>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace tributary {
namespace {

// Bytes read at a time: large enough to amortize the calls, small enough that a
// file whose header declares more than it has needs little memory.
constexpr int64_t kReadBytes = 1 << 20;
// Size of the buffer for compressed bytes.
constexpr size_t kInputBytes = 64 << 10;
// Maximum expansion of a deflate stream (zlib's technical notes).
constexpr int64_t kMaxDeflateRatio = 1032;

// Owns a file descriptor.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept
      : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }

  int get() const { return number_; }

 private:
  int number_;
};

class PlainFile final : public DataFile {
 public:
  PlainFile(std::string path, int64_t size, Descriptor file)
      : DataFile(std::move(path), size), file_(std::move(file)) {}

 private:
  absl::StatusOr<int64_t> ReadSome(char* to, int64_t count) override {
    ssize_t got;
    do {
      got = read(file_.get(), to, static_cast<size_t>(count));
    } while (got < 0 && errno == EINTR);
    if (got < 0) {
      return DataFileError(path(), absl::StrCat("read at byte ", offset_),
                           errno);
    }
    offset_ += got;
    return got;
  }

  const Descriptor file_;
  int64_t offset_ = 0;
};

class GzipFile final : public DataFile {
 public:
  // `compressed` has the same path.
  explicit GzipFile(std::unique_ptr<PlainFile> compressed)
      : DataFile(compressed->path(), InflatedBound(compressed->size_bound())),
        compressed_(std::move(compressed)) {}

  ~GzipFile() override {
    if (started_) inflateEnd(&stream_);
  }

 private:
  static int64_t InflatedBound(int64_t compressed_bytes) {
    constexpr int64_t kMax = std::numeric_limits<int64_t>::max();
    return compressed_bytes > kMax / kMaxDeflateRatio
               ? kMax
               : compressed_bytes * kMaxDeflateRatio;
  }

  absl::Status Damaged(absl::string_view reason) const {
    return absl::InvalidArgumentError(absl::StrCat(path(), ": byte ",
                                                   read_ - stream_.avail_in,
                                                   ": ", "gzip data ", reason));
  }

  // Makes at least one compressed byte available, unless the file has ended.
  absl::Status FillInput() {
    if (stream_.avail_in > 0) return absl::OkStatus();
    input_.clear();
    TRIBUTARY_RETURN_IF_ERROR(compressed_->Read(kInputBytes, &input_));
    read_ += static_cast<int64_t>(input_.size());
    stream_.next_in = reinterpret_cast<Bytef*>(&input_[0]);
    stream_.avail_in = static_cast<uInt>(input_.size());
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> ReadSome(char* to, int64_t count) override {
    stream_.next_out = reinterpret_cast<Bytef*>(to);
    stream_.avail_out = static_cast<uInt>(std::min(count, kReadBytes));
    const uInt wanted = stream_.avail_out;
    while (stream_.avail_out == wanted) {
      TRIBUTARY_RETURN_IF_ERROR(FillInput());
      if (!in_member_) {
        if (started_ && stream_.avail_in == 0) return 0;
        TRIBUTARY_RETURN_IF_ERROR(StartMember());
      } else if (stream_.avail_in == 0) {
        return Damaged("end too early: the file is cut off");
      }
      TRIBUTARY_RETURN_IF_ERROR(Inflate());
    }
    return wanted - stream_.avail_out;
  }

  absl::Status StartMember() {
    // 15 selects the largest window; 16 selects a gzip header and trailer.
    const int code =
        started_ ? inflateReset(&stream_) : inflateInit2(&stream_, 15 + 16);
    if (code != Z_OK) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path(), ": zlib cannot start: ", zError(code)));
    }
    started_ = true;
    in_member_ = true;
    return absl::OkStatus();
  }

  absl::Status Inflate() {
    const int code = inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_STREAM_END) {
      in_member_ = false;
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      return Damaged(absl::StrCat("are damaged: ", stream_.msg != nullptr
                                                       ? stream_.msg
                                                       : zError(code)));
    }
    return absl::OkStatus();
  }

  const std::unique_ptr<PlainFile> compressed_;
  std::string input_;
  int64_t read_ = 0;  // Number of compressed bytes passed to zlib.
  z_stream stream_ = {};
  bool started_ = false;    // True once inflateInit2 has been called.
  bool in_member_ = false;  // True between a header and its trailer.
};

}  // namespace

absl::Status DataFileError(absl::string_view path, absl::string_view action,
                           int error) {
  const std::string message =
      absl::StrCat(path, ": cannot ", action, ": ", strerror(error));
  if (error == ENOENT) return absl::NotFoundError(message);
  return absl::InvalidArgumentError(message);
}

DataFile::DataFile(std::string path, int64_t size_bound)
    : path_(std::move(path)), size_bound_(size_bound) {}

absl::StatusOr<std::unique_ptr<DataFile>> DataFile::Open(
    const std::string& path) {
  // Non-blocking: opening a named pipe would otherwise wait for its writer.
  Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) return DataFileError(path, "open", errno);
  struct stat information;
  if (fstat(file.get(), &information) != 0) {
    return DataFileError(path, "open", errno);
  }
  if (S_ISDIR(information.st_mode)) return DataFileError(path, "read", EISDIR);
  if (!S_ISREG(information.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": not a regular file"));
  }
  auto plain =
      std::make_unique<PlainFile>(path, information.st_size, std::move(file));
  if (!absl::EndsWith(path, ".gz")) return plain;
  return std::make_unique<GzipFile>(std::move(plain));
}

absl::Status DataFile::Read(int64_t count, std::string* bytes) {
  const int64_t begin = static_cast<int64_t>(bytes->size());
  int64_t size = begin;
  while (size < begin + count) {
    const int64_t ask = std::min(begin + count - size, kReadBytes);
    bytes->resize(static_cast<size_t>(size + ask));
    const absl::StatusOr<int64_t> got = ReadSome(&(*bytes)[size], ask);
    size += got.ok() ? *got : 0;
    bytes->resize(static_cast<size_t>(size));
    TRIBUTARY_RETURN_IF_ERROR(got.status());
    if (*got == 0) break;
  }
  return absl::OkStatus();
}

namespace {

// Checks the lines of a file while it is read.
class LineLengths {
 public:
  // `path` must outlive this object.
  LineLengths(const std::string& path, int64_t most_bytes)
      : path_(path), most_bytes_(most_bytes) {}

  // `bytes` are the next bytes of the file.
  absl::Status Add(absl::string_view bytes) {
    for (size_t end; (end = bytes.find('\n')) != absl::string_view::npos;) {
      TRIBUTARY_RETURN_IF_ERROR(Grow(end));
      bytes.remove_prefix(end + 1);
      length_ = 0;
      ++line_;
    }
    return Grow(bytes.size());
  }

 private:
  absl::Status Grow(size_t bytes) {
    length_ += static_cast<int64_t>(bytes);
    if (length_ <= most_bytes_) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ":", line_, ": a line of more than ", most_bytes_,
                     " bytes, the most that is read; is this a text file?"));
  }

  const std::string& path_;
  const int64_t most_bytes_;
  int64_t line_ = 1;
  int64_t length_ = 0;
};

// Appends the contents of the file at `path` to `bytes`, and passes each piece
// of them to `check`.
absl::Status AppendChecked(
    const std::string& path, int64_t limit_bytes,
    const std::function<absl::Status(absl::string_view)>& check,
    std::string* bytes) {
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<DataFile> file,
                             DataFile::Open(path));
  const int64_t before = static_cast<int64_t>(bytes->size());
  const int64_t room = limit_bytes - before;
  // The bound of a compressed file is too loose for reserving memory.
  if (!absl::EndsWith(path, ".gz") && file->size_bound() <= room) {
    // Includes the extra block that Read requests to detect the end.
    bytes->reserve(
        static_cast<size_t>(before + file->size_bound() + kReadBytes));
  }
  int64_t size = before;
  while (size <= limit_bytes) {
    TRIBUTARY_RETURN_IF_ERROR(
        file->Read(std::min(kReadBytes, limit_bytes + 1 - size), bytes));
    const absl::string_view piece = absl::string_view(*bytes).substr(size);
    if (piece.empty()) break;
    TRIBUTARY_RETURN_IF_ERROR(check(piece));
    size = static_cast<int64_t>(bytes->size());
  }
  if (size == before) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is empty"));
  }
  if (size > limit_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": byte ", room, ": the data are longer than ",
                     limit_bytes, " bytes, the most that is read"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status AppendWholeFile(const std::string& path, int64_t limit_bytes,
                             std::string* bytes) {
  return AppendChecked(
      path, limit_bytes, [](absl::string_view) { return absl::OkStatus(); },
      bytes);
}

absl::Status AppendLines(const std::string& path, int64_t limit_bytes,
                         int64_t line_bytes, std::string* bytes) {
  LineLengths lengths(path, line_bytes);
  return AppendChecked(
      path, limit_bytes,
      [&lengths](absl::string_view piece) { return lengths.Add(piece); },
      bytes);
}

}  // namespace tributary
