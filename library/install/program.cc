// The installed program `tributary`: the command line that the installed
// library contains.
#include "tributary/main.h"

int main(int argc, char** argv) { tributary::Main(argc, argv); }
