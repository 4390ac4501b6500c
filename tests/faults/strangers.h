// Misbehaving peers, as a server on an open network may see them.
#ifndef TRIBUTARY_TESTS_FAULTS_STRANGERS_H_
#define TRIBUTARY_TESTS_FAULTS_STRANGERS_H_

#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace tributary {

// Connects a non-blocking socket to 127.0.0.1:`port`, from a different address
// for each hundred values of `number`. Returns the socket, or -1 on failure.
int ConnectStranger(int port, int number);

// Misbehaves on a thread of its own until it is destroyed.
class Strangers {
 public:
  virtual ~Strangers() { Stop(); }
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;

 protected:
  Strangers() = default;
  // Starts to call `turn` repeatedly. Call it at the end of a constructor.
  void Work(std::function<void()> turn);
  // Ends the thread. Call it at the start of a destructor.
  void Stop();

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Connections that send nothing, or one byte of `script` about every 0.1 s.
// They reconnect when the server closes them.
class SlowStrangers final : public Strangers {
 public:
  SlowStrangers(int port, int count, std::string script);
  ~SlowStrangers() override;

 private:
  struct Stranger {
    int socket = -1;
    size_t said = 0;
  };
  void Turn();

  const int port_;
  const std::string script_;
  std::vector<Stranger> strangers_;
};

// Repeatedly connects, sends 1 KiB of random bytes and disconnects.
class RandomStrangers final : public Strangers {
 public:
  explicit RandomStrangers(int port);
  ~RandomStrangers() override;

 private:
  const int port_;
  int number_ = 0;
};

// Calls `call` repeatedly.
class CallingStrangers final : public Strangers {
 public:
  explicit CallingStrangers(std::function<void()> call);
  ~CallingStrangers() override;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_FAULTS_STRANGERS_H_
