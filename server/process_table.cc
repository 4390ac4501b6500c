#include "server/process_table.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace tributary {

void FillProcessTable(const ProcessView& view, StatusReply* reply) {
  const Member* const straggler = view.phase == StatusReply::TRAINING
                                      ? view.membership.Straggler(view.round)
                                      : nullptr;
  const std::string whom = straggler == nullptr
                               ? std::string()
                               : absl::StrCat("worker ", straggler->rank, ": ",
                                              straggler->heartbeat.phase());
  const int missing = view.servers.FirstMissing();
  for (size_t shard = 0; shard < view.servers.servers().size(); ++shard) {
    const ServerRoster::Server& server = view.servers.servers()[shard];
    ProcessStatus* const process = reply->add_process();
    process->set_role("server");
    process->set_number(static_cast<int>(shard));
    process->set_place(server.address);
    process->set_step(shard == 0 ? view.round : server.version);
    process->set_phase(server.link == nullptr ? "absent"
                       : server.configured    ? "ready"
                                              : "loading");
    process->set_silent_ms(
        shard == 0 ? -1
                   : absl::ToInt64Milliseconds(view.now - server.last_heard));
    if (server.link == nullptr) continue;
    if (missing >= 0) {
      process->set_waits_for(absl::StrCat("server ", missing));
    } else if (view.membership.members().empty()) {
      process->set_waits_for("workers");
    } else {
      process->set_waits_for(whom);
    }
  }
  for (const auto& [incarnation, member] : view.membership.members()) {
    ProcessStatus* const process = reply->add_process();
    process->set_role("worker");
    process->set_number(member.rank);
    process->set_place(absl::StrCat(member.host, ", process ", member.pid,
                                    member.device.empty() ? "" : ", ",
                                    member.device));
    process->set_step(member.heartbeat.step());
    process->set_phase(member.heartbeat.phase());
    process->set_silent_ms(
        absl::ToInt64Milliseconds(view.now - member.last_heard));
    if (missing >= 0) {
      process->set_waits_for(absl::StrCat("server ", missing));
    } else if (view.phase == StatusReply::WAITING && member.synced) {
      process->set_waits_for("other workers");
    } else if (member.synced && member.leaves == 0) {
      process->set_waits_for("leaves: it is a spare");
    } else if (&member != straggler && member.heartbeat.phase() == "exchange") {
      process->set_waits_for(whom);
    }
  }
}

}  // namespace tributary
