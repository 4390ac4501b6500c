// The parts of tensors that lie in the chunks of one server.
#ifndef TRIBUTARY_SERVER_CHECKPOINT_TENSOR_PIECES_H_
#define TRIBUTARY_SERVER_CHECKPOINT_TENSOR_PIECES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/parameters/arena_layout.h"

namespace tributary {

// Consecutive elements [begin, end) of one parameter.
struct TensorPiece {
  const Parameter* parameter = nullptr;  // Owned by the layout.
  int64_t begin = 0;
  int64_t end = 0;

  bool whole() const { return begin == 0 && end == parameter->size; }
  // Returns NAME, or NAME[BEGIN:END] if the piece is not the whole parameter.
  std::string Name() const;
};

// Returns the pieces of parameters that lie in the chunks of `shard`, in the
// order of the shard's files: by parameter name, then by position. The parts of
// a parameter in adjacent chunks form one piece. Over all shards, each element
// lies in exactly one piece.
std::vector<TensorPiece> PiecesOf(const ArenaLayout& layout, int shard,
                                  int servers);

}  // namespace tributary

#endif  // TRIBUTARY_SERVER_CHECKPOINT_TENSOR_PIECES_H_
