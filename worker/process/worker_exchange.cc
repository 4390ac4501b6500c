#include "worker/process/worker_exchange.h"

#include <functional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/exchange_traits.h"
#include "common/optimizer/optimizer.h"
#include "common/os/logger.h"
#include "worker/exchange/parameter_server/parameter_server_exchange.h"

namespace tributary {
namespace {

// Returns the function that maps the memory of a server's GPU, or null if the
// worker computes on a CPU, or adds or inspects gradients on the host.
MapDeviceMemory MapperFor(const TrainingSetup& setup) {
  Device* const device = setup.device(/*thread=*/0);
  if (!device->has_own_memory() || setup.traits().local_sgd ||
      setup.traits().contributions_await_norm) {
    return nullptr;
  }
  return [device](const DeviceMemoryHandle& handle)
             -> absl::StatusOr<MappedDeviceMemory> {
    TRIBUTARY_ASSIGN_OR_RETURN(std::shared_ptr<float> memory,
                               device->copies()->MapMemory(handle));
    const bool local = device->copies()->OwnsMemory(memory.get());
    return MappedDeviceMemory{std::move(memory), local};
  };
}

}  // namespace

absl::StatusOr<std::unique_ptr<Exchange>> ConnectToServers(
    const WorkerOptions& options, const Admission& admission,
    const TrainingSetup& setup, TraceRecorder* trace, WorkState* state,
    const WorkerChunks& chunks) {
  ParameterServerExchange::Options exchange_options;
  exchange_options.chunks = chunks.read;
  exchange_options.chunk_begin = chunks.begin;
  exchange_options.chunk_end = chunks.end;
  exchange_options.fetches = admission.job().parallel().sharded_weights();
  exchange_options.pin = setup.pin();
  exchange_options.trace = trace;
  exchange_options.map_device = MapperFor(setup);
  // The ranges of most numbers of micro-batches consist of up to two subtrees.
  exchange_options.device_arenas = 2 * setup.threads();
  exchange_options.log = [log = options.log](const std::string& line) {
    log->WriteLater(LogLevel::kInfo, line);
  };
  for (int shard = 0; shard < admission.server_address_size(); ++shard) {
    exchange_options.servers.push_back(
        {shard == 0 ? options.coordinator : admission.server_address(shard),
         shard < admission.local_address_size() ? admission.local_address(shard)
                                                : LocalAddress()});
  }
  exchange_options.job = admission.job();
  // Covers every step that may be in progress, including the next one.
  const int64_t open_steps = 2 + setup.traits().staleness;
  exchange_options.shared_arenas = static_cast<int>(
      open_steps * admission.job().batch().micro_batches() + 2);
  exchange_options.incarnation = admission.incarnation();
  exchange_options.secret = admission.secret();
  exchange_options.attempt = admission.attempt();
  exchange_options.job_id = admission.job_id();
  exchange_options.connect_timeout = options.connect_timeout;
  return ParameterServerExchange::Create(
      exchange_options, &setup.layout(), state,
      [network = options.network](const std::string& address,
                                  absl::Time deadline,
                                  const std::function<bool()>& stop) {
        return network->ConnectToServer(address, deadline, stop);
      });
}

ProgramRule* RuleOf(const WorkerOptions& options) {
  return options.rule == nullptr ? nullptr : options.rule();
}

absl::Status CheckRule(const WorkerOptions& options, const JobSpec& job) {
  const bool has_rule = RuleOf(options) != nullptr;
  if (job.optimizer().has_program() == has_rule) return absl::OkStatus();
  if (has_rule) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the program has an update rule, but the job has the optimizer ",
        OptimizerName(job.optimizer()),
        ": set optimizer { program {} } and exchange { all_reduce {} } in the "
        "job, or remove the program's rule"));
  }
  return absl::InvalidArgumentError(
      "the job has optimizer.program, but this worker's program has no update "
      "rule: call Worker::SetRule (in Python: pass rule=...), or set another "
      "optimizer in the job");
}

absl::StatusOr<NcclLibrary*> FindNccl(const WorkerOptions& options,
                                      const JobSpec& job,
                                      const Device& device) {
  const AllReduceSpec& all_reduce = job.exchange().all_reduce();
  if (!ResolveExchange(job).workers_exchange_directly ||
      all_reduce.backend() == AllReduceSpec::GLOO) {
    return nullptr;
  }
  absl::Status status;
  if (device.bus_id().empty()) {
    status = absl::FailedPreconditionError("it does not compute on a GPU");
  } else if (options.load_nccl == nullptr) {
    status = absl::FailedPreconditionError(
        "NCCL could delay the operations of the user's program on the GPU");
  } else {
    const absl::StatusOr<NcclLibrary*> library = options.load_nccl();
    if (library.ok()) return *library;
    status = library.status();
    options.log->Warning("%s", std::string(status.message()));
  }
  if (all_reduce.backend() == AllReduceSpec::AUTO) return nullptr;
  return absl::FailedPreconditionError(absl::StrCat(
      "exchange.all_reduce.backend is NCCL, which this worker cannot use: ",
      status.message(), "; set the backend to AUTO, which falls back to GLOO"));
}

}  // namespace tributary
