#include "common/tokenizer/byte_pair_tokenizer.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/tokenizer/gpt2_pattern.h"
#include "common/tokenizer/special_tokens.h"

namespace tributary {
namespace {

constexpr int32_t kMergedAway = -1;
// The most words, and the most bytes of a word, that a call of Encode
// remembers. Most words of a text are frequent; long ones are not.
constexpr size_t kMaxCachedWords = 1 << 16;
constexpr size_t kMaxCachedWordBytes = 64;

uint64_t Key(int32_t left, int32_t right) {
  return static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 |
         static_cast<uint32_t>(right);
}

}  // namespace

struct BytePairTokenizer::Scratch {
  // A part of the word. The parts form a list in the order of the word.
  struct Part {
    // kMergedAway after the part was merged into the one before it.
    int32_t id;
    int32_t before;
    int32_t after;
  };
  // A pair that can be merged, unless one of its parts has changed since.
  struct Candidate {
    int32_t rank;
    int32_t place;  // The left part.
    int32_t left;   // The ids of both parts.
    int32_t right;
    int32_t id;
    bool operator<(const Candidate& other) const {
      return std::tie(rank, place) > std::tie(other.rank, other.place);
    }
  };
  std::vector<Part> parts;
  std::vector<Candidate> heap;
  // The range in the output of the call that has the ids of a word.
  absl::flat_hash_map<absl::string_view, std::pair<size_t, size_t>> cache;
};

absl::StatusOr<std::unique_ptr<BytePairTokenizer>> BytePairTokenizer::Create(
    BytePairModel model) {
  std::unique_ptr<BytePairTokenizer> result(new BytePairTokenizer);
  result->tokens_ = std::move(model.tokens);
  absl::flat_hash_map<absl::string_view, int32_t> ids;
  for (size_t i = 0; i < result->tokens_.size(); ++i) {
    const std::string& token = result->tokens_[i];
    const int32_t id = static_cast<int32_t>(i);
    if (model.special.contains(id)) {
      result->special_.emplace(token, id);
    } else if (!token.empty() && !ids.emplace(token, id).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("the tokens ", ids[token], " and ", id, " are both \"",
                       absl::CHexEscape(token), "\""));
    }
  }
  for (size_t byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    const auto found = ids.find(absl::string_view(&text, 1));
    if (found == ids.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("no token is the byte ", byte,
                       "; byte-level BPE needs a token for each byte"));
    }
    result->bytes_[byte] = found->second;
  }
  for (size_t rank = 0; rank < model.merges.size(); ++rank) {
    const auto& [left, right] = model.merges[rank];
    const std::string whole =
        absl::StrCat(result->tokens_[left], result->tokens_[right]);
    const auto found = ids.find(whole);
    if (found == ids.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("merge ", rank + 1, " makes \"", absl::CHexEscape(whole),
                       "\", which is not a token"));
    }
    result->merges_[Key(left, right)] = {static_cast<int32_t>(rank),
                                         found->second};
  }
  Scratch scratch;
  std::vector<int32_t> merged;
  for (const auto& [token, id] : ids) {
    merged.clear();
    result->AppendMerged(token, &scratch, &merged);
    if (model.whole_words_first || (merged.size() == 1 && merged[0] == id)) {
      result->words_.emplace(token, id);
    }
  }
  return result;
}

const BytePairTokenizer::Merge* BytePairTokenizer::FindMerge(
    int32_t left, int32_t right) const {
  const auto found = merges_.find(Key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BytePairTokenizer::AppendMerged(absl::string_view word, Scratch* scratch,
                                     std::vector<int32_t>* ids) const {
  auto& parts = scratch->parts;
  auto& heap = scratch->heap;
  const int32_t size = static_cast<int32_t>(word.size());
  parts.resize(word.size());
  heap.clear();
  for (int32_t i = 0; i < size; ++i) {
    parts[i] = {bytes_[static_cast<unsigned char>(word[i])], i - 1, i + 1};
  }
  // Adds the pair that begins with the part `place`.
  const auto consider = [&](int32_t place) {
    const int32_t after = parts[place].after;
    if (after >= size) return;
    const int32_t left = parts[place].id;
    const int32_t right = parts[after].id;
    if (const Merge* merge = FindMerge(left, right)) {
      heap.push_back({merge->rank, place, left, right, merge->id});
      std::push_heap(heap.begin(), heap.end());
    }
  };
  for (int32_t i = 0; i + 1 < size; ++i) consider(i);
  while (!heap.empty()) {
    const Scratch::Candidate best = heap.front();
    std::pop_heap(heap.begin(), heap.end());
    heap.pop_back();
    Scratch::Part& part = parts[best.place];
    if (part.id != best.left || part.after >= size ||
        parts[part.after].id != best.right) {
      continue;
    }
    Scratch::Part& next = parts[part.after];
    next.id = kMergedAway;
    part.id = best.id;
    part.after = next.after;
    if (part.after < size) parts[part.after].before = best.place;
    consider(best.place);
    if (part.before >= 0) consider(part.before);
  }
  for (int32_t i = 0; i < size; i = parts[i].after) ids->push_back(parts[i].id);
}

void BytePairTokenizer::AppendWord(absl::string_view word, Scratch* scratch,
                                   std::vector<int32_t>* ids) const {
  if (const auto whole = words_.find(word); whole != words_.end()) {
    ids->push_back(whole->second);
    return;
  }
  const auto known = scratch->cache.find(word);
  if (known != scratch->cache.end()) {
    const auto [begin, end] = known->second;
    for (size_t i = begin; i < end; ++i) ids->push_back((*ids)[i]);
    return;
  }
  const size_t begin = ids->size();
  AppendMerged(word, scratch, ids);
  if (word.size() <= kMaxCachedWordBytes &&
      scratch->cache.size() < kMaxCachedWords) {
    scratch->cache.emplace(word, std::make_pair(begin, ids->size()));
  }
}

absl::StatusOr<std::vector<int32_t>> BytePairTokenizer::Encode(
    absl::string_view text) const {
  TRIBUTARY_RETURN_IF_ERROR(CheckTextLength(text));
  std::vector<int32_t> ids;
  ids.reserve(text.size() / 3);
  Scratch scratch;
  while (!text.empty()) {
    const size_t bytes = Gpt2Word(text);
    AppendWord(text.substr(0, bytes), &scratch, &ids);
    text.remove_prefix(bytes);
  }
  return ids;
}

absl::StatusOr<std::string> BytePairTokenizer::Decode(
    absl::Span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocabulary() || tokens_[id].empty()) {
      return NoSuchToken(id, vocabulary());
    }
    text += tokens_[id];
  }
  return text;
}

absl::optional<int32_t> BytePairTokenizer::Special(SpecialToken token) const {
  for (const absl::string_view name : SpecialTokenNames(token)) {
    const auto found = special_.find(name);
    if (found != special_.end()) return found->second;
  }
  return absl::nullopt;
}

}  // namespace tributary
