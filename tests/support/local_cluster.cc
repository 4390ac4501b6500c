#include "tests/support/local_cluster.h"

#include <fstream>

#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/job/job.h"
#include "common/transport/channel.h"
#include "grpcpp/channel.h"
#include "gtest/gtest.h"
#include "server/process/server_process.h"

namespace tributary {

LocalCluster::LocalCluster(const JobSpec& job, int servers,
                           int expected_workers, const std::string& directory,
                           const ClusterSecurity& security,
                           const ClusterServers& how)
    : directory_(directory), security_(security), how_(how) {
  LogOptions quiet;
  quiet.standard_error = false;
  log_ = *Logger::Create(quiet);
  EXPECT_EQ(ValidateJob(job), absl::OkStatus());
  for (int shard = 0; shard < servers; ++shard) {
    StartServer(job, shard, servers, expected_workers);
  }
  stub_ = Rendezvous::NewStub(CreateChannel(coordinator_, security_.workers));
}

void LocalCluster::StartServer(const JobSpec& job, int shard, int servers,
                               int expected_workers) {
  servers_.push_back(std::make_unique<Process>());
  Process* process = servers_.back().get();
  // Shared with the server's thread, which may outlive this call.
  const auto listening = std::make_shared<absl::Notification>();
  ServerOptions options;
  options.log = log_.get();
  options.shard = shard;
  options.servers = servers;
  options.coordinator = coordinator_;
  options.expected_workers = expected_workers;
  options.job = ResolveJob(job);
  options.output_directory = directory_;
  options.security = security_.servers;
  options.make_passes = how_.make_passes;
  options.make_secret_key = [] { return std::string(kClusterSecretKey); };
  options.resume = !how_.resume_from.empty();
  options.resume_from = how_.resume_from;
  options.on_listening = [this, shard, listening](const std::string& address) {
    if (listening->HasBeenNotified()) return;
    if (shard == 0) coordinator_ = address;
    listening->Notify();
  };
  if (how_.change) how_.change(&options);
  process->thread = std::thread([process, options, listening] {
    process->status = RunServer(options, &process->shutdown);
    if (listening->HasBeenNotified()) return;
    ADD_FAILURE() << "the server ended before it listened: " << process->status;
    listening->Notify();
  });
  listening->WaitForNotification();
}

LocalCluster::~LocalCluster() {
  for (auto* list : {&workers_, &servers_}) {
    for (const auto& process : *list) {
      process->shutdown.Request();
      if (process->thread.joinable()) process->thread.join();
    }
  }
}

int LocalCluster::StartWorker(int threads) {
  WorkerOptions options;
  options.threads = threads;
  options.security = security_.workers;
  return Start(options);
}

int LocalCluster::StartWorkerOn(const DeviceMaker& make_device, int threads,
                                NcclLibrary* nccl,
                                ReductionStreamMaker make_reduction_stream) {
  WorkerOptions options;
  options.threads = threads;
  options.make_device = make_device;
  if (nccl != nullptr) options.load_nccl = [nccl] { return nccl; };
  options.make_reduction_stream = std::move(make_reduction_stream);
  options.security = security_.workers;
  return Start(options);
}

int LocalCluster::StartSlowWorker(double slowness) {
  WorkerOptions options;
  options.security = security_.workers;
  options.clock = [slowness, start = absl::Now()] {
    return start + (absl::Now() - start) * slowness;
  };
  return Start(options);
}

int LocalCluster::StartWorkerOfRank(int rank) {
  WorkerOptions options;
  options.rank = rank;
  options.security = security_.workers;
  return Start(options);
}

int LocalCluster::StartWorkerOver(WorkerNetwork* network, int rank) {
  WorkerOptions options;
  options.rank = rank;
  options.network = network;
  return Start(options);
}

int LocalCluster::StartWorkerWith(const Security& security) {
  WorkerOptions options;
  options.security = security;
  return Start(options);
}

int LocalCluster::Start(const WorkerOptions& worker) {
  workers_.push_back(std::make_unique<Process>());
  Process* process = workers_.back().get();
  WorkerOptions options = worker;
  options.log = log_.get();
  options.coordinator = coordinator_;
  // Short, because tests are shorter than the default interval.
  options.heartbeat_interval = absl::Milliseconds(2);
  process->thread = std::thread([process, options] {
    process->status = RunWorker(options, &process->shutdown);
  });
  return static_cast<int>(workers_.size()) - 1;
}

void LocalCluster::KillWorker(int worker) {
  workers_[worker]->shutdown.Request();
  workers_[worker]->thread.join();
}

void LocalCluster::AwaitStep(int64_t step) {
  while (true) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(10)));
    StatusReply reply;
    const grpc::Status status =
        stub_->GetStatus(&context, StatusRequest(), &reply);
    if (!status.ok() || reply.step() >= step ||
        reply.phase() == StatusReply::FAILED) {
      return;
    }
  }
}

absl::Status LocalCluster::Await() {
  for (auto* list : {&workers_, &servers_}) {
    for (const auto& process : *list) {
      if (process->thread.joinable()) process->thread.join();
    }
  }
  return servers_[0]->status;
}

absl::Status LocalCluster::AwaitWorker(int worker) {
  if (workers_[worker]->thread.joinable()) workers_[worker]->thread.join();
  return workers_[worker]->status;
}

nlohmann::json LocalCluster::Summary() const {
  std::ifstream file(directory_ + "/summary.json");
  return nlohmann::json::parse(file, nullptr, /*allow_exceptions=*/false);
}

}  // namespace tributary
