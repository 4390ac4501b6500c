// Which parts of which tensors a server's chunks hold.
#ifndef TRIBUTARY_SERVER_CHECKPOINT_TENSOR_PIECES_H_
#define TRIBUTARY_SERVER_CHECKPOINT_TENSOR_PIECES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/parameters/parameter_table.h"

namespace tributary {

// Consecutive elements [begin, end) of one parameter.
struct TensorPiece {
  const Parameter* parameter = nullptr;  // The layout's.
  int64_t begin = 0;
  int64_t end = 0;

  bool whole() const { return begin == 0 && end == parameter->size; }
  // NAME, or NAME[BEGIN:END] if it is not whole.
  std::string Name() const;
};

// The pieces in the chunks of `shard`, as long as they can be, ordered as in
// its files: by the parameters' names, then by their place. Over all shards
// each element is in one piece.
std::vector<TensorPiece> PiecesOf(const ArenaLayout& layout, int shard,
                                  int servers);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_CHECKPOINT_TENSOR_PIECES_H_
