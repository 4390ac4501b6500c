// Helpers for tests of the installed library.
#ifndef TRIBUTARY_TESTS_LIBRARY_INSTALL_INSTALLATION_H_
#define TRIBUTARY_TESTS_LIBRARY_INSTALL_INSTALLATION_H_

#include <string>
#include <vector>

#include "tests/support/command_runner.h"

namespace tributary {

// Unpacks the package to a new folder, as `./tributary install` does, and
// returns the folder. The folder is below a folder of the running test. Fails
// the test if the package cannot be unpacked.
std::string UnpackInstallation();

// Runs a script with bash in `folder` and returns its result. The script ends
// at the first command that fails. Adds the variables `environment`
// ("NAME=value"). The time limit suffices for compilers on a slow machine.
CommandResult RunScript(const std::string& script, const std::string& folder,
                        const std::vector<std::string>& environment = {});

// Returns the blocks of code in a section of a page whose first line is
// "```<language>", in their order. `section` is the line "## <title>".
std::vector<std::string> CodeBlocks(const std::string& page,
                                    const std::string& section,
                                    const std::string& language);

// Returns those of the section "Use it from your own build" of docs/cpp.md.
std::vector<std::string> BuildBlocks(const std::string& language);

}  // namespace tributary

#endif  // TRIBUTARY_TESTS_LIBRARY_INSTALL_INSTALLATION_H_
