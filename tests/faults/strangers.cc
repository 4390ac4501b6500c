#include "tests/faults/strangers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <unistd.h>

#include <random>
#include <utility>

namespace tributary {
namespace {

constexpr int kTurnMs = 100;
constexpr int kPerAddress = 100;
// New connections per turn: few enough that the kernel does not drop them.
constexpr int kConnectsPerTurn = 500;

sockaddr_in Loopback(uint32_t host, int port) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(0x7f000000u + host);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

// Returns whether the other end has closed the connection.
bool IsCut(int socket) {
  char bytes[4096];
  const ssize_t result = recv(socket, bytes, sizeof(bytes), 0);
  return result == 0 || (result < 0 && errno != EAGAIN && errno != EWOULDBLOCK);
}

}  // namespace

int ConnectStranger(int port, int number) {
  const int stranger = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (stranger < 0) return -1;
  // The job's own processes use 127.0.0.1, so strangers use other addresses.
  const sockaddr_in from =
      Loopback(0x100 + static_cast<uint32_t>(number / kPerAddress), 0);
  const sockaddr_in to = Loopback(1, port);
  if (bind(stranger, reinterpret_cast<const sockaddr*>(&from), sizeof(from)) !=
          0 ||
      connect(stranger, reinterpret_cast<const sockaddr*>(&to), sizeof(to)) !=
          0) {
    close(stranger);
    return -1;
  }
  fcntl(stranger, F_SETFL, O_NONBLOCK);
  return stranger;
}

void Strangers::Work(std::function<void()> turn) {
  thread_ = std::thread([this, turn = std::move(turn)] {
    while (!stop_) turn();
  });
}

void Strangers::Stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

SlowStrangers::SlowStrangers(int port, int count, std::string script)
    : port_(port), script_(std::move(script)), strangers_(count) {
  Work([this] { Turn(); });
}

SlowStrangers::~SlowStrangers() {
  Stop();
  for (const Stranger& stranger : strangers_) {
    if (stranger.socket >= 0) close(stranger.socket);
  }
}

void SlowStrangers::Turn() {
  int connects = 0;
  for (size_t i = 0; i < strangers_.size(); ++i) {
    Stranger& stranger = strangers_[i];
    if (stranger.socket >= 0 && IsCut(stranger.socket)) {
      close(stranger.socket);
      stranger = Stranger();
    }
    if (stranger.socket < 0 && connects < kConnectsPerTurn) {
      ++connects;
      stranger.socket = ConnectStranger(port_, static_cast<int>(i));
    }
    if (stranger.socket >= 0 && stranger.said < script_.size()) {
      stranger.said +=
          send(stranger.socket, &script_[stranger.said], 1, MSG_NOSIGNAL) == 1;
    }
  }
  poll(nullptr, 0, kTurnMs);
}

RandomStrangers::RandomStrangers(int port) : port_(port) {
  Work([this, random = std::mt19937(1)]() mutable {
    const int stranger = ConnectStranger(port_, number_++ % 10000);
    if (stranger < 0) return;
    char bytes[1024];
    for (char& byte : bytes) byte = static_cast<char>(random());
    (void)send(stranger, bytes, sizeof(bytes), MSG_NOSIGNAL);
    close(stranger);
  });
}

RandomStrangers::~RandomStrangers() { Stop(); }

CallingStrangers::CallingStrangers(std::function<void()> call) {
  Work(std::move(call));
}

CallingStrangers::~CallingStrangers() { Stop(); }

}  // namespace tributary
