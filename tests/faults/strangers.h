// Peers that mean no good, or know no better: what a server on a network gets
// to see.
#ifndef TRIBUTARY_TESTS_FAULTS_STRANGERS_H_
#define TRIBUTARY_TESTS_FAULTS_STRANGERS_H_

#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace tributary {

// A socket connected to 127.0.0.1:`port` from an address of its own for each
// hundred `number`s; -1 if that did not work. Non-blocking.
int ConnectStranger(int port, int number);

// Works on a thread of its own from construction until it is destroyed.
class Strangers {
 public:
  virtual ~Strangers() { Stop(); }
  Strangers(const Strangers&) = delete;
  Strangers& operator=(const Strangers&) = delete;

 protected:
  Strangers() = default;
  // Calls `turn` again and again; to be called at the end of a constructor.
  void Work(std::function<void()> turn);
  // At the beginning of a destructor.
  void Stop();

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Connections that say nothing, or one byte of `script` in each turn of some
// 0.1 s. Those that are cut connect again.
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

// Connects, sends 1 KiB of random bytes and leaves, without a pause.
class RandomStrangers final : public Strangers {
 public:
  explicit RandomStrangers(int port);
  ~RandomStrangers() override;

 private:
  const int port_;
  int number_ = 0;
};

// Calls `call` without a pause.
class CallingStrangers final : public Strangers {
 public:
  explicit CallingStrangers(std::function<void()> call);
  ~CallingStrangers() override;
};

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_FAULTS_STRANGERS_H_
