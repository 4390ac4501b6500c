#include "common/stream/received_payload.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace tributary {

ReceivedPayload::ReceivedPayload(std::vector<Piece> pieces,
                                 std::shared_ptr<const void> owner)
    : owner_(std::move(owner)) {
  if (pieces.size() == 1) {
    whole_ = pieces.front();
  } else if (!pieces.empty()) {
    whole_.end = pieces.back().end;
    pieces_ = std::move(pieces);
  }
}

ReceivedPayload ReceivedPayload::From(int64_t begin) const {
  if (pieces_.empty()) {
    return ReceivedPayload(whole_.data + begin, whole_.end - begin, owner_);
  }
  std::vector<Piece> pieces;
  int64_t piece_begin = 0;
  for (const Piece& piece : pieces_) {
    const int64_t skipped = std::max<int64_t>(begin - piece_begin, 0);
    if (piece.end > begin) {
      pieces.push_back({piece.data + skipped, piece.end - begin});
    }
    piece_begin = piece.end;
  }
  return ReceivedPayload(std::move(pieces), owner_);
}

std::vector<ReceivedPayload::Piece>::const_iterator ReceivedPayload::Find(
    int64_t position, int64_t* begin) const {
  const auto piece = std::upper_bound(
      pieces_.begin(), pieces_.end(), position,
      [](int64_t p, const Piece& candidate) { return p < candidate.end; });
  *begin = piece == pieces_.begin() ? 0 : std::prev(piece)->end;
  return piece;
}

void ReceivedPayload::Copy(int64_t begin, int64_t count, void* to) const {
  if (pieces_.empty()) {
    if (count > 0) std::memcpy(to, whole_.data + begin, count);
    return;
  }
  int64_t piece_begin = 0;
  char* out = static_cast<char*>(to);
  const int64_t end = begin + count;
  for (auto piece = Find(begin, &piece_begin); begin < end; ++piece) {
    const int64_t bytes = std::min(end, piece->end) - begin;
    std::memcpy(out, piece->data + (begin - piece_begin), bytes);
    out += bytes;
    begin += bytes;
    piece_begin = piece->end;
  }
}

const char* ReceivedPayload::View(int64_t begin, int64_t count,
                                  char* scratch) const {
  if (pieces_.empty()) return whole_.data + begin;
  int64_t piece_begin = 0;
  const auto piece = Find(begin, &piece_begin);
  if (piece != pieces_.end() && begin + count <= piece->end) {
    return piece->data + (begin - piece_begin);
  }
  Copy(begin, count, scratch);
  return scratch;
}

}  // namespace tributary
