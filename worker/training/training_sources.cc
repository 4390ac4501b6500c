#include "worker/training/training_sources.h"

#include "absl/strings/cord.h"
#include "worker/data/open_data_set.h"

namespace tributary {
namespace {

constexpr char kJobEnd[] = "tributary/job_end";

}  // namespace

absl::Status JobEndRequested() {
  absl::Status status = absl::AbortedError("the program ends the job");
  status.SetPayload(kJobEnd, absl::Cord());
  return status;
}

bool IsJobEndRequest(const absl::Status& status) {
  return status.GetPayload(kJobEnd).has_value();
}

TrainingSources::TrainingSources(const ModelRegistry& models,
                                 const DataRegistry& data_sets)
    : open_data([data_sets](const JobSpec& job) {
        return OpenDataSet(job, data_sets);
      }),
      create_model([models](const ModelSpec& spec, const DataInfo& info,
                            int64_t max_samples, Device* device,
                            WeightCopies* copies, const NetworkPart& part) {
        return CreateModel(spec, info, max_samples, device, copies, models,
                           part);
      }),
      build_graph([models](const ModelSpec& spec, const DataInfo& info) {
        return BuildGraph(spec, info, models);
      }),
      plan_model([models](const ModelSpec& spec, const DataInfo& info,
                          int64_t max_samples, const Device& device,
                          const NetworkPart& part) {
        return PlanModelMemory(spec, info, max_samples, device, models, part);
      }) {}

}  // namespace tributary
