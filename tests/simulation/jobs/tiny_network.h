// The network and the samples of simulated jobs with a pipeline or with tables.
// Real layers compute it, in the stages of workers and undivided in the
// reference.
#ifndef TRIBUTARY_TESTS_SIMULATION_JOBS_TINY_NETWORK_H_
#define TRIBUTARY_TESTS_SIMULATION_JOBS_TINY_NETWORK_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "proto/job.pb.h"
#include "proto/rendezvous.pb.h"
#include "worker/data/data_set.h"
#include "worker/nn/graph.h"

namespace tributary::simulation {

// Called when a layer computes; may let time pass. Null: no time passes.
using OnLayer = std::function<void()>;

// Returns a network of up to twenty layers, which depends only on `seed` and
// `sparse`. The first value and others skip layers, and most networks use a
// weight twice. The first layer also reads the vectors of features.
Graph BuildTinyNetwork(uint64_t seed, const SparseSpec& sparse,
                       const OnLayer& on_layer);

// Returns samples that depend only on their numbers and on the job's seed. If
// the job skips non-finite gradients, a few of them contain a NaN. With
// `wrong`, one sample differs. The keys of features are few, so that samples
// share rows.
std::unique_ptr<DataSet> MakeTinySamples(const JobSpec& job,
                                         const DataFacts& facts, bool wrong);

}  // namespace tributary::simulation

#endif  // TRIBUTARY_TESTS_SIMULATION_JOBS_TINY_NETWORK_H_
