#include "cli/config_file.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <string>
#include <vector>

#include "core/testing/temp_folder.h"

namespace pergola::cli {
namespace {

class ConfigFileTest : public ::testing::Test {
 protected:
  ConfigFileTest() {
    CLI::App* serve = app_.add_subcommand("serve");
    serve->add_option("--config", config_)->configurable(false);
    serve->add_option("--port", port_)->check(CLI::Range(0, 65535))->envname("CONFIG_TEST_PORT");
    serve->add_option("--host", hosts_)->delimiter(',');
    serve->add_flag("--strict", strict_);
    serve->parse_complete_callback([this, serve] {
      if (!config_.empty()) ApplyConfigFile(*serve, config_);
    });
    app_.add_subcommand("version");
  }
  ~ConfigFileTest() override { unsetenv("CONFIG_TEST_PORT"); }

  void Parse(const std::string& content, const std::string& flags = "") {
    folder_.Write("c.toml", content);
    app_.parse("serve --config " + (folder_.path() / "c.toml").string() + " " + flags);
  }
  // The message of the error that parsing ends with.
  std::string Error(const std::string& content, const std::string& flags = "") {
    try {
      Parse(content, flags);
    } catch (const CLI::ConfigError& error) {
      return error.what();
    }
    return "no error";
  }

  TempFolder folder_;
  CLI::App app_;
  std::string config_;
  int port_ = 1;
  std::vector<std::string> hosts_ = {"default"};
  bool strict_ = false;
};

TEST_F(ConfigFileTest, GivesNumbersListsAndFlags) {
  Parse("# a comment\nport = 7 # seven\nhost = [\"::1\",\n  \"127.0.0.1\"]\nstrict = true\n");
  EXPECT_EQ(port_, 7);
  EXPECT_EQ(hosts_, (std::vector<std::string>{"::1", "127.0.0.1"}));
  EXPECT_TRUE(strict_);
}

TEST_F(ConfigFileTest, WhatItDoesNotNameKeepsItsDefault) {
  Parse("strict = false\n");
  EXPECT_EQ(port_, 1);
  EXPECT_EQ(hosts_, std::vector<std::string>{"default"});
  EXPECT_FALSE(strict_);
}

TEST_F(ConfigFileTest, FlagsWinThenTheEnvironmentThenTheFile) {
  setenv("CONFIG_TEST_PORT", "9", 1);
  Parse("port = 7\nhost = \"a\"\n", "--host b");
  EXPECT_EQ(port_, 9);
  EXPECT_EQ(hosts_, std::vector<std::string>{"b"});
  app_.clear();
  Parse("port = 7\n", "--port 8");
  EXPECT_EQ(port_, 8);
}

TEST_F(ConfigFileTest, OtherCommandsDoNotReadTheEnvironment) {
  setenv("CONFIG_TEST_PORT", "not a port", 1);
  EXPECT_NO_THROW(app_.parse("version"));
  EXPECT_THROW(app_.parse("serve"), CLI::ValidationError);
}

TEST_F(ConfigFileTest, DropsTheAddressThatKubernetesGivesAService) {
  setenv("CONFIG_TEST_PORT", "tcp://10.0.0.1:42666", 1);
  EXPECT_EQ(DropServiceAddress("CONFIG_TEST_PORT"), "tcp://10.0.0.1:42666");
  EXPECT_EQ(std::getenv("CONFIG_TEST_PORT"), nullptr);
  EXPECT_EQ(DropServiceAddress("CONFIG_TEST_PORT"), "");
  Parse("port = 7\n");
  EXPECT_EQ(port_, 7);
  setenv("CONFIG_TEST_PORT", "9", 1);
  EXPECT_EQ(DropServiceAddress("CONFIG_TEST_PORT"), "");
  EXPECT_STREQ(std::getenv("CONFIG_TEST_PORT"), "9");
}

TEST_F(ConfigFileTest, RefusesWhatItDoesNotUnderstand) {
  EXPECT_NE(Error("pirt = 7\n").find("no option is called 'pirt'"), std::string::npos);
  EXPECT_NE(Error("config = \"d.toml\"\n").find("'config'"), std::string::npos);
  EXPECT_NE(Error("[serve]\nport = 7\n").find("section"), std::string::npos);
  EXPECT_NE(Error("port = 70000\n").find("70000"), std::string::npos);
  EXPECT_NE(Error("port = = 7\n"), "no error");
  EXPECT_NE(Error("port = [7, 8]\n").find("--port"), std::string::npos);
  EXPECT_NE(Error("port = 7\nstrict = true\nport = 8\n").find("twice"), std::string::npos);
  EXPECT_NE(Error("strict = maybe\n").find("maybe"), std::string::npos);
}

TEST_F(ConfigFileTest, MissingFileIsAFileError) {
  EXPECT_THROW(app_.parse("serve --config " + (folder_.path() / "none.toml").string()),
               CLI::FileError);
  EXPECT_THROW(app_.parse("serve --config " + folder_.path().string()), CLI::FileError);
}

class SetAgainTest : public ConfigFileTest {
 protected:
  // Parses "serve" with these flags and remembers what was given before the file counted.
  void ParseOnce(const std::string& content, const std::string& flags) {
    CLI::App* serve = app_.get_subcommand("serve");
    serve->parse_complete_callback([this, serve] {
      given_ = ReadGivenOptions(*serve);
      ApplyConfigFile(*serve, config_);
    });
    Parse(content, flags);
  }
  Status Again() {
    CLI::App app;
    app.add_option("--config", config_)->configurable(false);
    app.add_option("--port", again_port_)->check(CLI::Range(0, 65535));
    app.add_option("--host", again_hosts_)->delimiter(',');
    app.add_flag("--strict", again_strict_);
    return SetOptionsAgain(app, given_, (folder_.path() / "c.toml").string());
  }

  GivenOptions given_;
  int again_port_ = 1;
  std::vector<std::string> again_hosts_ = {"default"};
  bool again_strict_ = false;
};

TEST_F(SetAgainTest, TheFileIsReadAgainAndTheCommandLineStillWins) {
  ParseOnce("host = [\"a\"]\nport = 5\n", "--port 7 --strict");
  EXPECT_EQ(port_, 7);
  folder_.Write("c.toml", "host = [\"b\", \"c\"]\nport = 6\n");
  const Status status = Again();
  ASSERT_TRUE(status.ok()) << status.ToString();
  EXPECT_EQ(again_port_, 7);
  EXPECT_EQ(again_hosts_, (std::vector<std::string>{"b", "c"}));
  EXPECT_TRUE(again_strict_);
  folder_.Write("c.toml", "");
  again_hosts_ = {"default"};
  ASSERT_TRUE(Again().ok());
  EXPECT_EQ(again_hosts_, std::vector<std::string>{"default"});
}

TEST_F(SetAgainTest, ABrokenFileIsAnError) {
  ParseOnce("port = 5\n", "");
  for (const char* broken : {"port = 99999\n", "prot = 5\n", "[section]\nport = 5\n"}) {
    folder_.Write("c.toml", broken);
    EXPECT_EQ(Again().code(), StatusCode::kInvalidArgument) << broken;
  }
}

}  // namespace
}  // namespace pergola::cli
