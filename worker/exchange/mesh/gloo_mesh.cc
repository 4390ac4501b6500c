#include "worker/exchange/mesh/gloo_mesh.h"

#include <netdb.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "gloo/rendezvous/context.h"
#include "gloo/rendezvous/store.h"
#include "gloo/transport/tcp/device.h"
#include "gloo/transport/unbound_buffer.h"

namespace tributary {
namespace {

void IgnoreBrokenPipes() {
  struct sigaction action;
  if (sigaction(SIGPIPE, nullptr, &action) == 0 &&
      (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL) {
    std::signal(SIGPIPE, SIG_IGN);
  }
}

// Returns at least one millisecond, because Gloo has no limit of zero.
std::chrono::milliseconds ToMilliseconds(absl::Duration duration) {
  return std::chrono::milliseconds(
      std::max<int64_t>(1, absl::ToInt64Milliseconds(duration)));
}

// Exception for errors in Gloo's store interface, which returns no status.
struct DirectoryError : std::exception {
  explicit DirectoryError(absl::Status reason) : status(std::move(reason)) {}
  const char* what() const noexcept override { return "no address"; }
  absl::Status status;
};

class Directory final : public gloo::rendezvous::Store {
 public:
  // `prefix` is prepended to all names.
  Directory(const GlooMeshOptions& options, std::string prefix)
      : options_(options), prefix_(std::move(prefix)) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    const absl::Status status =
        options_.publish(prefix_ + key, std::string(data.begin(), data.end()));
    if (!status.ok()) throw DirectoryError(status);
  }
  std::vector<char> get(const std::string& key) override {
    const absl::StatusOr<std::string> found = options_.find(prefix_ + key);
    if (!found.ok()) throw DirectoryError(found.status());
    return std::vector<char>(found->begin(), found->end());
  }
  // get waits instead.
  void wait(const std::vector<std::string>&) override {}
  void wait(const std::vector<std::string>&,
            const std::chrono::milliseconds&) override {}

 private:
  const GlooMeshOptions& options_;
  const std::string prefix_;
};

using GlooContext = std::shared_ptr<gloo::rendezvous::Context>;

// One connection from each member to every other member, for sending only. If
// both sides send on one Gloo connection, Gloo's thread polls for received data
// while another thread writes, which occupies a core.
struct GlooContexts {
  GlooContext forth;
  GlooContext back;
};

class GlooMesh final : public PeerMesh {
 public:
  GlooMesh(GlooContexts contexts, absl::Duration timeout)
      : contexts_(std::move(contexts)), timeout_(ToMilliseconds(timeout)) {}
  ~GlooMesh() override {
    contexts_.forth->closeConnections();
    contexts_.back->closeConnections();
  }

  int rank() const override { return contexts_.forth->rank; }
  int size() const override { return contexts_.forth->size; }

  std::unique_ptr<Transfer> Send(int to, uint64_t tag, const void* data,
                                 size_t bytes) override {
    auto sent = std::make_unique<GlooTransfer>(this, to, /*sends=*/true,
                                               const_cast<void*>(data), bytes);
    sent->Begin(tag);
    return sent;
  }
  std::unique_ptr<Transfer> Receive(int from, uint64_t tag, void* data,
                                    size_t bytes) override {
    auto received = std::make_unique<GlooTransfer>(this, from, /*sends=*/false,
                                                   data, bytes);
    received->Begin(tag);
    return received;
  }

  void Abort() override {
    absl::MutexLock lock(&mu_);
    aborted_ = true;
    for (GlooTransfer* const transfer : transfers_) transfer->Abort();
  }

 private:
  class GlooTransfer final : public Transfer {
   public:
    GlooTransfer(GlooMesh* mesh, int peer, bool sends, void* data, size_t bytes)
        : mesh_(mesh),
          peer_(peer),
          sends_(sends),
          buffer_(
              mesh->ContextOf(peer, sends)->createUnboundBuffer(data, bytes)) {}
    ~GlooTransfer() override { mesh_->Remove(this); }

    void Begin(uint64_t tag) {
      try {
        if (sends_) {
          buffer_->send(peer_, tag);
        } else {
          buffer_->recv(peer_, tag);
        }
      } catch (const std::exception& error) {
        broken_ = Broken(error);
      }
      if (mesh_->Remember(this)) Abort();
    }

    absl::Status Wait() override {
      if (!broken_.ok()) return broken_;
      try {
        if (sends_ ? buffer_->waitSend(mesh_->timeout_)
                   : buffer_->waitRecv(mesh_->timeout_)) {
          return absl::OkStatus();
        }
      } catch (const std::exception& error) {
        return Broken(error);
      }
      return absl::AbortedError("the all-reduce was cancelled");
    }

    void Abort() {
      if (sends_) {
        buffer_->abortWaitSend();
      } else {
        buffer_->abortWaitRecv();
      }
    }

   private:
    absl::Status Broken(const std::exception& error) const {
      return absl::UnavailableError(
          absl::StrCat("member ", peer_, " of ", mesh_->size(),
                       " of the all-reduce: ", error.what()));
    }

    GlooMesh* const mesh_;
    const int peer_;
    const bool sends_;
    const std::unique_ptr<gloo::transport::UnboundBuffer> buffer_;
    absl::Status broken_;
  };

  gloo::rendezvous::Context* ContextOf(int peer, bool sends) const {
    return (sends == (rank() < peer) ? contexts_.forth : contexts_.back).get();
  }
  // Returns true if the transfer must be aborted because it starts after Abort.
  bool Remember(GlooTransfer* transfer) {
    absl::MutexLock lock(&mu_);
    transfers_.insert(transfer);
    return aborted_;
  }
  void Remove(GlooTransfer* transfer) {
    absl::MutexLock lock(&mu_);
    transfers_.erase(transfer);
  }

  const GlooContexts contexts_;
  const std::chrono::milliseconds timeout_;
  absl::Mutex mu_;
  bool aborted_ ABSL_GUARDED_BY(mu_) = false;
  std::set<GlooTransfer*> transfers_ ABSL_GUARDED_BY(mu_);
};

// If a name has no address, Gloo reads an uninitialized list of addresses.
absl::Status CheckHost(const std::string& host) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (error != 0) return absl::UnavailableError(gai_strerror(error));
  freeaddrinfo(found);
  return absl::OkStatus();
}

absl::Status CannotConnect(const GlooMeshOptions& options,
                           absl::string_view reason) {
  return absl::UnavailableError(absl::StrCat(
      "member ", options.rank, " of ", options.size,
      " of the all-reduce cannot connect from ", options.host, ": ", reason,
      "; --advertise names an address that the other workers can reach"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<PeerMesh>> ConnectGlooMesh(
    const GlooMeshOptions& options) {
  IgnoreBrokenPipes();
  if (const absl::Status there = CheckHost(options.host); !there.ok()) {
    return CannotConnect(options, there.message());
  }
  try {
    gloo::transport::tcp::attr address(options.host.c_str());
    std::shared_ptr<gloo::transport::Device> device =
        gloo::transport::tcp::CreateDevice(address);
    const auto connect = [&](const char* name) {
      auto context = std::make_shared<gloo::rendezvous::Context>(options.rank,
                                                                 options.size);
      context->setTimeout(ToMilliseconds(options.connect_timeout));
      Directory directory(options, name);
      context->connectFullMesh(directory, device);
      return context;
    };
    GlooContexts contexts;
    contexts.forth = connect("forth/");
    contexts.back = connect("back/");
    return std::unique_ptr<PeerMesh>(
        std::make_unique<GlooMesh>(std::move(contexts), options.timeout));
  } catch (const DirectoryError& error) {
    return error.status;
  } catch (const std::exception& error) {
    return CannotConnect(options, error.what());
  }
}

}  // namespace tributary
