// A part of a network, and how it is computed.
#ifndef TRIBUTARY_WORKER_NN_NETWORK_PART_H_
#define TRIBUTARY_WORKER_NN_NETWORK_PART_H_

namespace tributary {

// Which part of a network is planned, and how it is computed.
struct NetworkPart {
  // The layers [begin, end); `end` -1 stands for the number of layers. A part
  // that does not contain all layers is a stage of a pipeline.
  int begin = 0;
  int end = -1;
  // True: backward computes activations again instead of keeping all of them
  // (Chen et al., "Training deep nets with sublinear memory cost", 2016). The
  // results have the same bits.
  bool recompute = false;
  // True: the gradients of weights are computed in a pass of their own, which
  // may wait until nothing else can be computed (Qi et al., "Zero bubble
  // pipeline parallelism", 2023). The results have the same bits.
  bool separate_weights = false;
  // Number of micro-batches whose forward may be complete while their backward
  // or weights pass is not. If there is more than one, they share the memory
  // that only one of the passes uses. 0: nothing is computed.
  int in_flight = 1;
  // True: between the passes of a micro-batch, other networks compute in the
  // memory that only one of the passes uses; see Network::Create.
  bool shares_memory = false;

  // Returns whether layer number `layer` belongs to the part.
  bool Contains(int layer) const {
    return begin <= layer && (end < 0 || layer < end);
  }
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_NN_NETWORK_PART_H_
