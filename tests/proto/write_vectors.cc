// Writes the test vectors of the protocol. Run it from the repository root
// after an intended change of the protocol:
//
//   bazel run //tests/proto:write_vectors -- "$PWD/proto/testdata"
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "tests/proto/vectors.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_vectors FOLDER\n");
    return 2;
  }
  char folder[] = "/tmp/write_vectors.XXXXXX";
  if (mkdtemp(folder) == nullptr) return 1;
  for (const tributary::VectorFile& file :
       tributary::AllVectorFiles(argv[1], folder)) {
    std::ofstream(absl::StrCat(argv[1], "/", file.name)) << file.text;
    std::printf("%s: %zu bytes\n", file.name.c_str(), file.text.size());
  }
  return 0;
}
