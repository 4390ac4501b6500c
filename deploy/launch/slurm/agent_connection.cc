#include "deploy/launch/slurm/agent_connection.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

// Bounds what a peer can make this process store.
constexpr size_t kMaxLineBytes = 4 << 20;
constexpr size_t kMaxQueuedBytes = 64 << 20;
constexpr size_t kCodeDigits = 64;

AgentRole Other(AgentRole role) {
  return role == AgentRole::kLauncher ? AgentRole::kAgent
                                      : AgentRole::kLauncher;
}

}  // namespace

LineSeal::LineSeal(std::string key, std::string nonce, AgentRole role)
    : key_(std::move(key)), nonce_(std::move(nonce)), role_(role) {}

std::string LineSeal::Code(AgentRole sender, uint64_t number,
                           absl::string_view text) const {
  // The nonce has a fixed length and the number ends with a space, so the
  // parts cannot be divided in a different way.
  const std::string all = absl::StrCat(
      nonce_, sender == AgentRole::kLauncher ? "L" : "A", number, " ", text);
  unsigned char code[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  HMAC(EVP_sha256(), key_.data(), static_cast<int>(key_.size()),
       reinterpret_cast<const unsigned char*>(all.data()), all.size(), code,
       &size);
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(code), size));
}

std::string LineSeal::Seal(absl::string_view text) {
  return absl::StrCat(Code(role_, sent_++, text), " ", text);
}

absl::StatusOr<std::string> LineSeal::Open(absl::string_view line) {
  const absl::Status refused =
      absl::PermissionDeniedError("a line is not the peer's");
  if (line.size() <= kCodeDigits || line[kCodeDigits] != ' ') return refused;
  const absl::string_view text = line.substr(kCodeDigits + 1);
  const std::string code = Code(Other(role_), received_, text);
  if (CRYPTO_memcmp(code.data(), line.data(), kCodeDigits) != 0) return refused;
  ++received_;
  return std::string(text);
}

absl::StatusOr<std::string> RandomKey() {
  unsigned char bytes[32];
  if (RAND_bytes(bytes, sizeof(bytes)) != 1) {
    return absl::InternalError("OpenSSL cannot create random bytes");
  }
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(bytes), sizeof(bytes)));
}

LineSocket::LineSocket(int fd) : fd_(fd) {
  if (fd_ < 0) return;
  fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);
  fcntl(fd_, F_SETFD, FD_CLOEXEC);
}

LineSocket::~LineSocket() { Close(); }

LineSocket::LineSocket(LineSocket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      in_(std::move(other.in_)),
      out_(std::move(other.out_)) {}

LineSocket& LineSocket::operator=(LineSocket&& other) noexcept {
  Close();
  fd_ = std::exchange(other.fd_, -1);
  in_ = std::move(other.in_);
  out_ = std::move(other.out_);
  return *this;
}

void LineSocket::Close() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

void LineSocket::Send(absl::string_view line) {
  absl::StrAppend(&out_, line, "\n");
  Flush();
  if (out_.size() > kMaxQueuedBytes) Close();
}

void LineSocket::Flush() {
  while (open() && !out_.empty()) {
    const ssize_t count = send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0) return Close();
    out_.erase(0, count);
  }
}

std::vector<std::string> LineSocket::Receive(size_t most) {
  Flush();
  std::vector<std::string> lines;
  char bytes[16384];
  bool ended = false;
  while (open() && !ended && in_.size() <= kMaxLineBytes) {
    const ssize_t count = recv(fd_, bytes, sizeof(bytes), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count > 0) in_.append(bytes, count);
    ended = count <= 0;
  }
  size_t begin = 0;
  size_t end = 0;
  while (lines.size() < most &&
         (end = in_.find('\n', begin)) != std::string::npos) {
    lines.push_back(in_.substr(begin, end - begin));
    begin = end + 1;
  }
  in_.erase(0, begin);
  if (ended || (lines.empty() && in_.size() > kMaxLineBytes)) Close();
  return lines;
}

AgentConnection::AgentConnection(LineSocket socket, LineSeal seal)
    : socket_(std::move(socket)), seal_(std::move(seal)) {}

void AgentConnection::Send(const nlohmann::json& message) {
  socket_.Send(seal_.Seal(
      message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
}

std::vector<nlohmann::json> AgentConnection::Receive() {
  std::vector<nlohmann::json> messages;
  for (const std::string& line : socket_.Receive(/*most=*/10000)) {
    const absl::StatusOr<std::string> text = seal_.Open(line);
    if (!text.ok()) {
      socket_.Close();
      break;
    }
    silent_beats_ = 0;
    nlohmann::json message = ParseJson(*text);
    if (message.is_object() && !message.empty()) {
      messages.push_back(std::move(message));
    }
  }
  return messages;
}

void AgentConnection::Beat(absl::Time now) {
  if (now < next_beat_) return;
  next_beat_ = now + kBeat;
  if (++silent_beats_ > kMostSilentBeats) return socket_.Close();
  Send(nlohmann::json::object());
}

}  // namespace tributary
