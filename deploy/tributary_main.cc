// `tributary`, the one program: see commands.cc for what it can do.
#include <string>
#include <vector>

#include "deploy/commands.h"
#include "deploy/environment.h"

int main(int argc, char** argv) {
  return tributary::RunCommandLine(
      std::vector<std::string>(argv + 1, argv + argc),
      tributary::ProcessEnvironment());
}
