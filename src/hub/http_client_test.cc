#include "hub/http_client.h"

#include <gtest/gtest.h>

namespace pergola::hub {
namespace {

// What decides whether a redirect keeps the token.
TEST(UrlOriginTest, ComparesSchemeHostAndPort) {
  EXPECT_EQ(UrlOrigin("https://Hub.example/a?b"), "https://hub.example:443");
  EXPECT_EQ(UrlOrigin("https://hub.example:443/"), UrlOrigin("https://hub.example/x"));
  EXPECT_NE(UrlOrigin("http://hub.example/"), UrlOrigin("https://hub.example/"));
  EXPECT_NE(UrlOrigin("http://hub.example:1/"), UrlOrigin("http://hub.example:2/"));
  EXPECT_EQ(UrlOrigin("https://hub.example@evil.example/"), "https://evil.example:443");
  EXPECT_EQ(UrlOrigin("file:///etc/passwd"), "");
  EXPECT_EQ(UrlOrigin("nonsense"), "");
}

TEST(UrlEscapePathTest, KeepsSlashesAndUnreservedCharacters) {
  EXPECT_EQ(UrlEscapePath("1_Pooling/a-b.c~"), "1_Pooling/a-b.c~");
  EXPECT_EQ(UrlEscapePath("a b?#%\xc3\xa9"), "a%20b%3F%23%25%C3%A9");
}

}  // namespace
}  // namespace pergola::hub
