// `tributary`, the project's only program. commands.cc lists its subcommands.
#include "deploy/run_program.h"

int main(int argc, char** argv) {
  tributary::RunProgram(argc, argv, tributary::TrainingSources());
}
