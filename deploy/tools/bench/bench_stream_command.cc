#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/os/local_host.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/exit_code.h"
#include "deploy/tools/bench/bench_command.h"
#include "deploy/tools/bench/bench_stream.h"
#include "nlohmann/json.hpp"

namespace tributary {
namespace {

struct BenchStreamFlags {
  std::string kind = "grpc";
  int64_t message_bytes = 1 << 20;
  int64_t memory_bytes = 64 << 20;
  std::string listen;
  std::vector<std::string> connect;
  double seconds = 1;
  int64_t ready_fd = -1;
};

std::unique_ptr<CommandLine> MakeCommandLine(BenchStreamFlags* flags) {
  auto line = std::make_unique<CommandLine>(
      "bench stream", "",
      "Streams bytes in both directions between processes of this machine and "
      "discards them. 'bench exchange' starts it to measure the upper bound of "
      "an exchange.",
      std::vector<CommandLine::Example>{
          {"bench stream --listen 127.0.0.1:29500", "Run one end."},
          {"bench stream --connect 127.0.0.1:29500",
           "Run the other end, which counts bytes."}});
  line->AddChoice("kind", {"grpc", "socket"},
                  "A bare gRPC stream, or a bare socket. Default grpc.",
                  &flags->kind);
  line->AddInteger("message", "Bytes of a message. Default 1048576.", 4,
                   3 << 20, &flags->message_bytes);
  line->AddInteger("memory",
                   "Size in bytes of the memory that messages are taken from "
                   "cyclically. Default 67108864.",
                   4, int64_t{1} << 36, &flags->memory_bytes);
  line->AddText("listen", "ADDRESS",
                "Address to serve at, on loopback or unix-abstract:NAME.",
                &flags->listen);
  line->AddTexts("connect", "ADDRESS",
                 "Address of a serving process. May be repeated.",
                 &flags->connect);
  line->AddNumber("seconds", "Seconds to count. Default 1.", 0.01, 3600,
                  &flags->seconds);
  line->AddHiddenInteger("ready-fd", 0, 1 << 20, &flags->ready_fd);
  return line;
}

// Writes `text` to the process that started this one.
void WriteReady(const BenchStreamFlags& flags, const std::string& text) {
  if (flags.ready_fd < 0) return;
  const std::string line = absl::StrCat(text, "\n");
  // The write fails if that process has ended, and is then pointless.
  if (write(static_cast<int>(flags.ready_fd), line.data(), line.size()) < 0) {
    return;
  }
}

absl::Status Run(const BenchStreamFlags& flags) {
  BenchStream stream;
  stream.grpc = flags.kind == "grpc";
  stream.message_bytes = flags.message_bytes / 4 * 4;
  stream.memory_bytes = std::max(flags.memory_bytes, stream.message_bytes);
  if (flags.listen.empty() == flags.connect.empty()) {
    return absl::InvalidArgumentError("set --listen or --connect");
  }
  if (!flags.listen.empty()) {
    if (!absl::StartsWith(flags.listen, "unix-abstract:")) {
      TRIBUTARY_ASSIGN_OR_RETURN(const HostPort listen,
                                 ParseHostPort(flags.listen));
      if (!IsLoopback(listen.host)) {
        return absl::InvalidArgumentError(
            "--listen must be on this machine's loopback, as 127.0.0.1:0");
      }
    }
    return ServeBenchStreams(
        stream, flags.listen,
        [&flags](const std::string& address) { WriteReady(flags, address); });
  }
  TRIBUTARY_ASSIGN_OR_RETURN(
      const BenchStreamCounts counts,
      RunBenchStreams(stream, flags.connect, absl::Seconds(flags.seconds),
                      [&flags] { WriteReady(flags, "begun"); }));
  const nlohmann::ordered_json json = {
      {"bytes_sent", counts.bytes_sent},
      {"bytes_received", counts.bytes_received},
      {"seconds", counts.seconds},
      {"cpu_seconds", counts.cpu_seconds}};
  std::printf("%s\n", json.dump().c_str());
  return absl::OkStatus();
}

}  // namespace

int RunBenchStreamCommand(const std::vector<std::string>& arguments,
                          const Environment& environment) {
  BenchStreamFlags flags;
  const std::unique_ptr<CommandLine> line = MakeCommandLine(&flags);
  if (const auto code = line->ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  const absl::Status status = Run(flags);
  return status.ok() ? kExitDone : ReportError(status);
}

}  // namespace tributary
