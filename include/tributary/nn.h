// Everything that is needed to define networks and layers: the graph, all
// layers, and the losses. A layer either computes with the operations of a
// Device, which work on CPUs and GPUs in every precision, or with loops of its
// own over host memory (LayerSpec::host_floats).
#ifndef TRIBUTARY_NN_H_
#define TRIBUTARY_NN_H_

#include "worker/device/device.h"
#include "worker/device/reals.h"
#include "worker/nn/graph.h"
#include "worker/nn/layers/activation.h"
#include "worker/nn/layers/attention.h"
#include "worker/nn/layers/batch_norm.h"
#include "worker/nn/layers/convolution.h"
#include "worker/nn/layers/dropout.h"
#include "worker/nn/layers/embedding.h"
#include "worker/nn/layers/initializer.h"
#include "worker/nn/layers/interaction/block_sum.h"
#include "worker/nn/layers/interaction/columns.h"
#include "worker/nn/layers/interaction/product.h"
#include "worker/nn/layers/interaction/vector_pairs.h"
#include "worker/nn/layers/layer.h"
#include "worker/nn/layers/layer_norm.h"
#include "worker/nn/layers/linear.h"
#include "worker/nn/layers/loss.h"
#include "worker/nn/layers/pool.h"
#include "worker/nn/layers/residual.h"

#endif  // TRIBUTARY_NN_H_
