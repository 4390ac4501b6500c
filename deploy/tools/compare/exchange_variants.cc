#include "deploy/tools/compare/exchange_variants.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/job/job.h"
#include "common/text/nearest.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace tributary {
namespace {

constexpr char kSynchronous[] = "synchronous";
constexpr char kSynchronousSharded[] = "synchronous_sharded";
constexpr char kAllReduce[] = "all_reduce";
constexpr char kAllReduceSharded[] = "all_reduce_sharded";
constexpr char kDataParallel[] = "data_parallel";
constexpr char kPipeline[] = "pipeline";

// The consistency modes, whose fields have the names of the exchanges.
const google::protobuf::OneofDescriptor* Modes() {
  return ConsistencySpec::descriptor()->FindOneofByName("mode");
}

absl::StatusOr<ExchangeVariant> MakeVariant(const JobSpec& job,
                                            const std::string& name,
                                            int servers, int workers) {
  ExchangeVariant variant;
  variant.name = name;
  variant.job = job;
  SetExchange(name, variant.job.mutable_exchange());
  if (name != kPipeline) {
    variant.job.mutable_parallel()->clear_pipeline();
  } else if (!job.parallel().has_pipeline()) {
    variant.job.mutable_parallel()->mutable_pipeline()->set_stages(workers);
  }
  TRIBUTARY_RETURN_IF_ERROR(ValidateJob(variant.job));
  variant.job = ResolveJob(std::move(variant.job));
  variant.in_process = name == kDataParallel;
  if (name == kSynchronousSharded) {
    if (servers < 2) {
      return absl::InvalidArgumentError("it needs --servers 2 or more");
    }
    variant.servers = servers;
  }
  if (job.recovery().journal() && variant.servers < 2) {
    return absl::InvalidArgumentError(
        "recovery.journal: needs two servers or more; leave it out");
  }
  return variant;
}

}  // namespace

const std::vector<std::string>& ExchangeNames() {
  static const auto* const names = [] {
    auto* const all = new std::vector<std::string>();
    const google::protobuf::OneofDescriptor* const modes = Modes();
    for (int i = 0; i < modes->field_count(); ++i) {
      all->push_back(modes->field(i)->name());
      if (all->back() == kSynchronous) all->push_back(kSynchronousSharded);
    }
    all->insert(all->end(),
                {kAllReduce, kAllReduceSharded, kDataParallel, kPipeline});
    return all;
  }();
  return *names;
}

void SetExchange(const std::string& name, ExchangeSpec* exchange) {
  // Setting a oneof to the member that is already set keeps its fields.
  const int64_t chunk_bytes = ChunkBytes(*exchange);
  if (name == kAllReduce || name == kAllReduceSharded) {
    AllReduceSpec* all_reduce = exchange->mutable_all_reduce();
    all_reduce->set_chunk_bytes(chunk_bytes);
    all_reduce->set_shard_optimizer(name == kAllReduceSharded);
    return;
  }
  ParameterServerSpec* server = exchange->mutable_parameter_server();
  server->set_chunk_bytes(chunk_bytes);
  ConsistencySpec* consistency = server->mutable_consistency();
  const bool synchronous =
      name == kSynchronousSharded || name == kDataParallel || name == kPipeline;
  const std::string mode = synchronous ? kSynchronous : name;
  const google::protobuf::FieldDescriptor* const field =
      ConsistencySpec::descriptor()->FindFieldByName(mode);
  ConsistencySpec::GetReflection()->MutableMessage(consistency, field);
}

absl::StatusOr<ExchangeVariants> MakeExchangeVariants(
    const JobSpec& job, const std::vector<std::string>& names, int servers,
    int workers) {
  const std::vector<std::string>& all = ExchangeNames();
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (std::find(all.begin(), all.end(), name) == all.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("unknown exchange ", name, DidYouMean(name, all),
                       "; there are ", absl::StrJoin(all, ", ")));
    }
    if (!seen.insert(name).second) {
      return absl::InvalidArgumentError(absl::StrCat(name, " is given twice"));
    }
  }
  ExchangeVariants result;
  for (const std::string& name : names.empty() ? all : names) {
    // Not every model can be divided.
    if (names.empty() && name == kPipeline && !job.parallel().has_pipeline()) {
      continue;
    }
    absl::StatusOr<ExchangeVariant> variant =
        MakeVariant(job, name, servers, workers);
    if (variant.ok()) {
      result.variants.push_back(*std::move(variant));
      continue;
    }
    const std::string reason(variant.status().message());
    if (!names.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the job cannot run with ", name, ": ", reason));
    }
    result.left_out.push_back({name, reason});
  }
  if (result.variants.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the job allows no exchange; ", result.left_out[0].name,
                     ": ", result.left_out[0].reason));
  }
  return result;
}

}  // namespace tributary
