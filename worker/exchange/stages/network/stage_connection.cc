#include "worker/exchange/stages/network/stage_connection.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/monotonic_clock.h"
#include "common/base/status_macros.h"
#include "common/os/shared_memory.h"

namespace tributary {
namespace {

// The wait before another try doubles from the first to the second.
constexpr absl::Duration kFirstWait = absl::Milliseconds(5);
constexpr absl::Duration kLongestWait = absl::Milliseconds(200);
// The longest time that a wait continues when `stop` returns true.
constexpr absl::Duration kInterval = absl::Milliseconds(20);

std::string NameOf(const StageConnection& connection,
                   const std::string& address) {
  return absl::StrCat("worker ", connection.hello.receiver(), " (", address,
                      ")");
}

// Returns the address to connect to.
absl::StatusOr<std::string> AddressOf(const StageConnection& connection) {
  const bool local = connection.local.host() == HostIdentity() &&
                     !connection.local.address().empty();
  switch (connection.transport) {
    case ExchangeSpec::WIRE:
      return connection.address;
    case ExchangeSpec::MEMORY:
    case ExchangeSpec::UNIX_SOCKET:
      if (local) return connection.local.address();
      return absl::FailedPreconditionError(
          absl::StrCat("exchange.transport is ",
                       ExchangeSpec::Transport_Name(connection.transport),
                       ", but ", NameOf(connection, connection.address),
                       " is on another host: use AUTO or WIRE"));
    default:
      return local ? connection.local.address() : connection.address;
  }
}

// Returns the memory for the transfers of a link to `address`, or null if their
// bytes are to be sent on the stream.
absl::StatusOr<std::shared_ptr<SharedMemory>> MemoryFor(
    const StageConnection& connection, const std::string& address) {
  const bool wanted = connection.transport == ExchangeSpec::MEMORY ||
                      connection.transport == ExchangeSpec::AUTO;
  if (!wanted || address != connection.local.address() ||
      connection.plan->memory_bytes() == 0) {
    return nullptr;
  }
  absl::StatusOr<std::shared_ptr<SharedMemory>> memory =
      SharedMemory::Create(connection.plan->memory_bytes());
  if (!memory.ok() && connection.transport == ExchangeSpec::AUTO) {
    return nullptr;
  }
  return memory;
}

// Blocks for `wait`, or until `stop` returns true.
void WaitUnless(const std::function<bool()>& stop, absl::Duration wait) {
  const absl::Time end = MonotonicNow() + wait;
  while (MonotonicNow() < end && !stop()) {
    Sleep(std::min(kInterval, end - MonotonicNow()));
  }
}

absl::StatusOr<std::unique_ptr<StreamStageLink>> TryToOpen(
    const StageConnection& connection, const std::string& address,
    const StageCaller& call, std::shared_ptr<SharedMemory> memory,
    absl::Time deadline, const std::function<bool()>& stop) {
  const bool required =
      connection.transport == ExchangeSpec::MEMORY && memory != nullptr;
  auto link = std::make_unique<StreamStageLink>(
      connection.plan, NameOf(connection, address), call(), connection.hello,
      std::move(memory));
  absl::Status welcomed;
  do {
    welcomed =
        link->AwaitWelcome(std::min(deadline, MonotonicNow() + kInterval));
  } while (absl::IsDeadlineExceeded(welcomed) && MonotonicNow() < deadline &&
           !stop());
  TRIBUTARY_RETURN_IF_ERROR(welcomed);
  if (required && !link->in_memory()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "exchange.transport is MEMORY, but ", NameOf(connection, address),
        " cannot map the memory of this worker: use AUTO"));
  }
  return link;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StreamStageLink>> OpenStageLink(
    const StageConnection& connection, const std::function<bool()>& stop) {
  const absl::Time deadline = MonotonicNow() + connection.timeout;
  TRIBUTARY_ASSIGN_OR_RETURN(const std::string address, AddressOf(connection));
  TRIBUTARY_ASSIGN_OR_RETURN(const std::shared_ptr<SharedMemory> memory,
                             MemoryFor(connection, address));
  const absl::StatusOr<StageCaller> call =
      connection.connect(address, deadline, stop);
  absl::Duration wait = kFirstWait;
  while (call.ok() && !stop()) {
    absl::StatusOr<std::unique_ptr<StreamStageLink>> link =
        TryToOpen(connection, address, *call, memory, deadline, stop);
    if (link.ok()) return link;
    if (absl::IsDeadlineExceeded(link.status())) break;
    const bool again =
        absl::IsUnavailable(link.status()) && MonotonicNow() + wait < deadline;
    if (!again && !stop()) return link;
    WaitUnless(stop, wait);
    wait = std::min(2 * wait, kLongestWait);
  }
  if (stop()) return absl::CancelledError("stopped by request");
  if (absl::IsFailedPrecondition(call.status())) return call.status();
  return absl::UnavailableError(
      absl::StrCat(NameOf(connection, address),
                   " cannot be reached: is its port open to this machine? (see "
                   "--advertise)"));
}

PipelinePeers::Opener MakeStageOpener(const TransferPlan* plan,
                                      ExchangeSpec::Transport transport,
                                      StageConnector connect) {
  StageConnection common;
  common.plan = plan;
  common.transport = transport;
  common.connect = std::move(connect);
  return [common](const PipelinePeer& peer, const StageHello& hello,
                  const std::function<bool()>& stop)
             -> absl::StatusOr<std::unique_ptr<StageLink>> {
    StageConnection connection = common;
    connection.hello = hello;
    connection.address = peer.address;
    connection.local.set_host(peer.local_host);
    connection.local.set_address(peer.local_address);
    return OpenStageLink(connection, stop);
  };
}

}  // namespace tributary
