#include "server/checkpoint/verified_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/os/file_system.h"
#include "common/os/read_at.h"
#include "common/text/counted.h"

namespace tributary {

absl::StatusOr<std::unique_ptr<VerifiedFile>> VerifiedFile::Open(
    const std::string& folder, const CheckpointFile& facts) {
  const std::string path = absl::StrCat(folder, "/", facts.name());
  // O_NONBLOCK keeps open() from waiting if the path is a pipe.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) {
    return errno == ENOENT
               ? absl::DataLossError(absl::StrCat(path, ": is missing"))
               : FileError(errno, "cannot open", path);
  }
  auto file =
      std::unique_ptr<VerifiedFile>(new VerifiedFile(descriptor, path, facts));
  struct stat found;
  if (fstat(descriptor, &found) != 0) {
    return FileError(errno, "cannot stat", path);
  }
  if (!S_ISREG(found.st_mode)) {
    return absl::DataLossError(absl::StrCat(path, ": is not a regular file"));
  }
  if (found.st_size != facts.bytes()) {
    return absl::DataLossError(
        absl::StrCat(path, ": has ", Counted(found.st_size, "byte"),
                     ", expected ", facts.bytes(), ": bytes from ",
                     std::min<int64_t>(found.st_size, facts.bytes()),
                     " on are missing or extra"));
  }
  return file;
}

VerifiedFile::VerifiedFile(int descriptor, std::string path,
                           const CheckpointFile& facts)
    : descriptor_(descriptor), path_(std::move(path)), facts_(facts) {}

VerifiedFile::~VerifiedFile() { close(descriptor_); }

absl::Status VerifiedFile::Read(int64_t begin, int64_t count, char* to) {
  while (count > 0) {
    TRIBUTARY_RETURN_IF_ERROR(Load(begin / facts_.block_bytes()));
    const int64_t offset = begin % facts_.block_bytes();
    const int64_t part =
        std::min(count, static_cast<int64_t>(block_.size()) - offset);
    std::memcpy(to, block_.data() + offset, static_cast<size_t>(part));
    begin += part;
    count -= part;
    to += part;
  }
  return absl::OkStatus();
}

absl::Status VerifiedFile::VerifyAll() { return VerifyUpTo(facts_.bytes()); }

absl::StatusOr<SafetensorsFile> VerifiedFile::OpenTensors() {
  uint64_t length = 0;
  const int64_t length_bytes = sizeof(length);
  // SafetensorsFile::Open refuses a file that is too short for a header.
  if (facts_.bytes() >= length_bytes) {
    TRIBUTARY_RETURN_IF_ERROR(
        Read(0, length_bytes, reinterpret_cast<char*>(&length)));
    const uint64_t rest = static_cast<uint64_t>(facts_.bytes() - length_bytes);
    TRIBUTARY_RETURN_IF_ERROR(VerifyUpTo(
        length_bytes + static_cast<int64_t>(std::min(length, rest))));
  }
  return SafetensorsFile::Open(path_);
}

absl::Status VerifiedFile::VerifyUpTo(int64_t end) {
  for (int64_t begin = 0; begin < end; begin += facts_.block_bytes()) {
    TRIBUTARY_RETURN_IF_ERROR(Load(begin / facts_.block_bytes()));
  }
  return absl::OkStatus();
}

absl::Status VerifiedFile::BlockError(int64_t number,
                                      absl::string_view what) const {
  const int64_t begin = number * facts_.block_bytes();
  const int64_t end = std::min(begin + facts_.block_bytes(), facts_.bytes());
  return absl::DataLossError(
      absl::StrCat(path_, ": bytes ", begin, " to ", end, what));
}

absl::Status VerifiedFile::Fetch(int64_t number) {
  const int64_t begin = number * facts_.block_bytes();
  const int64_t end = std::min(begin + facts_.block_bytes(), facts_.bytes());
  block_.resize(static_cast<size_t>(end - begin));
  const int64_t got = ReadAt(descriptor_, begin, end - begin, block_.data());
  if (got == end - begin) return absl::OkStatus();
  return BlockError(
      number, got < 0 ? absl::StrCat(" cannot be read: ", std::strerror(errno))
                      : absl::StrCat(": the file ends at ", begin + got));
}

absl::Status VerifiedFile::Load(int64_t number) {
  if (number == loaded_) return absl::OkStatus();
  loaded_ = -1;
  TRIBUTARY_RETURN_IF_ERROR(Fetch(number));
  if (XXH3_64bits(block_.data(), block_.size()) !=
      facts_.block_digest(static_cast<int>(number))) {
    return BlockError(number,
                      " do not match their digest; the file is damaged");
  }
  loaded_ = number;
  return absl::OkStatus();
}

absl::StatusOr<CheckpointFile> DescribeFile(const std::string& folder,
                                            const std::string& name) {
  CheckpointFile facts;
  facts.set_name(name);
  facts.set_block_bytes(kDigestBlockBytes);
  const std::string path = absl::StrCat(folder, "/", name);
  struct stat found;
  if (stat(path.c_str(), &found) != 0) {
    return FileError(errno, "cannot stat", path);
  }
  facts.set_bytes(found.st_size);
  TRIBUTARY_ASSIGN_OR_RETURN(const std::unique_ptr<VerifiedFile> file,
                             VerifiedFile::Open(folder, facts));
  for (int64_t block = 0; block * kDigestBlockBytes < facts.bytes(); ++block) {
    TRIBUTARY_RETURN_IF_ERROR(file->Fetch(block));
    facts.add_block_digest(
        XXH3_64bits(file->block_.data(), file->block_.size()));
  }
  return facts;
}

}  // namespace tributary
