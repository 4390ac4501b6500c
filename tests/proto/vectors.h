// Test vectors of the protocol: the files in proto/testdata, computed by the
// code that training uses.
#ifndef TRIBUTARY_TESTS_PROTO_VECTORS_H_
#define TRIBUTARY_TESTS_PROTO_VECTORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace tributary {

// The contents of one file: an object whose members are lists of test vectors.
// Each function below that returns Vectors is named after its file. 64-bit
// numbers that may exceed 2^53 are decimal strings, arrays of floats are the
// hex digits of their little-endian bytes, digests are SHA-256 in hex.
using Vectors = nlohmann::ordered_json;

// Returns vectors of Philox, of random streams, of the order of samples, and of
// the windows of texts. Writes a text to `folder`, to read it as a data set.
Vectors SamplingVectors(const std::string& folder);
// Returns vectors of fingerprints, random data, and the DataFacts of jobs.
// Reads rows.csv and rows.test.csv from `testdata`, the path of proto/testdata.
Vectors DataVectors(const std::string& testdata);
// Returns the parameter tables, chunks and initial values of built-in models.
Vectors ModelVectors();
// Returns the nodes of reduction trees of several sizes.
Vectors TreeVectors();
// Returns encoded payloads, with the residuals of compression before and after
// each.
Vectors EncodingVectors();
// Returns messages of the Exchange stream, as text and as bytes.
Vectors MessageVectors();
// Returns learning rates, and the weights after steps of the optimizers.
Vectors StepVectors();

// Returns where keys belong, the messages that carry rows, and sums of their
// gradients.
Vectors RowVectors();

// Returns the text of the file with these contents: one vector on each line.
std::string FileText(const Vectors& vectors);

struct VectorFile {
  std::string name;
  std::string text;
};
// Returns all files. See DataVectors for `testdata`, and SamplingVectors for
// `folder`.
std::vector<VectorFile> AllVectorFiles(const std::string& testdata,
                                       const std::string& folder);

// Return the hex digits of the little-endian bytes of `count` floats, or of
// `bytes`.
std::string HexOf(const float* values, int64_t count);
std::string HexOf(const std::string& bytes);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_PROTO_VECTORS_H_
