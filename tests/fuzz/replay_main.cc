// Runs a fuzz target without a fuzzer, as a test: on every file of a corpus,
// and on some thousand mutations of them, always the same.
//
//   replay CORPUS_FOLDER
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "common/os/file.h"
#include "tests/fuzz/fuzz_target.h"

namespace tributary {
namespace {

constexpr int kMutations = 5000;
constexpr int64_t kMaxFileBytes = 1 << 20;

class Mutator {
 public:
  explicit Mutator(const std::vector<std::string>& corpus) : corpus_(corpus) {}

  // One of the corpus with one to four changes.
  std::string Next() {
    std::string bytes = Any();
    for (size_t changes = 1 + Below(4); changes > 0; --changes) Change(&bytes);
    return bytes;
  }

 private:
  size_t Below(size_t limit) { return limit == 0 ? 0 : random_() % limit; }
  const std::string& Any() { return corpus_[Below(corpus_.size())]; }

  void Change(std::string* bytes) {
    static constexpr char kTelling[] = {'\0', '\x01', '\x7f', '\x80', '\xff',
                                        '{',  '[',    '"',    ',',    '-',
                                        '9',  'e',    '\n'};
    const size_t place = Below(bytes->size() + 1);
    const size_t length = Below(bytes->size() - place + 1);
    switch (Below(7)) {
      case 0:
        if (place < bytes->size()) {
          (*bytes)[place] =
              static_cast<char>((*bytes)[place] ^ (1 << Below(8)));
        }
        return;
      case 1:
        if (place < bytes->size()) {
          (*bytes)[place] = kTelling[Below(sizeof(kTelling))];
        }
        return;
      case 2:
        bytes->insert(place, 1 + Below(16), kTelling[Below(sizeof(kTelling))]);
        return;
      case 3:
        bytes->erase(place, length);
        return;
      case 4:
        bytes->insert(place, bytes->substr(Below(bytes->size() + 1), length));
        return;
      case 5:
        bytes->resize(place);
        return;
      default: {
        const std::string& other = Any();
        const size_t begin = Below(other.size() + 1);
        bytes->insert(place, other, begin, Below(other.size() - begin + 1));
        return;
      }
    }
  }

  const std::vector<std::string>& corpus_;
  std::mt19937_64 random_{1};
};

void RunTarget(const std::string& bytes) {
  // On the heap, without room to spare: sanitizers see every byte beyond.
  const std::vector<uint8_t> exact(bytes.begin(), bytes.end());
  LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

int Main(const std::string& folder) {
  const auto names = ListFolder(folder);
  if (!names.ok() || names->empty()) {
    std::fprintf(stderr, "no corpus in %s\n", folder.c_str());
    return 1;
  }
  std::vector<std::string> corpus;
  for (const std::string& name : *names) {
    auto bytes = ReadFile(folder + "/" + name, kMaxFileBytes);
    if (!bytes.ok()) {
      std::fprintf(stderr, "%s\n", bytes.status().ToString().c_str());
      return 1;
    }
    std::printf("%s\n", name.c_str());
    std::fflush(stdout);
    RunTarget(*bytes);
    corpus.push_back(*std::move(bytes));
  }
  RunTarget("");
  Mutator mutator(corpus);
  for (int i = 0; i < kMutations; ++i) RunTarget(mutator.Next());
  return 0;
}

}  // namespace
}  // namespace tributary

int main(int argc, char** argv) {
  return argc == 2 ? tributary::Main(argv[1]) : 2;
}
