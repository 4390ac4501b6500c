#include "deploy/tools/bench/bench_stream.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/base/buffer_pool.h"
#include "common/base/status_macros.h"
#include "common/os/process.h"
#include "common/transport/channel.h"
#include "common/transport/chunk_codec.h"
#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace tributary {
namespace {

constexpr char kMethod[] = "/tributary.Bench/Stream";
constexpr char kAbstract[] = "unix-abstract:";
// Time for buffers, flow control windows and processor clocks to settle.
constexpr absl::Duration kWarmUp = absl::Milliseconds(200);
constexpr absl::Duration kTimeout = absl::Seconds(20);

struct Counters {
  std::atomic<int64_t> sent{0};
  std::atomic<int64_t> received{0};
};

// Waits until bytes have been sent and received since the counters had the
// given values; on a busy machine this may take longer than the warm-up.
absl::Status AwaitBytes(const Counters& counters, int64_t sent,
                        int64_t received) {
  const absl::Time deadline = absl::Now() + kTimeout;
  while (counters.sent == sent || counters.received == received) {
    if (absl::Now() > deadline) {
      return absl::DeadlineExceededError("no bytes came through the stream");
    }
    absl::SleepFor(absl::Milliseconds(1));
  }
  return absl::OkStatus();
}

// The memory that payloads are sent from.
class Payloads {
 public:
  explicit Payloads(const BenchStream& stream)
      : elements_(stream.message_bytes / int64_t{sizeof(float)}),
        count_(stream.memory_bytes / stream.message_bytes),
        pool_(elements_ * count_),
        memory_(pool_.Take()) {
    std::fill_n(memory_.get(), elements_ * count_, 1.0f);
  }

  int64_t bytes() const { return elements_ * int64_t{sizeof(float)}; }
  const float* At(int64_t message) const {
    return memory_.get() + message % count_ * elements_;
  }

 private:
  const int64_t elements_;
  const int64_t count_;
  BufferPool pool_;
  const Buffer memory_;
};

// ---- gRPC: each end has one read and one write in flight.

grpc::ByteBuffer Message(const Payloads& payloads, int64_t number) {
  WorkerMessage message;
  message.mutable_contribution()->set_step(number);
  return Encode(message, {payloads.At(number), payloads.bytes(), nullptr});
}

class ServerEnd final : public grpc::ServerGenericBidiReactor {
 public:
  explicit ServerEnd(const Payloads* payloads) : payloads_(*payloads) {
    StartRead(&in_);
    absl::MutexLock lock(&mu_);
    Write();
  }

 private:
  void OnReadDone(bool ok) override {
    if (ok) {
      StartRead(&in_);
      return;
    }
    absl::MutexLock lock(&mu_);
    ended_ = true;
    if (!writing_) Finish(grpc::Status::OK);
  }
  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mu_);
    writing_ = false;
    if (ended_) {
      Finish(grpc::Status::OK);
    } else if (ok) {
      Write();
    }
  }
  void OnDone() override {
    { absl::MutexLock lock(&mu_); }
    delete this;
  }
  void Write() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    out_ = Message(payloads_, number_++);
    writing_ = true;
    StartWrite(&out_);
  }

  const Payloads& payloads_;
  grpc::ByteBuffer in_;
  absl::Mutex mu_;
  grpc::ByteBuffer out_ ABSL_GUARDED_BY(mu_);
  int64_t number_ ABSL_GUARDED_BY(mu_) = 0;
  bool writing_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
};

class StreamService final : public grpc::CallbackGenericService {
 public:
  explicit StreamService(const Payloads* payloads) : payloads_(payloads) {}
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext*) override {
    return new ServerEnd(payloads_);
  }

 private:
  const Payloads* const payloads_;
};

// The client's end of one connection.
class ClientEnd {
 public:
  virtual ~ClientEnd() = default;
  // Stops the stream. No bytes are counted after it returns.
  virtual void Stop() = 0;
};

class GrpcClientEnd final
    : public ClientEnd,
      public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  static absl::StatusOr<std::unique_ptr<ClientEnd>> Open(
      const std::string& address, const Payloads* payloads,
      Counters* counters) {
    std::unique_ptr<GrpcClientEnd> end(
        new GrpcClientEnd(address, payloads, counters));
    if (!end->channel_->WaitForConnected(
            absl::ToChronoTime(absl::Now() + kTimeout))) {
      return absl::UnavailableError(
          absl::StrCat("no server listens at ", address));
    }
    end->stub_.PrepareBidiStreamingCall(&end->context_, kMethod,
                                        grpc::StubOptions(), end.get());
    end->StartRead(&end->in_);
    end->Write();
    end->StartCall();
    end->started_ = true;
    return end;
  }
  ~GrpcClientEnd() override {
    if (!started_) return;
    context_.TryCancel();
    done_.WaitForNotification();
  }

  void Stop() override {
    stopping_ = true;
    done_.WaitForNotification();
  }

 private:
  GrpcClientEnd(const std::string& address, const Payloads* payloads,
                Counters* counters)
      : payloads_(*payloads),
        counters_(*counters),
        channel_(CreateChannel(address)),
        stub_(channel_) {}

  void OnReadDone(bool ok) override {
    if (!ok) return;
    counters_.received += static_cast<int64_t>(in_.Length());
    StartRead(&in_);
  }
  void OnWriteDone(bool ok) override {
    if (ok) counters_.sent += static_cast<int64_t>(out_.Length());
    if (ok && !stopping_) {
      Write();
    } else {
      StartWritesDone();
    }
  }
  void OnDone(const grpc::Status&) override { done_.Notify(); }
  void Write() {
    out_ = Message(payloads_, number_++);
    StartWrite(&out_);
  }

  const Payloads& payloads_;
  Counters& counters_;
  const std::shared_ptr<grpc::Channel> channel_;
  grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer> stub_;
  grpc::ClientContext context_;
  grpc::ByteBuffer in_;
  grpc::ByteBuffer out_;
  int64_t number_ = 0;
  bool started_ = false;
  std::atomic<bool> stopping_{false};
  absl::Notification done_;
};

absl::Status ServeGrpc(
    const Payloads& payloads, const std::string& address,
    const std::function<void(const std::string&)>& on_ready) {
  StreamService service(&payloads);
  grpc::ServerBuilder builder;
  ConfigureServer(kDefaultLimits, &builder);
  int port = 0;
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port == 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", address));
  }
  on_ready(
      absl::StartsWith(address, kAbstract)
          ? address
          : absl::StrCat(address.substr(0, address.rfind(':')), ":", port));
  server->Wait();
  return absl::InternalError("the server ended");
}

// ---- Sockets: each end writes on one thread and reads on another.

struct SocketAddress {
  sockaddr_storage storage = {};
  socklen_t size = 0;
  const sockaddr* get() const {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
};

absl::Status SocketError(const char* what, const std::string& address) {
  return absl::UnavailableError(
      absl::StrCat(what, " ", address, ": ", strerror(errno)));
}

// Supports IPv4 only, because benchmarks use loopback.
absl::StatusOr<SocketAddress> ParseSocketAddress(const std::string& address) {
  SocketAddress parsed;
  absl::string_view name = address;
  if (absl::ConsumePrefix(&name, kAbstract)) {
    auto* local = reinterpret_cast<sockaddr_un*>(&parsed.storage);
    local->sun_family = AF_UNIX;
    // The name begins with a null byte.
    const size_t length = std::min(name.size(), sizeof(local->sun_path) - 1);
    std::copy_n(name.data(), length, local->sun_path + 1);
    parsed.size =
        static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
    return parsed;
  }
  const size_t colon = address.rfind(':');
  addrinfo hints = {};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (colon == std::string::npos ||
      getaddrinfo(address.substr(0, colon).c_str(),
                  address.substr(colon + 1).c_str(), &hints, &found) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(address, " is not host:port"));
  }
  parsed.size = found->ai_addrlen;
  memcpy(&parsed.storage, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return parsed;
}

int OpenSocket(const SocketAddress& address) {
  const int family = address.storage.ss_family;
  const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  if (family == AF_INET) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  }
  return fd;
}

// Sends and receives on a connection until it is shut down.
class SocketEnd final : public ClientEnd {
 public:
  // Takes ownership of the descriptor. `counters` may be null.
  SocketEnd(int fd, const Payloads* payloads, Counters* counters)
      : fd_(fd),
        payloads_(*payloads),
        counters_(counters),
        writer_([this] { Write(); }),
        reader_([this] { Read(); }) {}
  ~SocketEnd() override {
    shutdown(fd_, SHUT_RDWR);
    writer_.join();
    reader_.join();
    close(fd_);
  }

  static absl::StatusOr<std::unique_ptr<ClientEnd>> Open(
      const std::string& address, const Payloads* payloads,
      Counters* counters) {
    TRIBUTARY_ASSIGN_OR_RETURN(const SocketAddress to,
                               ParseSocketAddress(address));
    const int fd = OpenSocket(to);
    if (connect(fd, to.get(), to.size) != 0) {
      const absl::Status error = SocketError("cannot connect to", address);
      close(fd);
      return error;
    }
    return std::make_unique<SocketEnd>(fd, payloads, counters);
  }

  void Stop() override { shutdown(fd_, SHUT_RDWR); }

 private:
  void Write() {
    for (int64_t message = 0;; ++message) {
      const char* from = reinterpret_cast<const char*>(payloads_.At(message));
      for (int64_t left = payloads_.bytes(); left > 0;) {
        const ssize_t count = send(fd_, from, left, MSG_NOSIGNAL);
        if (count <= 0) return;
        from += count;
        left -= count;
        if (counters_ != nullptr) counters_->sent += count;
      }
    }
  }
  void Read() {
    std::vector<char> place(payloads_.bytes());
    while (true) {
      const ssize_t count = recv(fd_, place.data(), place.size(), 0);
      if (count <= 0) return;
      if (counters_ != nullptr) counters_->received += count;
    }
  }

  const int fd_;
  const Payloads& payloads_;
  Counters* const counters_;
  std::thread writer_;
  std::thread reader_;
};

absl::Status ServeSockets(
    const Payloads& payloads, const std::string& address,
    const std::function<void(const std::string&)>& on_ready) {
  TRIBUTARY_ASSIGN_OR_RETURN(SocketAddress at, ParseSocketAddress(address));
  const int listener = OpenSocket(at);
  if (bind(listener, at.get(), at.size) != 0 ||
      listen(listener, SOMAXCONN) != 0) {
    return SocketError("cannot listen on", address);
  }
  if (at.storage.ss_family == AF_INET) {
    getsockname(listener, reinterpret_cast<sockaddr*>(&at.storage), &at.size);
    const int port =
        ntohs(reinterpret_cast<const sockaddr_in*>(&at.storage)->sin_port);
    on_ready(absl::StrCat(address.substr(0, address.rfind(':')), ":", port));
  } else {
    on_ready(address);
  }
  std::vector<std::unique_ptr<SocketEnd>> ends;
  while (true) {
    const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd < 0) return SocketError("cannot accept on", address);
    ends.push_back(
        std::make_unique<SocketEnd>(fd, &payloads, /*counters=*/nullptr));
  }
}

}  // namespace

absl::Status ServeBenchStreams(
    const BenchStream& stream, const std::string& address,
    const std::function<void(const std::string&)>& on_ready) {
  const Payloads payloads(stream);
  return stream.grpc ? ServeGrpc(payloads, address, on_ready)
                     : ServeSockets(payloads, address, on_ready);
}

absl::StatusOr<BenchStreamCounts> RunBenchStreams(
    const BenchStream& stream, const std::vector<std::string>& addresses,
    absl::Duration duration, const std::function<void()>& on_begin) {
  const Payloads payloads(stream);
  Counters counters;
  std::vector<std::unique_ptr<ClientEnd>> ends;
  for (const std::string& address : addresses) {
    absl::StatusOr<std::unique_ptr<ClientEnd>> end =
        stream.grpc ? GrpcClientEnd::Open(address, &payloads, &counters)
                    : SocketEnd::Open(address, &payloads, &counters);
    TRIBUTARY_RETURN_IF_ERROR(end.status());
    ends.push_back(*std::move(end));
  }
  TRIBUTARY_RETURN_IF_ERROR(AwaitBytes(counters, 0, 0));
  absl::SleepFor(kWarmUp);
  on_begin();
  BenchStreamCounts counts;
  const absl::Time begin = absl::Now();
  const double cpu = CpuSeconds();
  const int64_t sent = counters.sent;
  const int64_t received = counters.received;
  absl::SleepFor(duration);
  TRIBUTARY_RETURN_IF_ERROR(AwaitBytes(counters, sent, received));
  counts.seconds = absl::ToDoubleSeconds(absl::Now() - begin);
  counts.bytes_sent = counters.sent - sent;
  counts.bytes_received = counters.received - received;
  counts.cpu_seconds = CpuSeconds() - cpu;
  for (const auto& end : ends) end->Stop();
  return counts;
}

}  // namespace tributary
