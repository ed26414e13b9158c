#include "cli/service_unit.h"

#include <gtest/gtest.h>

#include "core/testing/temp_folder.h"

namespace pergola::cli {
namespace {

TEST(ServiceUnitTest, WordsReachTheProgramAsTheyAre) {
  EXPECT_EQ(QuotedForSystemd("--model=a/b:c.gguf"), "--model=a/b:c.gguf");
  EXPECT_EQ(QuotedForSystemd(""), "\"\"");
  EXPECT_EQ(QuotedForSystemd("a b"), "\"a b\"");
  EXPECT_EQ(QuotedForSystemd("100% of $HOME"), "\"100%% of $$HOME\"");
  EXPECT_EQ(QuotedForSystemd("say \"\\\""), "\"say \\\"\\\\\\\"\"");
  EXPECT_EQ(QuotedForSystemd(";"), "\";\"");
}

TEST(ServiceUnitTest, SystemUnitIsConfinedUserUnitIsNot) {
  ServiceUnit unit{"gateway", "/usr/bin/pergola", {"--backend", "a:1,b:2"}};
  const std::string system = UnitText(unit).value();
  EXPECT_NE(system.find("\nExecStart=/usr/bin/pergola gateway --backend a:1,b:2\n"),
            std::string::npos);
  EXPECT_NE(system.find("\nProtectSystem=strict\n"), std::string::npos);
  EXPECT_NE(system.find("\nWantedBy=multi-user.target\n"), std::string::npos);
  unit.of_user = true;
  const std::string of_user = UnitText(unit).value();
  EXPECT_EQ(of_user.find("DynamicUser"), std::string::npos);
  EXPECT_EQ(of_user.find("network-online"), std::string::npos);
  EXPECT_NE(of_user.find("\nWantedBy=default.target\n"), std::string::npos);
  EXPECT_EQ(UnitFileName(unit), "pergola-gateway.service");
}

TEST(ServiceUnitTest, SystemdWaitsLongerThanTheCommandDrains) {
  const auto waits = [](std::vector<std::string> arguments, const std::string& seconds) {
    const std::string text = UnitText({"serve", "/bin/pergola", std::move(arguments)}).value();
    return text.find("\nTimeoutStopSec=" + seconds + "\n") != std::string::npos;
  };
  EXPECT_TRUE(waits({}, "45"));
  EXPECT_TRUE(waits({"--drain-timeout", "120"}, "135"));
  EXPECT_TRUE(waits({"--drain-timeout=0.5", "--port", "1"}, "16"));
  EXPECT_TRUE(waits({"--drain-timeout"}, "45"));
  // Of the configuration file, unless an argument says another.
  ServiceUnit unit{"serve", "/bin/pergola", {"--config", "/etc/pergola.toml"}};
  unit.configured_drain_timeout = std::string("60");
  EXPECT_NE(UnitText(unit).value().find("\nTimeoutStopSec=75\n"), std::string::npos);
  unit.arguments.emplace_back("--drain-timeout=5");
  EXPECT_NE(UnitText(unit).value().find("\nTimeoutStopSec=20\n"), std::string::npos);
  EXPECT_EQ(ArgumentOf({"--config", "a", "--config=b"}, "--config"), "b");
  EXPECT_EQ(ArgumentOf({"--config-other=1", "--config"}, "--config"), "");
}

TEST(ServiceUnitTest, RefusesWhatAUnitCannotHold) {
  EXPECT_EQ(UnitText({"serve", "/bin/pergola", {"a\nExecStartPre=/bin/evil"}}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(UnitText({"serve", "bin/pergola", {}}).status().code(), StatusCode::kInvalidArgument);
}

TEST(ServiceUnitTest, WritesOnceAndReplacesOnlyWhenTold) {
  const TempFolder folder;
  const std::filesystem::path path = folder.path() / "deep/down/pergola-serve.service";
  ASSERT_TRUE(WriteUnit(path, "one", false).ok());
  EXPECT_TRUE(WriteUnit(path, "one", false).ok());
  EXPECT_EQ(WriteUnit(path, "two", false).code(), StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadFile(path), "one");
  ASSERT_TRUE(WriteUnit(path, "two", true).ok());
  EXPECT_EQ(ReadFile(path), "two");
  EXPECT_FALSE(std::filesystem::exists(path.string() + ".part"));
  EXPECT_EQ(WriteUnit(path / "below-a-file", "x", false).code(), StatusCode::kInternal);
}

}  // namespace
}  // namespace pergola::cli
