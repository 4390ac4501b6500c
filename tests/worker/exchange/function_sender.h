// A GradientSender for tests of what is sent.
#ifndef TRIBUTARY_TESTS_WORKER_EXCHANGE_FUNCTION_SENDER_H_
#define TRIBUTARY_TESTS_WORKER_EXCHANGE_FUNCTION_SENDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

#include "worker/exchange/step_gradients.h"

namespace tributary {

// Calls a function with each sum.
class FunctionSender final : public GradientSender {
 public:
  explicit FunctionSender(std::function<void(NodeChunk)> send)
      : send_(std::move(send)) {}
  void Push(int64_t /*step*/, NodeChunk sum) override { send_(std::move(sum)); }

 private:
  const std::function<void(NodeChunk)> send_;
};

// Makes one FunctionSender the sender of all chunks.
inline StepGradients::Senders SendTo(std::function<void(NodeChunk)> send) {
  return [sender = std::make_shared<FunctionSender>(std::move(send))](int) {
    return sender.get();
  };
}

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_WORKER_EXCHANGE_FUNCTION_SENDER_H_
