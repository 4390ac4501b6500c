// A thread that runs on the machine or, in a simulation, in virtual time (see
// runtime.h).
#ifndef TRIBUTARY_COMMON_BASE_THREAD_H_
#define TRIBUTARY_COMMON_BASE_THREAD_H_

#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "common/base/runtime.h"

namespace tributary {

// A thread, like std::thread: if it was started, Join must be called before the
// destructor. Movable.
class Thread {
 public:
  // Creates an object that has no thread.
  Thread() = default;
  explicit Thread(std::function<void()> body) {
    if (SimulatedRuntime == nullptr) {
      thread_ = std::thread(std::move(body));
    } else {
      simulated_ = SimulatedRuntime()->Start(std::move(body));
    }
  }

  // Returns true if there is a thread on which Join was not called yet.
  bool joinable() const { return simulated_ != nullptr || thread_.joinable(); }
  // Blocks until the body has returned. Requires joinable().
  void Join() {
    if (simulated_ == nullptr) {
      thread_.join();
    } else {
      std::exchange(simulated_, nullptr)->Join();
    }
  }

 private:
  std::thread thread_;
  std::unique_ptr<Runtime::Started> simulated_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_BASE_THREAD_H_
