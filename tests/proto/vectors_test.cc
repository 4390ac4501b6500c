// The files in proto/testdata are what this code computes. They are a contract
// with workers of other implementations: if a test fails, the change breaks
// them, and existing checkpoints with it.
#include "tests/proto/vectors.h"

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace tributary {
namespace {

constexpr char kTestdata[] = "proto/testdata";

std::string Committed(const std::string& name) {
  std::ifstream file(absl::StrCat(kTestdata, "/", name));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void ExpectCommitted(const std::string& name, const Vectors& vectors) {
  EXPECT_TRUE(FileText(vectors) == Committed(name))
      << "proto/testdata/" << name
      << " is not what the code computes. If the change of the protocol is "
         "intended: bazel run //tests/proto:write_vectors -- "
         "\"$PWD/proto/testdata\"";
}

TEST(VectorsTest, RandomNumbersAndSamplesAreThoseOfTheContract) {
  ExpectCommitted("sampling.json", SamplingVectors(testing::TempDir()));
}

TEST(VectorsTest, DataAreDescribedAsInTheContract) {
  ExpectCommitted("data.json", DataVectors(kTestdata));
}

TEST(VectorsTest, TablesAndInitialValuesAreThoseOfTheContract) {
  ExpectCommitted("models.json", ModelVectors());
}

TEST(VectorsTest, NodesAreThoseOfTheContract) {
  ExpectCommitted("tree.json", TreeVectors());
}

TEST(VectorsTest, PayloadsAreThoseOfTheContract) {
  ExpectCommitted("encodings.json", EncodingVectors());
}

TEST(VectorsTest, RowsAndTheirMessagesAreThoseOfTheContract) {
  ExpectCommitted("rows.json", RowVectors());
}

TEST(VectorsTest, UpdatesAreThoseOfTheContract) {
  ExpectCommitted("steps.json", StepVectors());
}

}  // namespace
}  // namespace tributary
