#include "common/os/listener.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace tributary {
namespace {

constexpr char kListening[] = "0A";  // TCP_LISTEN.

// An IPv4 address is mapped into IPv6, as in ::ffff:127.0.0.1.
absl::optional<in6_addr> ParseAddress(const std::string& host) {
  in6_addr address = {};
  if (inet_pton(AF_INET6, host.c_str(), &address) == 1) return address;
  if (inet_pton(AF_INET6, absl::StrCat("::ffff:", host).c_str(), &address) ==
      1) {
    return address;
  }
  return absl::nullopt;
}

// Parses an address of the kernel's table: words of 32 bits in the order of
// this machine, in hexadecimal.
absl::optional<in6_addr> ParseWords(absl::string_view text) {
  in6_addr address = {};
  const size_t words = text.size() / 8;
  if (text.size() % 8 != 0 || (words != 1 && words != 4)) return absl::nullopt;
  for (size_t i = 0; i < words; ++i) {
    uint32_t word = 0;
    if (!absl::SimpleHexAtoi(text.substr(8 * i, 8), &word)) {
      return absl::nullopt;
    }
    // One word is an IPv4 address.
    std::memcpy(&address.s6_addr[words == 1 ? 12 : 4 * i], &word, sizeof(word));
  }
  if (words == 1) std::memset(&address.s6_addr[10], 0xff, 2);
  return address;
}

// Returns true if a socket that is bound to `bound` accepts connections to
// `to`. A socket bound to :: may accept IPv4 as well.
bool Accepts(const in6_addr& bound, const in6_addr& to) {
  if (IN6_IS_ADDR_UNSPECIFIED(&bound) || IN6_ARE_ADDR_EQUAL(&bound, &to)) {
    return true;
  }
  return IN6_IS_ADDR_V4MAPPED(&bound) && IN6_IS_ADDR_V4MAPPED(&to) &&
         bound.s6_addr32[3] == 0;
}

}  // namespace

absl::StatusOr<std::set<uid_t>> ListenersAt(const std::string& host, int port) {
  const absl::optional<in6_addr> to = ParseAddress(host);
  if (!to.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", host, "\" is not a numeric address"));
  }
  std::set<uid_t> users;
  bool read = false;
  // The table of IPv6 is missing if the kernel has no IPv6.
  for (const char* const table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream file(table);
    std::string line;
    read = std::getline(file, line).good() || read;  // The heading.
    while (std::getline(file, line)) {
      // Number, local address, remote address, state, queues, timer,
      // retransmissions, user.
      const std::vector<absl::string_view> fields =
          absl::StrSplit(line, ' ', absl::SkipEmpty());
      if (fields.size() < 8 || fields[3] != kListening) continue;
      const std::vector<absl::string_view> local =
          absl::StrSplit(fields[1], ':');
      uint32_t bound_port = 0;
      uid_t user = 0;
      if (local.size() != 2 || !absl::SimpleHexAtoi(local[1], &bound_port) ||
          static_cast<int>(bound_port) != port ||
          !absl::SimpleAtoi(fields[7], &user)) {
        continue;
      }
      const absl::optional<in6_addr> bound = ParseWords(local[0]);
      if (bound.has_value() && Accepts(*bound, *to)) users.insert(user);
    }
  }
  if (read) return users;
  return absl::UnavailableError(
      "/proc/net/tcp cannot be read, so the user of a port is unknown");
}

}  // namespace tributary
