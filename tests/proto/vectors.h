// Test vectors of the protocol: the files in proto/testdata, computed by the
// code that trains.
#ifndef TRIBUTARY_TESTS_PROTO_VECTORS_H_
#define TRIBUTARY_TESTS_PROTO_VECTORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace tributary {

// Each function returns the contents of one file, named after it: an object
// whose members are lists of vectors. 64-bit numbers that may exceed 2^53 are
// decimal strings, arrays of floats are the hex digits of their little-endian
// bytes, digests are SHA-256 in hex.
using Vectors = nlohmann::ordered_json;

// Philox, streams, the order of samples, and the windows of texts. Writes a
// text to `folder` and reads it.
Vectors SamplingVectors(const std::string& folder);
// Fingerprints, random data, and DataFacts of jobs. Reads rows.csv and
// rows.test.csv from `testdata`, the path of proto/testdata.
Vectors DataVectors(const std::string& testdata);
// Parameter tables, chunks and initial values of built-in models.
Vectors ModelVectors();
// Nodes of the reduction tree.
Vectors TreeVectors();
// Payloads, with the residuals before and after.
Vectors EncodingVectors();
// Learning rates, and weights after steps of the optimizers.
Vectors StepVectors();

// Returns the text of a file: one vector on each line.
std::string FileText(const Vectors& vectors);

struct VectorFile {
  std::string name;
  std::string text;
};
// Returns all files.
std::vector<VectorFile> AllVectorFiles(const std::string& testdata,
                                       const std::string& folder);

// Returns the hex digits of the little-endian bytes of `count` floats.
std::string HexOf(const float* values, int64_t count);
std::string HexOf(const std::string& bytes);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_PROTO_VECTORS_H_
