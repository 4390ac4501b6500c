// Calls of gRPC methods with the bytes of a message, as a client without the
// generated code makes them.
#ifndef TRIBUTARY_TESTS_SUPPORT_BYTE_CALL_H_
#define TRIBUTARY_TESTS_SUPPORT_BYTE_CALL_H_

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace tributary {

// Calls `method`, "/package.Service/Method", and waits up to a minute for the
// end of the call. Sets `*reply` to the bytes of the reply if it is not null.
inline grpc::Status CallInBytes(const std::shared_ptr<grpc::Channel>& channel,
                                const std::string& method,
                                const std::string& request,
                                std::string* reply = nullptr) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(1)));
  grpc::CompletionQueue queue;
  const grpc::Slice slice(request);
  grpc::ByteBuffer received;
  grpc::Status status;
  const auto call = stub.PrepareUnaryCall(&context, method,
                                          grpc::ByteBuffer(&slice, 1), &queue);
  call->StartCall();
  call->Finish(&received, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  grpc::Slice bytes;
  if (reply != nullptr && received.DumpToSingleSlice(&bytes).ok()) {
    reply->assign(bytes.begin(), bytes.end());
  }
  return status;
}

// Returns the bytes of a grpc.health.v1.HealthCheckRequest.
inline std::string HealthRequest(const std::string& service) {
  return absl::StrCat("\x0a", std::string(1, static_cast<char>(service.size())),
                      service);
}

// Returns the name of the status in a grpc.health.v1.HealthCheckResponse.
inline std::string HealthIn(const std::string& reply) {
  if (reply == std::string("\x08\x01", 2)) return "SERVING";
  if (reply == std::string("\x08\x02", 2)) return "NOT_SERVING";
  return "unreadable";
}

// Returns the health of a service, or the error message of the check.
inline std::string HealthOf(const std::shared_ptr<grpc::Channel>& channel,
                            const std::string& service) {
  std::string reply;
  const grpc::Status status = CallInBytes(
      channel, "/grpc.health.v1.Health/Check", HealthRequest(service), &reply);
  return status.ok() ? HealthIn(reply) : status.error_message();
}

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_SUPPORT_BYTE_CALL_H_
