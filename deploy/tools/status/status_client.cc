#include "deploy/tools/status/status_client.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/json.h"
#include "common/base/status_macros.h"
#include "common/event/job_event.h"
#include "common/transport/channel.h"
#include "common/transport/diagnosis.h"
#include "deploy/launch/job/progress_display.h"
#include "nlohmann/json.hpp"
#include "proto/rendezvous.grpc.pb.h"

namespace tributary {

absl::StatusOr<StatusReply> AskStatus(const std::string& address,
                                      const Security& security,
                                      absl::Duration timeout) {
  const std::unique_ptr<Rendezvous::Stub> stub =
      Rendezvous::NewStub(CreateChannel(address, security));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoMicroseconds(timeout));
  StatusReply reply;
  const grpc::Status status =
      stub->GetStatus(&context, StatusRequest(), &reply);
  if (status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
      status.error_code() == grpc::StatusCode::PERMISSION_DENIED) {
    return FromGrpc(status, address);
  }
  if (!status.ok()) {
    TRIBUTARY_RETURN_IF_ERROR(Diagnose(address, security));
    const std::string name_problem = NameProblem(address);
    if (!name_problem.empty()) {
      return absl::UnavailableError(
          absl::StrCat(name_problem, "; correct the address ", address));
    }
    return absl::UnavailableError(absl::StrCat(
        "no response from a server at ", address, " (", status.error_message(),
        "); check that server 0 is running and that this is its address"));
  }
  return reply;
}

absl::Status CheckReady(const StatusReply& status) {
  switch (status.phase()) {
    case StatusReply::WAITING:
    case StatusReply::TRAINING:
    case StatusReply::EVALUATING:
    case StatusReply::RECOVERING:
      return absl::OkStatus();
    case StatusReply::FAILED:
      return absl::FailedPreconditionError(
          absl::StrCat("the job has failed: ", status.failure()));
    default:
      return absl::FailedPreconditionError("the job has ended");
  }
}

nlohmann::ordered_json StatusJson(const StatusReply& status, absl::Time now) {
  auto json = ParseOrderedJson(FormatProgressJson(status, now));
  json["model"] = status.model();
  json["attempt"] = status.attempt();
  json["checkpoint_step"] = status.checkpoint_step();
  json["run_id"] = status.run_id();
  json["name"] = status.name();
  json["seconds"] = status.seconds();
  json["parameters"] = status.parameters();
  json["servers"] = status.servers();
  json["workers_lost"] = status.workers_lost();
  json["lease_expiries"] = status.lease_expiries();
  json["events"] = nlohmann::ordered_json::array();
  for (const JobEvent& event : status.event()) {
    json["events"].push_back(EventJson(event));
  }
  json["processes"] = nlohmann::ordered_json::array();
  for (const ProcessStatus& process : status.process()) {
    const ProcessStatistics& statistics = process.statistics();
    json["processes"].push_back(
        {{"role", process.role()},
         {"number", process.number()},
         {"place", process.place()},
         {"step", process.step()},
         {"phase", process.phase()},
         {"silent_ms", process.silent_ms()},
         {"waits_for", process.waits_for()},
         {"host", process.host()},
         {"pid", process.pid()},
         {"release", process.release()},
         {"device", process.device()},
         {"lease_left_ms", process.lease_left_ms()},
         {"leaf_begin", process.leaf_begin()},
         {"leaf_end", process.leaf_end()},
         {"memory_bytes", statistics.memory_bytes()},
         {"peak_memory_bytes", statistics.peak_memory_bytes()},
         {"bytes_sent", statistics.bytes_sent()},
         {"bytes_received", statistics.bytes_received()},
         {"shared_bytes_sent", statistics.shared_bytes_sent()},
         {"shared_bytes_received", statistics.shared_bytes_received()},
         {"steps", statistics.steps()}});
    for (const TableSize& table : statistics.table()) {
      json["processes"].back()["tables"].push_back({{"name", table.name()},
                                                    {"rows", table.rows()},
                                                    {"bytes", table.bytes()}});
    }
  }
  return json;
}

}  // namespace tributary
