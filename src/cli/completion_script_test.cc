#include "cli/completion_script.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "cli/command_line.h"

namespace pergola::cli {
namespace {

class CompletionScriptTest : public ::testing::Test {
 protected:
  CompletionScriptTest() {
    AddEmbed(app_, &run_);
    AddPull(app_, &run_);
  }

  // What bash offers after `line` (words divided by single spaces), one per line.
  std::string Offered(const std::string& line) {
    std::string script = CompletionScript(app_, "bash").value();
    script += "COMP_WORDS=(" + line + ")\nCOMP_CWORD=$((${#COMP_WORDS[@]}-1))\n" +
              "_pergola\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n";
    const std::string command = "bash <<'END_OF_SCRIPT'\n" + script + "END_OF_SCRIPT\n";
    FILE* pipe = popen(command.c_str(), "r");
    std::string offered;
    char block[4096];
    while (const size_t got = std::fread(block, 1, sizeof block, pipe)) offered.append(block, got);
    EXPECT_EQ(pclose(pipe), 0);
    return offered;
  }

  CLI::App app_;
  cli::Run run_;
};

TEST_F(CompletionScriptTest, BashOffersSubcommandsFlagsModelsAndChoices) {
  EXPECT_EQ(Offered("pergola pu"), "pull\n");
  EXPECT_EQ(Offered("pergola embed --fo"), "--format\n");
  EXPECT_EQ(Offered("pergola embed --no-n"), "--no-normalize\n");
  EXPECT_EQ(Offered("pergola embed --format n"), "npy\n");
  EXPECT_EQ(Offered("pergola embed --model all"), "all-MiniLM-L6-v2\n");
  EXPECT_EQ(Offered("pergola pull all"), "all-MiniLM-L6-v2\n");
  EXPECT_EQ(Offered("pergola embed some"), "\n") << "left to files";
}

TEST_F(CompletionScriptTest, ZshUsesTheBashScript) {
  const std::string zsh = CompletionScript(app_, "zsh").value();
  EXPECT_NE(zsh.find("bashcompinit"), std::string::npos);
  EXPECT_NE(zsh.find(CompletionScript(app_, "bash").value()), std::string::npos);
}

TEST_F(CompletionScriptTest, FishHasALinePerFlag) {
  const std::string fish = CompletionScript(app_, "fish").value();
  EXPECT_NE(fish.find("'__fish_seen_subcommand_from embed' -l format"), std::string::npos);
  EXPECT_NE(fish.find("-x -a 'jsonl npy f32'"), std::string::npos) << fish;
  EXPECT_NE(fish.find("__fish_use_subcommand -f -a pull"), std::string::npos);
}

TEST_F(CompletionScriptTest, OtherShellsAreRefused) {
  EXPECT_FALSE(CompletionScript(app_, "csh").ok());
}

}  // namespace
}  // namespace pergola::cli
