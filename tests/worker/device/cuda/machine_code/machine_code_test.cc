// Hot kernels neither spill registers nor use generic loads and stores, which
// first find out which memory an address is in. The kernels that do so today
// are listed with how much they do: lower a limit when a kernel gets better,
// and remove it when it is 0.
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
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

constexpr char kFolder[] = "tests/worker/device/cuda/machine_code/";

// An architecture and a kernel.
using Kernel = std::pair<std::string, std::string>;

// Bytes that ptxas says it spills: stores and loads.
const std::map<Kernel, int>& AllowedSpills() {
  static const auto* const allowed = new std::map<Kernel, int>{
      {{"sm_80", "QueryGradientsKernel<float>"}, 84 + 124},
      {{"sm_80", "KeyGradientsKernel<float>"}, 216 + 120},
      {{"sm_90", "QueryGradientsKernel<Bfloat16>"}, 48 + 40},
      {{"sm_90", "KeyGradientsKernel<Bfloat16>"}, 56 + 28},
      {{"sm_90", "QueryGradientsKernel<float>"}, 100 + 144},
      {{"sm_90", "KeyGradientsKernel<float>"}, 256 + 144},
      {{"sm_100", "KeyGradientsKernel<float>"}, 28 + 28},
  };
  return *allowed;
}

// Instructions that access local memory, or memory of any kind, on sm_90.
const std::map<Kernel, int>& AllowedAccesses() {
  static const auto* const allowed = new std::map<Kernel, int>{
      {{"sm_90", "QueryGradientsKernel<Bfloat16>"}, 12 + 10 + 216},
      {{"sm_90", "KeyGradientsKernel<Bfloat16>"}, 14 + 7 + 264},
      {{"sm_90", "QueryGradientsKernel<float>"}, 20 + 29},
      {{"sm_90", "KeyGradientsKernel<float>"}, 64 + 36},
      // nvcuda::wmma loads from shared memory by generic instructions.
      {{"sm_90", "ForwardKernel<Bfloat16>"}, 132},
  };
  return *allowed;
}

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

std::vector<std::string> Files(const std::string& suffix) {
  std::vector<std::string> names;
  DIR* const folder = opendir(kFolder);
  if (folder == nullptr) return names;
  while (const dirent* entry = readdir(folder)) {
    if (absl::EndsWith(entry->d_name, suffix)) names.push_back(entry->d_name);
  }
  closedir(folder);
  return names;
}

// Sums spills by kernel. A line of ptxas is one of
//   ptxas info    : Compiling entry function 'NAME' for 'sm_90'
//       72 bytes stack frame, 256 bytes spill stores, 144 bytes spill loads
void AddSpills(const std::string& log, std::map<Kernel, int>* spills) {
  std::ifstream lines(kFolder + log);
  Kernel kernel;
  for (std::string line; std::getline(lines, line);) {
    const std::vector<std::string> quoted = absl::StrSplit(line, '\'');
    if (absl::StrContains(line, "Compiling entry function")) {
      ASSERT_EQ(quoted.size(), 5u) << line;
      kernel = {quoted[3], NameOf(quoted[1])};
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
                 std::map<Kernel, int>* accesses) {
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

void ExpectWithin(const std::map<Kernel, int>& found,
                  const std::map<Kernel, int>& allowed) {
  for (const auto& [kernel, count] : found) {
    const auto limit = allowed.find(kernel);
    EXPECT_LE(count, limit == allowed.end() ? 0 : limit->second)
        << kernel.second << " for " << kernel.first;
  }
  for (const auto& [kernel, limit] : allowed) {
    const auto count = found.find(kernel);
    ASSERT_NE(count, found.end())
        << kernel.second << ", which is listed, is no kernel";
    EXPECT_GT(count->second, 0)
        << kernel.second << " for " << kernel.first << " need not be listed";
  }
}

TEST(MachineCodeTest, HotKernelsDoNotSpill) {
  const std::vector<std::string> logs = Files(".log");
  EXPECT_EQ(logs.size(), 3 * 8u);
  std::map<Kernel, int> spills;
  for (const std::string& log : logs) AddSpills(log, &spills);
  ExpectWithin(spills, AllowedSpills());
}

TEST(MachineCodeTest, HotKernelsUseNoLocalOrGenericMemory) {
  const std::string nvdisasm = FindNvdisasm();
  if (nvdisasm.empty()) {
    GTEST_SKIP() << "there is no nvdisasm: it is part of the CUDA toolkit, and "
                    "of pip's nvidia-cuda-nvdisasm; TRIBUTARY_NVDISASM may "
                    "name it";
  }
  const std::vector<std::string> files = Files(".sm_90.cubin");
  EXPECT_EQ(files.size(), 6u);
  std::map<Kernel, int> accesses;
  for (const std::string& file : files) {
    const CommandResult result = RunCommand({nvdisasm, "-c", kFolder + file});
    ASSERT_EQ(result.exit_code, 0) << result.standard_error;
    AddAccesses("sm_90", result.standard_output, &accesses);
  }
  ExpectWithin(accesses, AllowedAccesses());
}

TEST(MachineCodeTest, RecognizesAccesses) {
  EXPECT_TRUE(AccessesLocalOrGeneric("  /*0a10*/  @!P0 LD.E R3, [R4.64] ;"));
  EXPECT_TRUE(AccessesLocalOrGeneric("  /*0a10*/  STL [R1], R2 ;"));
  EXPECT_FALSE(AccessesLocalOrGeneric("  /*0a10*/  LDG.E R3, [R4.64] ;"));
  EXPECT_FALSE(AccessesLocalOrGeneric("  /*0a10*/  LDSM.16.M88 R4, [R4] ;"));
  EXPECT_FALSE(AccessesLocalOrGeneric("  /*0a10*/  LDC R1, c[0x0][0x28] ;"));
  EXPECT_FALSE(AccessesLocalOrGeneric("\t.section .text.LD"));
}

}  // namespace
}  // namespace tributary
