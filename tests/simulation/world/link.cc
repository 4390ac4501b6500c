#include "tests/simulation/world/link.h"

#include <algorithm>
#include <utility>

#include "google/protobuf/descriptor.h"

namespace tributary::simulation {
namespace {

Link::Side Other(Link::Side side) {
  return side == Link::kClient ? Link::kServer : Link::kClient;
}

const char* LabelOf(const Link::Message& message) {
  if (message.GetDescriptor()->oneof_decl_count() == 0) {
    return message.GetDescriptor()->name().c_str();
  }
  const auto* const field = message.GetReflection()->GetOneofFieldDescriptor(
      message, message.GetDescriptor()->oneof_decl(0));
  return field == nullptr ? "nothing" : field->name().c_str();
}

}  // namespace

std::shared_ptr<Link> Link::Create(Network* network, const char* kind,
                                   std::shared_ptr<Life> client,
                                   std::shared_ptr<Life> server) {
  std::shared_ptr<Link> link(new Link(network, kind));
  for (const auto& life : {client, server}) {
    for (Life* part = life.get(); part != nullptr; part = part->parent.get()) {
      part->links.push_back(link);
    }
  }
  link->ends_[kClient].life = std::move(client);
  link->ends_[kServer].life = std::move(server);
  return link;
}

void Link::Open(std::function<void()> accept) {
  Put(kServer, {network_->loop()->now() + network_->Latency(), "open",
                std::move(accept)});
}

void Link::Send(Side from, const Message& message) {
  const End& sender = ends_[from];
  if (sender.gone || sender.life->silent()) return;
  const Side to = Other(from);
  std::shared_ptr<Message> copy(message.New());
  copy->CopyFrom(message);
  Put(to, {network_->loop()->now() + network_->Latency(), LabelOf(message),
           [this, to, copy = std::move(copy)] {
             // Copied, because handlers may be replaced while one runs.
             const auto handler = ends_[to].handlers.message;
             if (handler) handler(*copy);
           }});
}

void Link::Put(Side to, Parcel message) {
  End& end = ends_[to];
  if (end.closed_to || end.gone) return;
  if (message.last) end.closed_to = true;
  end.last_arrival = std::max(end.last_arrival, message.arrival);
  message.arrival = end.last_arrival;
  end.incoming.push_back(std::move(message));
  network_->loop()->At(end.last_arrival, end.life, "-",
                       [self = shared_from_this(), to] { self->Pump(to); });
}

void Link::Pump(Side to) {
  End& end = ends_[to];
  EventLoop* const loop = network_->loop();
  while (!end.gone && !end.incoming.empty() &&
         end.incoming.front().arrival <= loop->now()) {
    const absl::Time blocked = network_->BlockedUntil(
        ends_[Other(to)].life->process, end.life->process);
    if (blocked > loop->now()) {
      loop->At(blocked, end.life, "-",
               [self = shared_from_this(), to] { self->Pump(to); });
      return;
    }
    const Parcel message = std::move(end.incoming.front());
    end.incoming.pop_front();
    loop->Trace(end.life->name, " <- ", ends_[Other(to)].life->name, ": ",
                kind_, " ", message.label);
    message.deliver();
  }
}

void Link::Go(Side side, const absl::Status& status) {
  End& end = ends_[side];
  if (end.gone) return;
  end.gone = true;
  end.incoming.clear();
  // Moved out, because a handler may destroy the object that owns it.
  const Handlers handlers = std::exchange(end.handlers, Handlers());
  if (handlers.gone) handlers.gone(status);
}

void Link::HalfClose() {
  if (ends_[kClient].gone || ends_[kClient].life->silent()) return;
  Put(kServer, {network_->loop()->now() + network_->Latency(), "half-close",
                [this] {
                  const auto handler = ends_[kServer].handlers.half_closed;
                  if (handler) handler();
                },
                /*last=*/true});
}

void Link::Close(const absl::Status& status) {
  if (ends_[kServer].gone || ends_[kServer].life->silent()) return;
  const absl::Time arrival = network_->loop()->now() + network_->Latency();
  Put(kClient, {arrival, "close",
                [this, status] {
                  Go(kClient, status);
                  Truncate(kServer, absl::Milliseconds(50));
                },
                /*last=*/true});
}

void Link::Cancel() {
  End& end = ends_[kClient];
  if (end.gone) return;
  end.gone = true;
  end.incoming.clear();
  end.handlers = Handlers();
  Truncate(kServer, absl::Milliseconds(50));
}

void Link::Truncate(Side to, absl::Duration notice) {
  End& end = ends_[to];
  if (end.gone) return;
  Random* const random = network_->random();
  end.closed_to = false;
  const int64_t kept =
      random->Uniform(0, static_cast<int64_t>(end.incoming.size()));
  end.incoming.erase(end.incoming.begin() + kept, end.incoming.end());
  if (random->Chance(0.3)) {
    // The remaining messages were delayed in a buffer.
    for (Parcel& message : end.incoming) {
      end.last_arrival = std::max(end.last_arrival, message.arrival) +
                         random->Between(absl::ZeroDuration(),
                                         notice / static_cast<double>(kept));
      message.arrival = end.last_arrival;
      network_->loop()->At(message.arrival, end.life, "-",
                           [self = shared_from_this(), to] { self->Pump(to); });
    }
  }
  const absl::Time arrival =
      network_->loop()->now() +
      random->Between(absl::Microseconds(10),
                      std::max(notice, absl::Microseconds(20)));
  Put(to, {arrival, "cut",
           [this, to] {
             Go(to, absl::UnavailableError("the connection was lost"));
           },
           /*last=*/true});
}

void Link::Cut(absl::Duration notice) {
  Truncate(kClient, notice);
  Truncate(kServer, notice);
}

void Link::SideEnded(Side side, absl::Duration notice) {
  End& end = ends_[side];
  end.gone = true;
  end.incoming.clear();
  end.handlers = Handlers();
  Truncate(Other(side), notice);
}

}  // namespace tributary::simulation
