#include "tests/faults/sample_ledger.h"

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"

namespace tributary {
namespace {

using Hashes = std::vector<uint64_t>;
// By step and micro-batch.
using MicroBatches = std::map<std::pair<int64_t, int>, Hashes>;

absl::StatusOr<MicroBatches> Read(const std::string& path) {
  MicroBatches batches;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    int64_t step = 0;
    int micro_batch = 0;
    if (!(words >> step >> micro_batch)) {
      return absl::InternalError("bad line in the sample ledger: " + line);
    }
    Hashes hashes;
    for (uint64_t hash; words >> hash;) hashes.push_back(hash);
    const auto [place, added] =
        batches.try_emplace({step, micro_batch}, hashes);
    if (!added && place->second != hashes) {
      return absl::DataLossError(
          absl::StrCat("step ", step, ", micro-batch ", micro_batch,
                       ": was computed from different samples"));
    }
  }
  return batches;
}

// Adds the samples of a step to those of its epoch.
absl::Status AddStep(const MicroBatches& batches, int64_t step,
                     int micro_batches, std::set<uint64_t>* epoch) {
  for (int micro_batch = 0; micro_batch < micro_batches; ++micro_batch) {
    const auto found = batches.find({step, micro_batch});
    if (found == batches.end()) {
      return absl::DataLossError(absl::StrCat("step ", step, ", micro-batch ",
                                              micro_batch,
                                              ": nobody has computed it"));
    }
    for (const uint64_t hash : found->second) {
      if (epoch->insert(hash).second) continue;
      return absl::DataLossError(
          absl::StrCat("step ", step, ", micro-batch ", micro_batch,
                       ": has a sample for the second time in its epoch"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckSampleLedger(const std::string& path,
                               const SampleLedgerJob& job) {
  TRIBUTARY_ASSIGN_OR_RETURN(const MicroBatches batches, Read(path));
  const int64_t steps_per_epoch = (job.samples - 1) / job.global_batch + 1;
  std::set<uint64_t> all;  // The samples of the first epoch.
  std::set<uint64_t> epoch;
  for (int64_t step = 0; step < job.steps; ++step) {
    TRIBUTARY_RETURN_IF_ERROR(
        AddStep(batches, step, job.micro_batches, &epoch));
    if ((step + 1) % steps_per_epoch != 0) continue;
    if (static_cast<int64_t>(epoch.size()) != job.samples) {
      return absl::DataLossError(
          absl::StrCat("the epoch that ends with step ", step, " has ",
                       epoch.size(), " samples, expected ", job.samples));
    }
    if (all.empty()) all = epoch;
    if (epoch != all) {
      return absl::DataLossError(
          absl::StrCat("the epoch that ends with step ", step,
                       " has other samples than the first epoch"));
    }
    epoch.clear();
  }
  for (const uint64_t hash : epoch) {
    if (all.empty() || all.count(hash) > 0) continue;
    return absl::DataLossError(
        "the last epoch has a sample that the first epoch has not");
  }
  return absl::OkStatus();
}

}  // namespace tributary
