#include "common/plan/memory_account.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/job/exchange_traits.h"
#include "common/job/rounds.h"
#include "common/optimizer/optimizer.h"
#include "common/plan/row_memory.h"
#include "common/text/counted.h"

namespace tributary {
namespace {

// What a process needs without a model: measured, without the code, which the
// processes of a host share.
constexpr int64_t kProgramBytes = 16 << 20;

// Copies of the state of a server that in-memory replicas take, its own that
// are being sent and those of another server. Measured.
constexpr int kReplicaCopies = 4;

int SlotsOf(const OptimizerSpec& spec) {
  const auto optimizer = Optimizer::Create(spec);
  return optimizer.ok() ? (*optimizer)->slots() : 0;
}

int64_t BytesOf(int64_t elements) {
  return elements * static_cast<int64_t>(sizeof(float));
}

}  // namespace

int64_t GradientArenas(int64_t micro_batches, int threads) {
  // While the last leaf is computed, the left siblings of the nodes on its way
  // to the root wait.
  int64_t depth = 0;
  while (micro_batches > int64_t{1} << (depth + 1)) ++depth;
  const int64_t levels = micro_batches > 1 ? depth + 2 : 1;
  // The sum of the step before may still be read.
  return std::max<int64_t>(levels + threads - 1, 2);
}

bool SharesMemory(const JobSpec& job, SharedPart part) {
  const ExchangeTraits traits = ResolveExchange(job);
  const ExchangeSpec::Transport transport = job.exchange().transport();
  if (!traits.servers_update || job.exchange().has_compression() ||
      (transport != ExchangeSpec::AUTO && transport != ExchangeSpec::MEMORY)) {
    return false;
  }
  return part == SharedPart::kGradients || traits.one_version_per_round;
}

MemoryAccount ServerMemory(const ServerLoad& load) {
  const ExchangeTraits traits = ResolveExchange(load.job);
  const int64_t weights = BytesOf(load.elements);
  const int64_t state =
      weights * (1 + SlotsOf(JobOfRounds(load.job).optimizer()));
  MemoryAccount account;
  account.set_program(kProgramBytes);
  account.set_rows(load.row_bytes);
  account.set_copies(state);
  if (!traits.servers_update) {
    // What the workers have sent, the checkpoint and the final model.
    account.set_copies(state + 2 * weights);
    return account;
  }
  account.set_weights(2 * weights);
  if (load.job.exchange().wire_dtype() != ExchangeSpec::FLOAT32) {
    account.set_weights(3 * weights);
  }
  if (load.job.exchange().has_compression()) account.set_weights(4 * weights);
  account.set_optimizer(state - weights);
  if (!load.shares_memory) {
    // A version in memory of its own need not be copied. Those of one worker
    // wait for those of the others; with sharded weights, those of one worker
    // alone are the gradients of few chunks.
    account.set_copies(state - weights);
    account.set_gradients(load.job.parallel().sharded_weights()
                              ? (load.workers - 1) * weights + weights / 4
                              : std::max(load.workers - 1, 1) * weights);
  }
  if (load.job.recovery().journal()) {
    account.set_copies(state * (1 + kReplicaCopies));
  }
  return account;
}

MemoryAccount WorkerMemory(const WorkerLoad& load) {
  const ExchangeTraits traits = ResolveExchange(load.job);
  const int64_t weights = BytesOf(load.elements);
  const int slots = SlotsOf(load.job.optimizer());
  MemoryAccount account;
  account.set_program(kProgramBytes);
  account.set_data(load.data_bytes);
  account.set_activations(load.threads * load.activation_bytes);
  account.set_workspace(load.threads * load.workspace_bytes);
  int64_t gradients =
      weights * GradientArenas(load.micro_batches, load.threads);
  if (traits.local_sgd) {
    // Each thread has weights, a gradient and an optimizer of its own.
    account.set_weights(load.threads * weights);
    account.set_optimizer(load.threads * slots * weights);
    gradients += load.threads * weights;
  }
  account.set_gradients(gradients);
  if (load.job.has_sparse()) {
    account.set_rows(WorkerRowBytes(
        load.job, load.micro_batches,
        GradientArenas(load.micro_batches, load.threads), load.threads));
  }
  if (!traits.servers_update) {
    const int parts = traits.workers_shard_optimizer ? load.workers : 1;
    account.set_weights(2 * weights);
    account.set_optimizer(slots * weights / parts);
    // The mean gradient.
    if (load.job.optimizer().has_program()) {
      account.set_gradients(gradients + weights);
    }
    account.set_copies((1 + slots) * weights / load.workers);
    return account;
  }
  if (!load.shares_memory) {
    account.set_weights(account.weights() + 2 * weights);
  }
  return account;
}

std::vector<std::pair<const char*, int64_t>> MemoryParts(
    const MemoryAccount& account) {
  return {{"weights", account.weights()},
          {"optimizer", account.optimizer()},
          {"gradients", account.gradients()},
          {"activations", account.activations()},
          {"workspace", account.workspace()},
          {"data", account.data()},
          {"copies", account.copies()},
          {"rows", account.rows()},
          {"program", account.program()}};
}

int64_t TotalBytes(const MemoryAccount& account) {
  int64_t total = 0;
  for (const auto& [name, bytes] : MemoryParts(account)) total += bytes;
  return total;
}

void Add(const MemoryAccount& from, MemoryAccount* to) {
  to->set_weights(to->weights() + from.weights());
  to->set_optimizer(to->optimizer() + from.optimizer());
  to->set_gradients(to->gradients() + from.gradients());
  to->set_activations(to->activations() + from.activations());
  to->set_workspace(to->workspace() + from.workspace());
  to->set_data(to->data() + from.data());
  to->set_copies(to->copies() + from.copies());
  to->set_rows(to->rows() + from.rows());
  to->set_program(to->program() + from.program());
}

std::string DescribeMemory(const MemoryAccount& account) {
  std::vector<std::pair<const char*, int64_t>> parts = MemoryParts(account);
  std::stable_sort(
      parts.begin(), parts.end(),
      [](const auto& a, const auto& b) { return a.second > b.second; });
  std::vector<std::string> texts;
  for (const auto& [name, bytes] : parts) {
    if (bytes > 0)
      texts.push_back(absl::StrCat(name, " ", FormatMemory(bytes)));
  }
  return absl::StrJoin(texts, ", ");
}

std::string FormatMemory(int64_t bytes) {
  const double value = static_cast<double>(bytes);
  if (bytes >= 1000000000) return absl::StrFormat("%.1f GB", value / 1e9);
  if (bytes >= 1000000) return absl::StrFormat("%.1f MB", value / 1e6);
  return Counted(bytes, "byte");
}

}  // namespace tributary
