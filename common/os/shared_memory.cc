#include "common/os/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <new>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace tributary {
namespace {

constexpr int kTokenBytes = 16;

absl::Status SystemError(absl::StatusCode code, const char* what) {
  return absl::Status(
      code, absl::StrCat("shared memory: ", what, ": ", strerror(errno)));
}

absl::Status Refused(const char* what) {
  return SystemError(absl::StatusCode::kFailedPrecondition, what);
}

// Closes a file descriptor when it goes out of scope.
class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int get() const { return descriptor_; }
  int Release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_;
};

std::string RandomToken() {
  std::random_device random;
  std::string token(kTokenBytes, '\0');
  for (char& c : token) c = static_cast<char>(random());
  return token;
}

}  // namespace

std::string HostIdentity() {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  char network[64] = {};
  if (readlink("/proc/self/ns/net", network, sizeof(network) - 1) < 0) {
    network[0] = '\0';
  }
  return absl::StrCat(boot, " ", network);
}

absl::StatusOr<std::shared_ptr<SharedMemory>> SharedMemory::Create(
    int64_t bytes) {
  std::shared_ptr<SharedMemory> memory(new SharedMemory());
  memory->bytes_ = RoundUpToPage(bytes);
  memory->descriptor_ =
      memfd_create("tributary", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  const int descriptor = memory->descriptor_;
  const int64_t total = kPageBytes + memory->bytes_;
  constexpr auto kUnavailable = absl::StatusCode::kUnavailable;
  if (descriptor < 0) return SystemError(kUnavailable, "cannot be created");
  if (fchmod(descriptor, S_IRUSR | S_IWUSR) != 0 ||
      ftruncate(descriptor, total) != 0 ||
      fcntl(descriptor, F_ADD_SEALS,
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return SystemError(kUnavailable, "cannot be set up");
  }
  void* const begin = mmap(nullptr, total, PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (begin == MAP_FAILED) return SystemError(kUnavailable, "cannot be mapped");
  memory->begin_ = static_cast<char*>(begin);
  memory->data_ = memory->begin_ + kPageBytes;
  memory->offer_.set_process(getpid());
  memory->offer_.set_descriptor_number(descriptor);
  memory->offer_.set_bytes(memory->bytes_);
  memory->offer_.set_token(RandomToken());
  std::memcpy(memory->begin_, memory->offer_.token().data(), kTokenBytes);
  return memory;
}

SharedMemory::~SharedMemory() {
  if (begin_ != nullptr) munmap(begin_, kPageBytes + bytes_);
  if (descriptor_ >= 0) close(descriptor_);
}

absl::StatusOr<std::shared_ptr<const MappedMemory>> MappedMemory::Map(
    const SharedMemoryOffer& offer) {
  const std::string path = absl::StrCat("/proc/", offer.process(), "/fd/",
                                        offer.descriptor_number());
  // Checked before it is opened: opening some kinds of files has side effects.
  const Descriptor seen(open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat status;
  if (seen.get() < 0 || fstat(seen.get(), &status) != 0) {
    return Refused("the memory of the peer cannot be reached");
  }
  const bool sound = S_ISREG(status.st_mode) && status.st_uid == geteuid() &&
                     offer.bytes() > 0 && offer.bytes() % kPageBytes == 0 &&
                     status.st_size - kPageBytes == offer.bytes() &&
                     offer.token().size() == kTokenBytes;
  if (!sound) {
    return absl::FailedPreconditionError(
        "shared memory: the memory of the peer does not match its offer, or "
        "belongs to another user");
  }
  Descriptor opened(open(absl::StrCat("/proc/self/fd/", seen.get()).c_str(),
                         O_RDONLY | O_CLOEXEC));
  if (opened.get() < 0) {
    return Refused("the memory of the peer cannot be opened");
  }
  const int seals = fcntl(opened.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return absl::FailedPreconditionError(
        "shared memory: the memory of the peer could shrink while it is read");
  }
  void* const begin = mmap(nullptr, kPageBytes + offer.bytes(), PROT_READ,
                           MAP_SHARED | MAP_NORESERVE, opened.get(), 0);
  if (begin == MAP_FAILED) {
    return Refused("the memory of the peer cannot be mapped");
  }
  std::shared_ptr<MappedMemory> memory(new MappedMemory());
  memory->begin_ = static_cast<const char*>(begin);
  memory->data_ = memory->begin_ + kPageBytes;
  memory->bytes_ = offer.bytes();
  memory->descriptor_ = opened.Release();
  if (std::memcmp(memory->begin_, offer.token().data(), kTokenBytes) != 0) {
    return absl::FailedPreconditionError(
        "shared memory: the offer names the memory of another process");
  }
  return std::shared_ptr<const MappedMemory>(std::move(memory));
}

MappedMemory::~MappedMemory() {
  munmap(const_cast<char*>(begin_), kPageBytes + bytes_);
  close(descriptor_);
}

absl::Status MappedMemory::MapAt(void* to, int64_t offset,
                                 int64_t bytes) const {
  if (mmap(to, bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE | MAP_FIXED,
           descriptor_, kPageBytes + offset) == MAP_FAILED) {
    return Refused("the memory of the peer cannot be mapped in place");
  }
  return absl::OkStatus();
}

PrivatePages::PrivatePages(int64_t bytes, PageSize size)
    : bytes_(RoundUpToPage(bytes)) {
  void* const memory = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  madvise(memory, bytes_,
          size == PageSize::kHuge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  data_ = static_cast<char*>(memory);
}

void PrivatePages::Populate(int64_t offset, int64_t bytes) const {
  if (madvise(data_ + offset, bytes, MADV_POPULATE_WRITE) == 0) return;
  // Linux before 5.14. Atomic, so that the write loses no other thread's.
  for (int64_t page = offset; page < offset + bytes; page += kPageBytes) {
    __atomic_fetch_or(data_ + page, 0, __ATOMIC_RELAXED);
  }
}

PrivatePages::~PrivatePages() { munmap(data_, bytes_); }

void DropPages(char* data, int64_t bytes) {
  const auto at = reinterpret_cast<int64_t>(data);
  const int64_t begin = RoundUpToPage(at);
  const int64_t end = (at + bytes) / kPageBytes * kPageBytes;
  if (begin < end) {
    madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
}

}  // namespace tributary
