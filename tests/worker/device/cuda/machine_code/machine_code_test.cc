// No kernel of the program spills registers, or accesses local memory or memory
// of any kind: generic loads and stores first find out which memory an address
// is in.
#include <cxxabi.h>
#include <dirent.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::IsSupersetOf;

// Number of .cu files of the program.
constexpr size_t kSources = 17;

// Some of the kernels, without template arguments: those of attention, the
// linear epilogue, layer norm, loss and optimizers.
const char* const kNamedKernels[] = {"FragmentForwardKernel",
                                     "FragmentQueryGradientsKernel",
                                     "FragmentKeyGradientsKernel",
                                     "ForwardKernel",
                                     "QueryGradientsKernel",
                                     "KeyGradientsKernel",
                                     "DotsKernel",
                                     "BackwardKernel",
                                     "FinishSumsKernel",
                                     "SumChunksKernel",
                                     "ForEachInRowsKernel",
                                     "RowSumsKernel",
                                     "SoftmaxCrossEntropyKernel",
                                     "MeanSquaredErrorKernel",
                                     "UpdateChunksKernel",
                                     "SumSquaresKernel"};

constexpr char kFolder[] = "tests/worker/device/cuda/machine_code/";

// Kernels of CUDA's library CUB, which the program does not define.
constexpr char kLibrary[] = "cub::";

// What was found, by architecture and kernel.
using Kernel = std::pair<std::string, std::string>;
using Counts = std::map<Kernel, int>;

// The kernel's name without namespaces and parameters.
std::string NameOf(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> demangled(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status),
      std::free);
  if (status != 0) return mangled;
  const std::string name =
      absl::StrReplaceAll(demangled.get(), {{"(anonymous namespace)::", ""},
                                            {"tributary::cuda::", ""},
                                            {"void ", ""}});
  return name.substr(0, name.find('('));
}

// Names of files that end in `suffix`: with `bad`, those of bad_kernels.cu, and
// otherwise all others.
std::vector<std::string> Files(const std::string& suffix, bool bad) {
  std::vector<std::string> names;
  DIR* const folder = opendir(kFolder);
  if (folder == nullptr) return names;
  while (const dirent* entry = readdir(folder)) {
    const std::string name = entry->d_name;
    if (absl::EndsWith(name, suffix) &&
        absl::StartsWith(name, "bad_kernels.") == bad) {
      names.push_back(name);
    }
  }
  closedir(folder);
  return names;
}

// Sums spills by kernel. A line of ptxas is one of
//   ptxas info    : Compiling entry function 'NAME' for 'sm_90'
//       72 bytes stack frame, 256 bytes spill stores, 144 bytes spill loads
void AddSpills(const std::string& log, Counts* spills) {
  std::ifstream lines(kFolder + log);
  Kernel kernel;
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> quoted = absl::StrSplit(line, '\'');
    if (absl::StrContains(line, "Compiling entry function")) {
      ASSERT_EQ(quoted.size(), 5u) << line;
      kernel = {quoted[3], NameOf(quoted[1])};
      (*spills)[kernel];
      continue;
    }
    int frame = 0, stores = 0, loads = 0;
    if (std::sscanf(line.c_str(),
                    " %d bytes stack frame, %d bytes spill stores, %d bytes "
                    "spill loads",
                    &frame, &stores, &loads) == 3) {
      (*spills)[kernel] += stores + loads;
    }
  }
}

// Whether a line of nvdisasm has an instruction that accesses local memory, or
// memory of any kind. Lines look like
//   /*0a10*/   @!P0 LD.E R3, [R4.64] ;
bool AccessesLocalOrGeneric(const std::string& line) {
  static const auto* const kOperations =
      new std::set<std::string>{"LDL", "STL", "LD", "ST", "ATOM", "RED"};
  std::istringstream words(line);
  std::string address, operation;
  words >> address >> operation;
  if (!absl::StartsWith(address, "/*")) return false;
  if (absl::StartsWith(operation, "@")) words >> operation;
  return kOperations->count(operation.substr(0, operation.find('.'))) > 0;
}

void AddAccesses(const std::string& architecture, const std::string& assembly,
                 Counts* accesses) {
  constexpr char kSection[] = ".text.";
  Kernel kernel;
  std::istringstream lines(assembly);
  for (std::string line; std::getline(lines, line);) {
    if (absl::StartsWith(line, kSection) && absl::EndsWith(line, ":")) {
      const size_t begin = sizeof(kSection) - 1;
      kernel = {architecture,
                NameOf(line.substr(begin, line.size() - begin - 1))};
      (*accesses)[kernel];
    }
    if (AccessesLocalOrGeneric(line)) ++(*accesses)[kernel];
  }
}

// Empty if there is none. TRIBUTARY_NVDISASM names it if it is elsewhere.
std::string FindNvdisasm() {
  const char* const named = std::getenv("TRIBUTARY_NVDISASM");
  for (const std::string& path : {std::string(named == nullptr ? "" : named),
                                  std::string("/usr/local/cuda/bin/nvdisasm"),
                                  std::string("/usr/local/bin/nvdisasm"),
                                  std::string("/usr/bin/nvdisasm")}) {
    if (!path.empty() && access(path.c_str(), X_OK) == 0) return path;
  }
  return "";
}

Counts SpillsIn(const std::vector<std::string>& logs) {
  Counts spills;
  for (const std::string& log : logs) AddSpills(log, &spills);
  return spills;
}

// Disassembles code for sm_90.
Counts AccessesIn(const std::string& nvdisasm,
                  const std::vector<std::string>& files) {
  Counts accesses;
  for (const std::string& file : files) {
    const CommandResult result =
        RunExpecting(0, {nvdisasm, "-c", kFolder + file});
    AddAccesses("sm_90", result.standard_output, &accesses);
  }
  return accesses;
}

// The kernels with at least one of what was counted.
std::set<Kernel> Offenders(const Counts& counts) {
  std::set<Kernel> kernels;
  for (const auto& [kernel, count] : counts) {
    if (count > 0 && !absl::StartsWith(kernel.second, kLibrary)) {
      kernels.insert(kernel);
    }
  }
  return kernels;
}

std::set<std::string> NamesOf(const Counts& counts) {
  std::set<std::string> names;
  for (const auto& [kernel, count] : counts) {
    names.insert(kernel.second.substr(0, kernel.second.find('<')));
  }
  return names;
}

class AccessTest : public testing::Test {
 protected:
  void SetUp() override {
    if (nvdisasm_.empty()) {
      GTEST_SKIP() << "there is no nvdisasm: it is part of the CUDA toolkit, "
                      "and of pip's nvidia-cuda-nvdisasm; TRIBUTARY_NVDISASM "
                      "may name it";
    }
  }
  const std::string nvdisasm_ = FindNvdisasm();
};

TEST(SpillTest, NoKernelSpills) {
  const std::vector<std::string> logs = Files(".log", /*bad=*/false);
  EXPECT_EQ(logs.size(), 3 * kSources);
  const Counts spills = SpillsIn(logs);
  EXPECT_THAT(Offenders(spills), IsEmpty());
  EXPECT_THAT(NamesOf(spills), IsSupersetOf(kNamedKernels));
}

TEST(SpillTest, FindsTheKernelThatSpills) {
  EXPECT_THAT(Offenders(SpillsIn(Files(".log", /*bad=*/true))),
              ElementsAre(Kernel("sm_90", "SpillingKernel")));
}

TEST_F(AccessTest, NoKernelUsesLocalOrGenericMemory) {
  const std::vector<std::string> files = Files(".sm_90.cubin", /*bad=*/false);
  EXPECT_EQ(files.size(), kSources);
  const Counts accesses = AccessesIn(nvdisasm_, files);
  EXPECT_THAT(Offenders(accesses), IsEmpty());
  EXPECT_THAT(NamesOf(accesses), IsSupersetOf(kNamedKernels));
}

TEST_F(AccessTest, FindsKernelsThatUseLocalOrGenericMemory) {
  EXPECT_THAT(
      Offenders(AccessesIn(nvdisasm_, Files(".sm_90.cubin", /*bad=*/true))),
      ElementsAre(Kernel("sm_90", "GenericLoadKernel"),
                  Kernel("sm_90", "LocalArrayKernel"),
                  Kernel("sm_90", "SpillingKernel")));
}

TEST(AccessesTest, AreRecognized) {
  EXPECT_TRUE(AccessesLocalOrGeneric("  /*0a10*/  @!P0 LD.E R3, [R4.64] ;"));
  EXPECT_TRUE(AccessesLocalOrGeneric("  /*0a10*/  STL [R1], R2 ;"));
  EXPECT_FALSE(AccessesLocalOrGeneric("  /*0a10*/  LDG.E R3, [R4.64] ;"));
  EXPECT_FALSE(AccessesLocalOrGeneric("  /*0a10*/  LDSM.16.M88 R4, [R4] ;"));
  EXPECT_FALSE(AccessesLocalOrGeneric("  /*0a10*/  LDC R1, c[0x0][0x28] ;"));
  EXPECT_FALSE(AccessesLocalOrGeneric("\t.section .text.LD"));
}

}  // namespace
}  // namespace tributary
