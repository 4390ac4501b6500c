// Initial values of a network's parameters.
#ifndef TRIBUTARY_WORKER_NN_INITIAL_VALUES_H_
#define TRIBUTARY_WORKER_NN_INITIAL_VALUES_H_

#include <cstdint>

#include "common/parameters/arena_layout.h"
#include "worker/nn/graph.h"

namespace tributary {

// Writes the initial values of elements [begin, end) of the arena `weights`, in
// host memory: those of parameters, and zeros in the gaps between them.
// `layout` must be the layout of graph.table(). The values of parameter number
// p of the table are drawn from RandomStream{seed, kInitialization, 0, p}, so
// they do not depend on the range.
void WriteInitialValues(const Graph& graph, uint64_t seed,
                        const ArenaLayout& layout, int64_t begin, int64_t end,
                        float* weights);

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_INITIAL_VALUES_H_
