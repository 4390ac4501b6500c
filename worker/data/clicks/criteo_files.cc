#include "worker/data/clicks/criteo_files.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "worker/data/files/data_file.h"
#include "worker/data/files/data_fingerprint.h"
#include "worker/data/files/file_magic.h"

namespace tributary {
namespace {

constexpr int64_t kBlockRows = 1 << 14;
constexpr int64_t kPieceBytes = 1 << 20;

void AppendNumber(uint64_t number, std::string* bytes) {
  for (int shift = 0; shift < 64; shift += 8) {
    bytes->push_back(static_cast<char>(number >> shift & 0xff));
  }
}

}  // namespace

// Reads the lines of one file.
class CriteoFiles::FileReader {
 public:
  // The arguments must outlive this object.
  FileReader(const std::string& path, const CriteoFiles& files, Part* part)
      : path_(path), files_(files), part_(part) {}

  // At most `*bytes_left` bytes are read, and subtracted.
  absl::Status Read(int64_t* bytes_left, std::string* hashed) {
    TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<DataFile> file,
                               DataFile::Open(path_));
    DataHasher hasher;
    int64_t size = 0;
    while (true) {
      const size_t before = text_.size();
      TRIBUTARY_RETURN_IF_ERROR(file->Read(kPieceBytes, &text_));
      const absl::string_view piece = absl::string_view(text_).substr(before);
      if (piece.empty()) break;
      if (size == 0 && absl::StartsWith(piece, kGzipMagic)) {
        return absl::InvalidArgumentError(absl::StrCat(
            path_,
            ": is gzip data; rename the file so that its name ends in "
            ".gz"));
      }
      hasher.Append(piece);
      size += static_cast<int64_t>(piece.size());
      if (size > *bytes_left) {
        return absl::InvalidArgumentError(
            absl::StrCat(path_, ": with the files before it, has more than ",
                         kMaxDataBytes, " bytes, the most that is read"));
      }
      TRIBUTARY_RETURN_IF_ERROR(TakeLines());
    }
    if (size == 0) {
      return absl::InvalidArgumentError(absl::StrCat(path_, ": is empty"));
    }
    if (!text_.empty()) TRIBUTARY_RETURN_IF_ERROR(TakeLine(text_));
    *bytes_left -= size;
    AppendNumber(hasher.Fingerprint(), hashed);
    AppendNumber(static_cast<uint64_t>(size), hashed);
    return absl::OkStatus();
  }

 private:
  // Takes the complete lines from text_.
  absl::Status TakeLines() {
    absl::string_view rest = text_;
    for (size_t end; (end = rest.find('\n')) != absl::string_view::npos;
         rest.remove_prefix(end + 1)) {
      TRIBUTARY_RETURN_IF_ERROR(TakeLine(rest.substr(0, end)));
    }
    if (static_cast<int64_t>(rest.size()) > kMaxCriteoLineBytes) {
      return TakeLine(rest);
    }
    text_.erase(0, text_.size() - rest.size());
    return absl::OkStatus();
  }

  absl::Status TakeLine(absl::string_view line) {
    ++line_;
    absl::ConsumeSuffix(&line, "\r");
    const absl::Status status =
        static_cast<int64_t>(line.size()) > kMaxCriteoLineBytes
            ? absl::InvalidArgumentError(absl::StrCat(
                  "the line has more than ", kMaxCriteoLineBytes, " bytes"))
            : files_.AppendLine(line, part_);
    if (status.ok()) return status;
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ":", line_, ": ", status.message()));
  }

  const std::string& path_;
  const CriteoFiles& files_;
  Part* const part_;
  std::string text_;  // Read, but not parsed yet.
  int64_t line_ = 0;
};

CriteoFiles::CriteoFiles(FeatureReader reader) : reader_(std::move(reader)) {}

absl::StatusOr<std::unique_ptr<CriteoFiles>> CriteoFiles::Open(
    const CriteoSpec& spec, FeatureReader reader) {
  auto files = std::unique_ptr<CriteoFiles>(new CriteoFiles(std::move(reader)));
  if (spec.train().empty()) {
    return absl::InvalidArgumentError("data.criteo.train: must be set");
  }
  int64_t bytes_left = kMaxDataBytes;
  std::string hashed;
  TRIBUTARY_RETURN_IF_ERROR(
      files->ReadPart(spec.train(), &bytes_left, &files->train_, &hashed));
  absl::StrAppend(&hashed, "|", files->train_.rows, "|");
  TRIBUTARY_RETURN_IF_ERROR(
      files->ReadPart(spec.test(), &bytes_left, &files->test_, &hashed));
  files->fingerprint_ = DataFingerprint({hashed});
  return files;
}

absl::Status CriteoFiles::ReadPart(
    const google::protobuf::RepeatedPtrField<std::string>& paths,
    int64_t* bytes_left, Part* part, std::string* hashed) const {
  for (const std::string& path : paths) {
    TRIBUTARY_RETURN_IF_ERROR(
        FileReader(path, *this, part).Read(bytes_left, hashed));
  }
  if (!part->blocks.empty()) part->blocks.back().numbers.shrink_to_fit();
  return absl::OkStatus();
}

absl::Status CriteoFiles::AppendLine(absl::string_view line, Part* part) const {
  CriteoLine parsed;
  TRIBUTARY_RETURN_IF_ERROR(ParseCriteoLine(line, &parsed));
  if (part->rows % kBlockRows == 0) {
    part->blocks.push_back({{}, {}, KeyTable(reader_)});
    part->blocks.back().numbers.reserve(kBlockRows * kCriteoNumbers);
    part->blocks.back().labels.reserve(kBlockRows);
    part->blocks.back().keys.Reserve(kBlockRows);
  }
  Block& block = part->blocks.back();
  block.numbers.insert(block.numbers.end(), parsed.features.begin(),
                       parsed.features.end());
  block.labels.push_back(static_cast<uint8_t>(parsed.label));
  std::array<absl::string_view, kCriteoColumns> texts;
  const std::vector<int64_t>& columns = reader_.columns();
  for (size_t i = 0; i < columns.size(); ++i) {
    texts[i] = parsed.texts[static_cast<size_t>(columns[i])];
  }
  TRIBUTARY_RETURN_IF_ERROR(block.keys.AppendRow(
      reader_, absl::MakeConstSpan(texts).first(columns.size())));
  ++part->rows;
  return absl::OkStatus();
}

void CriteoFiles::Read(bool held_out, int64_t index, float* numbers,
                       int32_t* label,
                       absl::Span<std::vector<uint64_t>* const> keys) const {
  const Part& part = held_out ? test_ : train_;
  const Block& block = part.blocks[static_cast<size_t>(index / kBlockRows)];
  const int64_t row = index % kBlockRows;
  std::copy_n(block.numbers.data() + row * kCriteoNumbers, kCriteoNumbers,
              numbers);
  *label = block.labels[static_cast<size_t>(row)];
  for (size_t i = 0; i < keys.size(); ++i) {
    const absl::Span<const uint64_t> of_row = block.keys.Keys(row, i);
    keys[i]->insert(keys[i]->end(), of_row.begin(), of_row.end());
  }
}

}  // namespace tributary
