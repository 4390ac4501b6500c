// `tributary dashboard` as a process.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/support/command_runner.h"

namespace tributary {
namespace {

// The threads that query a job and watch the token file must leave the signals
// to the main thread, and no file of a run may keep it busy.
TEST(DashboardCommandTest, EndsWithASignal) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 8), 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  const std::string folder = MakeTestFolder();
  const std::string run = absl::StrCat(folder, "/runs/a");
  std::filesystem::create_directories(run);
  std::ofstream(absl::StrCat(folder, "/token")) << "0123456789abcdef";
  std::ofstream(absl::StrCat(run, "/server.json"))
      << "{\"address\":\"127.0.0.1:" << ntohs(address.sin_port) << "\"}";
  for (const char* name : {"/job.textproto", "/metrics.jsonl"}) {
    ASSERT_EQ(mkfifo((run + name).c_str(), 0600), 0);
  }
  for (const int signal : {SIGINT, SIGTERM}) {
    BackgroundCommand dashboard({kTributary, "dashboard", folder + "/runs",
                                 "--listen", "127.0.0.1:0", "--token-file",
                                 folder + "/token"});
    EXPECT_NE(dashboard.AwaitStandardOutput("http://127.0.0.1:"), "");
    dashboard.Signal(signal);
    const CommandResult result = dashboard.Wait();
    EXPECT_EQ(result.exit_code, 0) << signal << result.standard_error;
  }
  close(listener);
}

}  // namespace
}  // namespace tributary
