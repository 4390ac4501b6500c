// Calls that send one request and receive a stream of answers.
#ifndef TRIBUTARY_COMMON_STREAM_READ_CALL_H_
#define TRIBUTARY_COMMON_STREAM_READ_CALL_H_

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/stream/message_stream.h"
#include "common/stream/received_payload.h"

namespace tributary {

// The client's end of such a call. Use it once.
template <typename In, typename Out>
class ReadCall final : private ClientSession<In, Out> {
 public:
  // Passes each answer to `take`, on a thread of the stream. An error of `take`
  // cancels the call.
  ReadCall(std::unique_ptr<ClientStream<In, Out>> stream,
           std::function<absl::Status(const In&, const ReceivedPayload&)> take)
      : take_(std::move(take)), stream_(std::move(stream)) {}

  // Sends `request` and blocks until the call has ended. Returns the error of
  // `take` or, if there was none, the status of the call, with `address` at the
  // beginning of its message.
  absl::Status Run(const Out& request, const std::string& address) {
    stream_->Start(this);
    stream_->Send(request);
    stream_->HalfClose();
    const absl::Status ended = stream_->AwaitDone();
    if (!error_.ok() || ended.ok()) return error_;
    return absl::Status(ended.code(),
                        absl::StrCat(address, ": ", ended.message()));
  }

 private:
  bool OnMessage(const In& message, ReceivedPayload payload) override {
    error_ = take_(message, payload);
    if (error_.ok()) return true;
    stream_->Cancel();
    return false;
  }

  void OnGone(const absl::Status&) override {}

  const std::function<absl::Status(const In&, const ReceivedPayload&)> take_;
  // Accessed only in calls that the stream makes, and after AwaitDone.
  absl::Status error_;
  // Destroyed first, because it may still call the session until then.
  const std::unique_ptr<ClientStream<In, Out>> stream_;
};

}  // namespace tributary

#endif  // TRIBUTARY_COMMON_STREAM_READ_CALL_H_
