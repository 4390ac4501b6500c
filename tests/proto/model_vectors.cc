#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/sha256.h"
#include "common/job/job.h"
#include "tests/proto/vectors.h"
#include "worker/training/training_setup.h"

namespace tributary {
namespace {

constexpr const char* kJobs[] = {
    // A linear model, in one short chunk.
    "model { mlp {} } data { random { shape: 5 classes: 3 } }",
    "model { mlp { hidden: [20, 33] } } seed: 42"
    " data { random { shape: 7 classes: 10 } }",
    // A parameter over several chunks.
    "model { mlp { hidden: [64] } } seed: 18364758544493064720"
    " data { random { shape: [1, 8, 8] classes: 4 } }",
    "model { cnn { block { channels: 4 } block { channels: 6 kernel: 5 } "
    "hidden: 16 } } data { random { shape: [3, 8, 8] } }",
    "model { gpt { layers: 2 heads: 2 width: 16 context: 8 } }"
    " data { random {} }",
    "model { gpt { layers: 1 heads: 2 width: 16 context: 8 bias: false"
    " tied_head: false } } data { random {} }",
    "model { resnet { layers: [1, 2] width: 8 } }"
    " data { random { shape: [3, 8, 8] } }",
    "model { synthetic { parameters: 1000 } } data { random {} }"};

std::string DigestOf(const float* values, int64_t count) {
  return Sha256Hex({reinterpret_cast<const char*>(values),
                    static_cast<size_t>(count) * sizeof(float)});
}

Vectors Describe(const char* text) {
  absl::StatusOr<JobSpec> job =
      ParseJob(absl::StrCat(text,
                            " batch { global: 16 } steps: 1 exchange { "
                            "parameter_server { chunk_bytes: 4096 } }"),
               "job");
  if (!job.ok()) std::abort();
  const auto setup = TrainingSetup::Create(ResolveJob(*job), /*threads=*/1);
  if (!setup.ok()) std::abort();
  const ArenaLayout& layout = (*setup)->layout();
  std::vector<float> arena(layout.arena_elements());
  (*setup)->model(0)->Initialize(job->seed(), layout, arena.data());
  Vectors parameters = Vectors::array();
  for (const Parameter& parameter : layout.parameters()) {
    const float* const values = &arena[parameter.offset];
    parameters.push_back(
        {{"name", parameter.name},
         {"shape", parameter.shape},
         {"group", OptimizerGroup_Name(parameter.group)},
         {"offset", parameter.offset},
         {"first", HexOf(values, std::min<int64_t>(4, parameter.size))},
         {"sha256", DigestOf(values, parameter.size)}});
  }
  std::vector<int64_t> chunks;
  for (int chunk = 0; chunk < layout.chunk_count(); ++chunk) {
    chunks.push_back(layout.ChunkSize(chunk));
  }
  return {{"job", text},
          {"chunk_elements", layout.chunk_elements()},
          {"arena_elements", layout.arena_elements()},
          {"chunk_sizes", chunks},
          {"signature", layout.signature()},
          {"sha256", DigestOf(arena.data(), layout.arena_elements())},
          {"parameters", parameters}};
}

}  // namespace

Vectors ModelVectors() {
  Vectors list = Vectors::array();
  for (const char* job : kJobs) list.push_back(Describe(job));
  return {{"models", list}};
}

}  // namespace tributary
