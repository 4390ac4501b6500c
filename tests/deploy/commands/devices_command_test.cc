#include "deploy/commands/devices_command.h"

#include <string>

#include "gtest/gtest.h"

namespace tributary {
namespace {

MachineDevices Machine() {
  MachineDevices devices;
  devices.cores = 16;
  devices.free_memory_bytes = 64000000000;
  devices.process_name = [](int64_t pid) {
    return std::string(pid == 4711 ? "tributary" : "");
  };
  return devices;
}

GpuReport Gpu(const std::string& bus_id) {
  GpuReport gpu;
  gpu.name = "NVIDIA H200";
  gpu.bus_id = bus_id;
  gpu.memory_bytes = 150000000000;
  gpu.used_bytes = 12340000000;
  return gpu;
}

TEST(Devices, ListsGpusAndWhoUsesThem) {
  MachineDevices devices = Machine();
  // CUDA counts them in another order, and sees two of three.
  devices.cuda_bus_ids = {"0000:5e:00.0", "0000:3b:00.0"};
  devices.gpus = {Gpu("0000:3b:00.0"), Gpu("0000:5e:00.0"),
                  Gpu("0000:86:00.0")};
  devices.gpus[0].utilization_percent = 97;
  devices.gpus[0].processes = {{4711, 12000000000}, {4712, std::nullopt}};
  EXPECT_EQ(FormatDevices(devices),
            "device                   memory   busy  \n"
            "cpu                64.0 GB free         16 cores\n"
            "cuda:1      12.3 GB of 150.0 GB   97 %  NVIDIA H200, "
            "0000:3b:00.0\n"
            "                        12.0 GB         process 4711: tributary\n"
            "                        unknown         process 4712\n"
            "cuda:0      12.3 GB of 150.0 GB      -  NVIDIA H200, "
            "0000:5e:00.0\n"
            "-           12.3 GB of 150.0 GB      -  NVIDIA H200, "
            "0000:86:00.0\n");
}

TEST(Devices, ListsProcessesOfJobsAndTemperatures) {
  MachineDevices devices = Machine();
  devices.load.busy_percent = 75;
  devices.load.degrees = 48;
  devices.load.processes = {{12, "tributary server", 3000000000, 40},
                            {13, "python3 worker.py", 1500000000, {}}};
  devices.cuda_bus_ids = {"0000:3b:00.0"};
  devices.gpus = {Gpu("0000:3b:00.0")};
  devices.gpus[0].degrees = 61;
  EXPECT_EQ(FormatDevices(devices),
            "device                   memory   busy  \n"
            "cpu                64.0 GB free   75 %  16 cores, 48 C\n"
            "                         3.0 GB   40 %  process 12: tributary "
            "server\n"
            "                         1.5 GB         process 13: python3 "
            "worker.py\n"
            "cuda:0      12.3 GB of 150.0 GB      -  NVIDIA H200, "
            "0000:3b:00.0, 61 C\n");
}

TEST(Devices, SaysWhyThereIsNoGpu) {
  MachineDevices devices = Machine();
  devices.cores = 1;
  devices.free_memory_bytes = std::nullopt;
  devices.cuda = absl::FailedPreconditionError("this build has no CUDA");
  EXPECT_EQ(FormatDevices(devices),
            "device                   memory   busy  \n"
            "cpu                     unknown         1 core\n"
            "no CUDA device: this build has no CUDA\n");
}

TEST(Devices, ListsGpusThatTheDriverSaysNothingOf) {
  MachineDevices devices = Machine();
  devices.cuda_bus_ids = {"0000:3b:00.0"};
  EXPECT_EQ(FormatDevices(devices),
            "device                   memory   busy  \n"
            "cpu                64.0 GB free         16 cores\n"
            "cuda:0                  unknown      -  0000:3b:00.0; install the "
            "driver's libnvidia-ml.so.1 for details\n");
}

}  // namespace
}  // namespace tributary
