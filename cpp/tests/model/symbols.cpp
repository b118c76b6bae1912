// What return addresses are called, as addr2line says.
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "explorer.hpp"

namespace echobuf::model {

std::vector<std::string> symbols(const std::vector<std::uint64_t>& sites) {
  std::vector<std::string> names;
  char self[4096] = {};
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) return names;
  std::string command = std::string("addr2line -s -i -f -C -a -e '") + self + "'";
  for (const std::uint64_t site : sites) {
    char address[32];
    std::snprintf(address, sizeof address, " 0x%llx",
                  static_cast<unsigned long long>(site ? site - 1 : 0));
    command += address;
  }
  std::FILE* pipe = popen((command + " 2>/dev/null").c_str(), "r");
  if (!pipe) return std::vector<std::string>(sites.size(), "?");
  char line[8192];
  bool function = true;
  while (std::fgets(line, sizeof line, pipe)) {
    std::string text(line, std::strcspn(line, "\n"));
    if (text.rfind("0x", 0) == 0) {
      names.emplace_back();
      function = true;
      continue;
    }
    if (names.empty()) continue;
    std::string& name = names.back();
    if (function) {
      if (!name.empty()) name += " < ";
      name += text.substr(0, text.find('('));
    } else {
      name += " " + text.substr(0, text.find(" ("));
    }
    function = !function;
  }
  pclose(pipe);
  names.resize(sites.size());
  return names;
}

}  // namespace echobuf::model
