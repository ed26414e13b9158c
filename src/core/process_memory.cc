#include "core/process_memory.h"

#include <malloc.h>

#include <fstream>
#include <sstream>
#include <string>

namespace pergola {
namespace {

// "Name:   1234 kB" lines of /proc files.
int64_t FindBytes(const std::string& text, const std::string& name) {
  const size_t place = text.find("\n" + name + ":");
  if (place == std::string::npos) return 0;
  std::istringstream line(text.substr(place + name.size() + 2, 64));
  int64_t kibibytes = 0;
  line >> kibibytes;
  return kibibytes * 1024;
}

std::string ReadText(const char* path) {
  std::ifstream file(path);
  std::stringstream text;
  text << '\n' << file.rdbuf();
  return text.str();
}

}  // namespace

MemoryUse ReadMemoryUse() {
  const std::string process = ReadText("/proc/self/status");
  const std::string machine = ReadText("/proc/meminfo");
  MemoryUse use;
  use.resident_bytes = FindBytes(process, "VmRSS");
  use.peak_resident_bytes = FindBytes(process, "VmHWM");
  use.private_bytes = FindBytes(process, "RssAnon");
  use.machine_bytes = FindBytes(machine, "MemTotal");
  use.available_bytes = FindBytes(machine, "MemAvailable");
  return use;
}

void ReturnLargeBlocks() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 1 << 20);
  mallopt(M_TRIM_THRESHOLD, 16 << 20);
#endif
}

}  // namespace pergola
