#include "deploy/commands/version.h"

#include "absl/strings/str_format.h"
#include "common/numerics/simd.h"
#include "common/transport/channel.h"
#include "deploy/commands/build_info.h"
#include "worker/device/cpu/products/matmul_runner.h"

namespace tributary {
namespace {

std::string Instructions() {
  std::string instructions = "x86-64";
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    instructions = "AVX2";
  }
#endif
  if (simd::HasWideRegisters()) instructions = "AVX-512";
  if (cpu::MultipliesBfloat16()) instructions += ", bfloat16 products";
  return instructions;
}

}  // namespace

std::string VersionText() {
  return absl::StrFormat("tributary " TRIBUTARY_VERSION
                         " (protocol %d)\n"
                         "commit:       " TRIBUTARY_COMMIT
                         "\n"
                         "CUDA:         " TRIBUTARY_CUDA_VERSION
                         "\n"
                         "instructions: %s\n",
                         kProtocolVersion, Instructions());
}

}  // namespace tributary
