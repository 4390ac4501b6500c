#include "tests/simulation/processes/transfer_port.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/os/shared_memory.h"

namespace tributary::simulation {
namespace {

// Peers notice the end of a call within this time.
constexpr absl::Duration kNotice = absl::Milliseconds(200);

std::shared_ptr<Life> MakeScope(const std::shared_ptr<Life>& process) {
  auto scope = std::make_shared<Life>();
  scope->name = absl::StrCat(process->name, "/transfers");
  scope->process = process->process;
  scope->parent = process;
  return scope;
}

}  // namespace

TransferPort::TransferPort(World* world, const std::shared_ptr<Life>& process,
                           TransferPort** port)
    : world_(world),
      port_(port),
      address_(process->name),
      scope_(MakeScope(process)),
      calls_(world, scope_) {
  if (world->scenario.stage_memory) {
    local_.set_host(HostIdentity());
    local_.set_address(address_);
  }
  *port_ = this;
}

TransferPort::~TransferPort() {
  *port_ = nullptr;
  calls_.EndAll();
  // Peers learn of a crash from the world.
  if (scope_->gone()) return;
  Process::EndScope(scope_, kNotice);
  for (const std::weak_ptr<Link>& weak : links_) {
    const std::shared_ptr<Link> link = weak.lock();
    if (link != nullptr) link->SideEnded(Link::kServer, kNotice);
  }
}

void TransferPort::Accept(const std::shared_ptr<Link>& link) {
  links_.push_back(link);
  calls_.Accept<StageMessage, StageReply>(
      link,
      [this](ServerStream<StageReply>* stream) {
        return std::make_unique<StageReceiver>(worker_, stream);
      },
      // Simulated workers send correct transfers.
      [this](const absl::Status& status) {
        world_->Violate(
            absl::StrCat(address_, " refuses a transfer: ", status.ToString()));
      });
}

}  // namespace tributary::simulation
