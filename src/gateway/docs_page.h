// /docs: one self-contained page, with a form that really calls the server.
#pragma once

#include <string>

namespace pergola::gateway {

std::string DocsPage();

}  // namespace pergola::gateway
