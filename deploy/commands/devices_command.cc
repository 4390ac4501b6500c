#include "deploy/commands/devices_command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "common/base/monotonic_clock.h"
#include "common/os/process.h"
#include "common/plan/memory_account.h"
#include "common/text/counted.h"
#include "common/text/escape.h"
#include "deploy/flags/command_line.h"
#include "deploy/flags/exit_code.h"
#include "deploy/flags/signal_queue.h"
#include "worker/device/cuda/cuda_device.h"

namespace tributary {
namespace {

constexpr absl::Duration kFirstWait = absl::Milliseconds(300);
// Clears a terminal, and moves its cursor to the upper left.
constexpr char kClear[] = "\x1b[H\x1b[2J";

std::string Gigabytes(int64_t bytes) {
  return absl::StrFormat("%.1f GB", static_cast<double>(bytes) / 1e9);
}

void AddRow(const std::string& device, const std::string& memory,
            const std::string& used, const std::string& name,
            std::string* table) {
  absl::StrAppendFormat(table, "%-8s %22s %6s  %s\n", device, memory, used,
                        name);
}

std::string Busy(std::optional<int> percent) {
  return percent.has_value() ? absl::StrCat(*percent, " %") : "";
}

std::string Degrees(std::optional<int> degrees) {
  return degrees.has_value() ? absl::StrCat(", ", *degrees, " C") : "";
}

// Returns the GPU's name for --device.
std::string NameOf(const MachineDevices& devices, const std::string& bus_id) {
  const auto& seen = devices.cuda_bus_ids;
  const auto found = std::find(seen.begin(), seen.end(), bus_id);
  return found == seen.end() ? "-"
                             : absl::StrCat("cuda:", found - seen.begin());
}

void AddProcesses(const MachineDevices& devices, const GpuReport& gpu,
                  std::string* table) {
  for (const GpuProcess& process : gpu.processes) {
    const std::string name = devices.process_name(process.pid);
    AddRow(
        "",
        process.memory_bytes.has_value() ? Gigabytes(*process.memory_bytes)
                                         : "unknown",
        "",
        absl::StrCat("process ", process.pid, name.empty() ? "" : ": ", name),
        table);
  }
}

// Returns the name of a process of this machine, from the start of a file under
// /proc.
std::string ProcessName(int64_t pid) {
  std::string name;
  std::ifstream file(absl::StrCat("/proc/", pid, "/comm"));
  std::getline(file, name);
  return name;
}

MachineDevices ReadMachine(MachineLoad* load) {
  MachineDevices devices;
  devices.load = load->Read(MonotonicNow());
  devices.cores = UsableCores();
  devices.free_memory_bytes = AvailableMemoryBytes();
  devices.process_name = &ProcessName;
  const absl::StatusOr<int> count = CountCudaDevices();
  devices.cuda = count.status();
  for (int i = 0; i < count.value_or(0); ++i) {
    devices.cuda_bus_ids.push_back(CudaBusId(i).value_or(""));
  }
  const absl::StatusOr<const Nvml*> nvml = LoadNvml();
  if (!nvml.ok()) return devices;
  absl::StatusOr<std::vector<GpuReport>> gpus = ReadGpus(**nvml);
  if (gpus.ok()) devices.gpus = *std::move(gpus);
  return devices;
}

}  // namespace

std::string FormatDevices(const MachineDevices& devices) {
  std::string table;
  AddRow("device", "memory", "busy", "", &table);
  AddRow("cpu",
         devices.free_memory_bytes.has_value()
             ? absl::StrCat(Gigabytes(*devices.free_memory_bytes), " free")
             : "unknown",
         Busy(devices.load.busy_percent),
         absl::StrCat(Counted(devices.cores, "core"),
                      Degrees(devices.load.degrees)),
         &table);
  for (const JobProcess& process : devices.load.processes) {
    AddRow("", FormatMemory(process.memory_bytes), Busy(process.cpu_percent),
           absl::StrCat("process ", process.pid, ": ",
                        EscapeForTerminal(process.name)),
           &table);
  }
  for (const GpuReport& gpu : devices.gpus) {
    AddRow(NameOf(devices, gpu.bus_id),
           absl::StrCat(Gigabytes(gpu.used_bytes), " of ",
                        Gigabytes(gpu.memory_bytes)),
           gpu.utilization_percent.has_value()
               ? absl::StrCat(*gpu.utilization_percent, " %")
               : "-",
           absl::StrCat(gpu.name, ", ", gpu.bus_id, Degrees(gpu.degrees)),
           &table);
    AddProcesses(devices, gpu, &table);
  }
  // GPUs that CUDA lists but the driver does not report.
  for (size_t i = 0; i < devices.cuda_bus_ids.size(); ++i) {
    const std::string& bus_id = devices.cuda_bus_ids[i];
    const bool listed =
        std::any_of(devices.gpus.begin(), devices.gpus.end(),
                    [&](const GpuReport& gpu) { return gpu.bus_id == bus_id; });
    if (listed) continue;
    AddRow(absl::StrCat("cuda:", i), "unknown", "-",
           absl::StrCat(bus_id,
                        "; install the driver's libnvidia-ml.so.1 for details"),
           &table);
  }
  if (!devices.cuda.ok()) {
    absl::StrAppend(&table, "no CUDA device: ", devices.cuda.message(), "\n");
  }
  return table;
}

int RunDevicesCommand(const std::vector<std::string>& arguments,
                      const Environment& environment) {
  CommandLine line(
      "devices", "",
      "Lists the devices of this machine by their names for --device, with "
      "their memory, utilization and temperature, and the processes of jobs "
      "that use them.",
      {{"devices", "List the CPU and all GPUs."},
       {"devices --watch", "List them again and again, until Ctrl-C."}});
  bool watch = false;
  double interval = 1;
  line.AddSwitch("watch", "List the devices again and again.", &watch);
  line.AddNumber("interval",
                 "Seconds between two lists with --watch. Default 1.", 0.1,
                 3600, &interval);
  if (const auto code = line.ParseOrAnswer(arguments, environment)) {
    return *code;
  }
  MachineLoad load;
  if (!watch) {
    std::fputs(FormatDevices(ReadMachine(&load)).c_str(), stdout);
    return kExitDone;
  }
  SignalQueue signals;
  const bool screen = isatty(STDOUT_FILENO) != 0;
  // How busy devices are is known from the second reading on.
  ReadMachine(&load);
  absl::Duration wait = std::min(absl::Seconds(interval), kFirstWait);
  while (signals.Wait(wait) == 0) {
    wait = absl::Seconds(interval);
    std::fputs(
        absl::StrCat(screen ? kClear : "", FormatDevices(ReadMachine(&load)),
                     screen ? "" : "\n")
            .c_str(),
        stdout);
    if (std::fflush(stdout) != 0) break;
  }
  return kExitDone;
}

}  // namespace tributary
