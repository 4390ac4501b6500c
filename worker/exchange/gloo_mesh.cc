#include "worker/exchange/gloo_mesh.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "gloo/rendezvous/context.h"
#include "gloo/rendezvous/store.h"
#include "gloo/transport/tcp/device.h"
#include "gloo/transport/unbound_buffer.h"

namespace tributary {
namespace {

// What Gloo's store throws, because it has no other way, and what that stands
// for.
struct DirectoryError : std::exception {
  explicit DirectoryError(absl::Status reason) : status(std::move(reason)) {}
  const char* what() const noexcept override { return "no address"; }
  absl::Status status;
};

class Directory final : public gloo::rendezvous::Store {
 public:
  explicit Directory(const GlooMeshOptions& options) : options_(options) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    const absl::Status status =
        options_.publish(key, std::string(data.begin(), data.end()));
    if (!status.ok()) throw DirectoryError(status);
  }
  std::vector<char> get(const std::string& key) override {
    const absl::StatusOr<std::string> found = options_.find(key);
    if (!found.ok()) throw DirectoryError(found.status());
    return std::vector<char>(found->begin(), found->end());
  }
  // Its get does.
  void wait(const std::vector<std::string>&) override {}
  void wait(const std::vector<std::string>&,
            const std::chrono::milliseconds&) override {}

 private:
  const GlooMeshOptions& options_;
};

class GlooMesh final : public PeerMesh {
 public:
  explicit GlooMesh(std::shared_ptr<gloo::rendezvous::Context> context)
      : context_(std::move(context)) {}
  ~GlooMesh() override { context_->closeConnections(); }

  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }

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
          buffer_(mesh->context_->createUnboundBuffer(data, bytes)) {}
    ~GlooTransfer() override { mesh_->Forget(this); }

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
        if (sends_ ? buffer_->waitSend() : buffer_->waitRecv()) {
          return absl::OkStatus();
        }
      } catch (const std::exception& error) {
        return Broken(error);
      }
      return absl::AbortedError("the all-reduce was called off");
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

  // True: it comes too late.
  bool Remember(GlooTransfer* transfer) {
    absl::MutexLock lock(&mu_);
    transfers_.insert(transfer);
    return aborted_;
  }
  void Forget(GlooTransfer* transfer) {
    absl::MutexLock lock(&mu_);
    transfers_.erase(transfer);
  }

  const std::shared_ptr<gloo::rendezvous::Context> context_;
  absl::Mutex mu_;
  bool aborted_ ABSL_GUARDED_BY(mu_) = false;
  std::set<GlooTransfer*> transfers_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<PeerMesh>> ConnectGlooMesh(
    const GlooMeshOptions& options) {
  try {
    gloo::transport::tcp::attr address(options.host.c_str());
    std::shared_ptr<gloo::transport::Device> device =
        gloo::transport::tcp::CreateDevice(address);
    auto context =
        std::make_shared<gloo::rendezvous::Context>(options.rank, options.size);
    context->setTimeout(std::chrono::milliseconds(
        std::max<int64_t>(1, absl::ToInt64Milliseconds(options.timeout))));
    Directory directory(options);
    context->connectFullMesh(directory, device);
    return std::unique_ptr<PeerMesh>(
        std::make_unique<GlooMesh>(std::move(context)));
  } catch (const DirectoryError& error) {
    return error.status;
  } catch (const std::exception& error) {
    return absl::UnavailableError(absl::StrCat(
        "member ", options.rank, " of ", options.size,
        " of the all-reduce cannot connect from ", options.host, ": ",
        error.what(),
        "; --advertise names an address that the other workers can reach"));
  }
}

}  // namespace tributary
