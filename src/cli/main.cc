#include "cli/command_line.h"

int main(int argc, char** argv) { return pergola::cli::Main(argc, argv); }
