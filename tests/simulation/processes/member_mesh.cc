#include "tests/simulation/processes/member_mesh.h"

#include <cstring>
#include <deque>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "google/protobuf/wrappers.pb.h"

namespace tributary::simulation {
namespace {

// The messages on a link. The client of the link is the member that sends.
using Hello = google::protobuf::StringValue;    // The mesh and its own rank.
using Ready = google::protobuf::UInt64Value;    // The tag; to the sender.
using Contents = google::protobuf::BytesValue;  // The tag, and the message.

// One end of a message.
struct End {
  const char* from = nullptr;
  char* to = nullptr;
  size_t bytes = 0;
  bool done = false;
  bool over = false;  // The transfer is destroyed; its memory is invalid.
};

using Ends = std::map<uint64_t, std::deque<std::shared_ptr<End>>>;  // By tag.

// One direction between two members.
struct Direction {
  std::shared_ptr<Link> link;  // Null until it is connected.
  bool lost = false;
  Ends waiting;                       // Transfers that wait for the peer.
  std::map<uint64_t, int64_t> ready;  // When sending: receives posted by the
                                      // peer, by tag.
};

// Takes the first of the transfers with this tag. Returns null if there is
// none.
std::shared_ptr<End> TakeFirst(uint64_t tag, Ends* ends) {
  std::deque<std::shared_ptr<End>>& queue = (*ends)[tag];
  if (queue.empty()) return nullptr;
  std::shared_ptr<End> first = std::move(queue.front());
  queue.pop_front();
  return first;
}

}  // namespace

class MemberMesh final : public PeerMesh {
 public:
  MemberMesh(MemberPort* port, std::string name, const GlooMeshOptions& options)
      : port_(port),
        world_(port->world_),
        name_(std::move(name)),
        rank_(options.rank),
        timeout_(options.timeout),
        to_(static_cast<size_t>(options.size)),
        from_(static_cast<size_t>(options.size)) {
    port_->meshes_.emplace(name_, this);
  }
  // Messages that were sent before still arrive.
  ~MemberMesh() override {
    port_->meshes_.erase(name_);
    for (const Direction& direction : to_) {
      if (direction.link == nullptr) continue;
      direction.link->SetHandlers(Link::kClient, {});
      direction.link->HalfClose();
    }
    for (const Direction& direction : from_) {
      if (direction.link == nullptr) continue;
      direction.link->SetHandlers(Link::kServer, {});
      direction.link->Close(absl::UnavailableError("the mesh was closed"));
    }
  }

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(to_.size()); }

  std::unique_ptr<Transfer> Send(int to, uint64_t tag, const void* data,
                                 size_t bytes) override {
    auto end = std::make_shared<End>();
    end->from = static_cast<const char*>(data);
    end->bytes = bytes;
    Direction& direction = to_[static_cast<size_t>(to)];
    if (direction.ready[tag] > 0) {
      --direction.ready[tag];
      Write(direction, tag, end);
    } else {
      direction.waiting[tag].push_back(end);
    }
    return std::make_unique<MemberTransfer>(this, to, &direction,
                                            std::move(end));
  }

  std::unique_ptr<Transfer> Receive(int from, uint64_t tag, void* data,
                                    size_t bytes) override {
    auto end = std::make_shared<End>();
    end->to = static_cast<char*>(data);
    end->bytes = bytes;
    Direction& direction = from_[static_cast<size_t>(from)];
    direction.waiting[tag].push_back(end);
    Ready ready;
    ready.set_value(tag);
    direction.link->Send(Link::kServer, ready);
    return std::make_unique<MemberTransfer>(this, from, &direction,
                                            std::move(end));
  }

  void Abort() override { aborted_ = true; }

  // Connects to another member, and waits until it has connected to this one.
  absl::Status Connect(int member, const GlooMeshOptions& options) {
    TRIBUTARY_ASSIGN_OR_RETURN(const std::string address,
                               options.find(absl::StrCat(member)));
    const std::vector<std::string> parts = absl::StrSplit(address, ' ');
    Process* const process = world_->Find(parts[0]);
    Direction& direction = to_[static_cast<size_t>(member)];
    TRIBUTARY_ASSIGN_OR_RETURN(
        direction.link,
        world_->AwaitConnection(
            port_->process_, [process] { return process; }, Service::kMember,
            world_->loop.now() + options.connect_timeout,
            [process] { return !process->running(); }));
    Link::Handlers handlers;
    handlers.message = [this, &direction](const Link::Message& message) {
      OnReady(&direction, static_cast<const Ready&>(message).value());
    };
    handlers.gone = [&direction](const absl::Status&) {
      direction.lost = true;
    };
    direction.link->SetHandlers(Link::kClient, std::move(handlers));
    Hello hello;
    hello.set_value(absl::StrCat(parts[1], " ", rank_));
    direction.link->Send(Link::kClient, hello);
    const auto connected = [&] {
      return from_[static_cast<size_t>(member)].link != nullptr;
    };
    absl::MutexLock lock(&mu_);
    if (AwaitFor(&mu_, absl::Condition(&connected), options.connect_timeout)) {
      return absl::OkStatus();
    }
    return absl::UnavailableError(
        absl::StrCat("member ", member, " does not connect"));
  }

  // Accepts a link from another member, which has sent its Hello.
  void Accept(int member, const std::shared_ptr<Link>& link) {
    Direction& direction = from_[static_cast<size_t>(member)];
    direction.link = link;
    Link::Handlers handlers;
    handlers.message = [this, &direction](const Link::Message& message) {
      OnContents(&direction, static_cast<const Contents&>(message).value());
    };
    handlers.half_closed = [&direction] {
      direction.lost = true;
      direction.link->Close(absl::OkStatus());
    };
    handlers.gone = [&direction](const absl::Status&) {
      direction.lost = true;
    };
    link->SetHandlers(Link::kServer, std::move(handlers));
  }

 private:
  class MemberTransfer final : public Transfer {
   public:
    MemberTransfer(MemberMesh* mesh, int peer, const Direction* direction,
                   std::shared_ptr<End> end)
        : mesh_(mesh),
          peer_(peer),
          direction_(direction),
          end_(std::move(end)) {}
    ~MemberTransfer() override {
      end_->over = true;
      if (!waited_ && !mesh_->aborted_ && !mesh_->port_->process_->silent()) {
        mesh_->world_->Violate("a transfer is destroyed in flight");
      }
    }

    absl::Status Wait() override {
      const auto over = [this] {
        return end_->done || direction_->lost || mesh_->aborted_;
      };
      absl::MutexLock lock(&mesh_->mu_);
      const bool in_time =
          AwaitFor(&mesh_->mu_, absl::Condition(&over), mesh_->timeout_);
      waited_ = true;
      if (mesh_->aborted_) {
        return absl::AbortedError("the all-reduce was cancelled");
      }
      if (end_->done) return absl::OkStatus();
      if (!in_time) mesh_->LoseAll();
      return absl::UnavailableError(absl::StrCat(
          "member ", peer_, " of ", mesh_->size(), " of the all-reduce: ",
          in_time ? "the connection was lost" : "timed out"));
    }

   private:
    MemberMesh* const mesh_;
    const int peer_;
    const Direction* const direction_;
    const std::shared_ptr<End> end_;
    bool waited_ = false;
  };

  // As in Gloo, a transfer that times out ends all others.
  void LoseAll() {
    for (Direction& direction : to_) direction.lost = true;
    for (Direction& direction : from_) direction.lost = true;
  }

  void OnReady(Direction* direction, uint64_t tag) {
    if (const std::shared_ptr<End> end = TakeFirst(tag, &direction->waiting)) {
      Write(*direction, tag, end);
    } else {
      ++direction->ready[tag];
    }
  }

  // Reads the message from the sender's memory after a short time, and sends
  // it.
  void Write(const Direction& direction, uint64_t tag,
             const std::shared_ptr<End>& end) {
    world_->loop.After(
        world_->random.Between(absl::Microseconds(1), absl::Microseconds(500)),
        port_->process_, "-write", [link = direction.link, tag, end] {
          if (end->over) return;
          Contents contents;
          contents.mutable_value()->assign(reinterpret_cast<const char*>(&tag),
                                           sizeof(tag));
          contents.mutable_value()->append(end->from, end->bytes);
          link->Send(Link::kClient, contents);
          end->done = true;
        });
  }

  void OnContents(Direction* direction, const std::string& contents) {
    uint64_t tag = 0;
    std::memcpy(&tag, contents.data(), sizeof(tag));
    const std::shared_ptr<End> end = TakeFirst(tag, &direction->waiting);
    if (end == nullptr || end->bytes != contents.size() - sizeof(tag)) {
      world_->Violate(absl::StrCat("a message of ",
                                   contents.size() - sizeof(tag),
                                   " bytes that no transfer receives"));
      return;
    }
    if (end->over) return;
    contents.copy(static_cast<char*>(end->to), end->bytes, sizeof(tag));
    end->done = true;
  }

  MemberPort* const port_;
  World* const world_;
  const std::string name_;
  const int rank_;
  const absl::Duration timeout_;
  // By member. The directions of this member to itself are not used.
  std::vector<Direction> to_;
  std::vector<Direction> from_;
  bool aborted_ = false;
  absl::Mutex mu_;  // For waits.
};

void MemberPort::Accept(const std::shared_ptr<Link>& link) {
  Link::Handlers handlers;
  handlers.message = [this, raw = link.get()](const Link::Message& message) {
    const std::vector<std::string> parts =
        absl::StrSplit(static_cast<const Hello&>(message).value(), ' ');
    const auto mesh = meshes_.find(parts[0]);
    int member = 0;
    if (mesh == meshes_.end() || !absl::SimpleAtoi(parts[1], &member)) {
      raw->Close(absl::UnavailableError("connection refused"));
      return;
    }
    mesh->second->Accept(member, raw->shared_from_this());
  };
  handlers.half_closed = [raw = link.get()] { raw->Close(absl::OkStatus()); };
  link->SetHandlers(Link::kServer, std::move(handlers));
}

absl::StatusOr<std::unique_ptr<PeerMesh>> MemberPort::Connect(
    const GlooMeshOptions& options) {
  const std::string name = absl::StrCat(world_->random.Bits());
  auto mesh = std::make_unique<MemberMesh>(this, name, options);
  TRIBUTARY_RETURN_IF_ERROR(options.publish(
      absl::StrCat(options.rank), absl::StrCat(options.host, " ", name)));
  for (int member = 0; member < options.size; ++member) {
    if (member == options.rank) continue;
    TRIBUTARY_RETURN_IF_ERROR(mesh->Connect(member, options));
  }
  return mesh;
}

}  // namespace tributary::simulation
