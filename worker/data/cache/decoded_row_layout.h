// The layout of a file of decoded rows, for its writer and its readers on the
// same machine:
//   a DecodedRowHeader
//   for each feature of the job's `sparse`, a byte: 1 if each row has exactly
//     one key of it, otherwise 0
//   the encoding of the data set
//   for the training and then the held-out part:
//     the records, DecodedRowLayout::record_bytes each
//     for each feature with any number of keys in a row:
//       the ends of the rows' keys (see FeatureKeys::ends), and the keys
// Each of these pieces is padded to a multiple of 8 bytes. Numbers are those of
// the machine's memory.
#ifndef TRIBUTARY_WORKER_DATA_CACHE_DECODED_ROW_LAYOUT_H_
#define TRIBUTARY_WORKER_DATA_CACHE_DECODED_ROW_LAYOUT_H_

#include <cstdint>

namespace tributary {

// "TRIBROW1".
inline constexpr uint64_t kRowFileMagic = 0x31574f5242495254;

struct DecodedRowHeader {
  uint64_t magic = kRowFileMagic;
  int64_t rows[2] = {};  // Training, held-out.
  int64_t features = 0;  // Numbers of a row.
  int64_t classes = 0;
  int64_t labels = 0;            // Of a row: 1 or 0.
  int64_t values = 0;            // Of a row: 1 or 0.
  int64_t key_features = 0;      // Number of features of the job's `sparse`.
  int64_t one_key_features = 0;  // Of these, those with one key in each row.
  int64_t encoding_bytes = 0;
  uint64_t fingerprint = 0;  // See DataSet.
};

// Returns the smallest multiple of 8 that is not below `bytes`.
constexpr int64_t RoundUpToWord(int64_t bytes) { return (bytes + 7) / 8 * 8; }

// Where the parts of a record begin: the features, the label, the value and,
// from a multiple of 8 bytes, the keys of the features with one key.
struct DecodedRowLayout {
  DecodedRowLayout() = default;
  explicit DecodedRowLayout(const DecodedRowHeader& header)
      : label_at(4 * header.features),
        value_at(label_at + 4 * header.labels),
        keys_at(RoundUpToWord(value_at + 4 * header.values)),
        record_bytes(keys_at + 8 * header.one_key_features) {}

  int64_t label_at = 0;
  int64_t value_at = 0;
  int64_t keys_at = 0;
  int64_t record_bytes = 0;
};

}  // namespace tributary

#endif  // TRIBUTARY_WORKER_DATA_CACHE_DECODED_ROW_LAYOUT_H_
