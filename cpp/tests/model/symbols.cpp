// Names of return addresses, as addr2line gives them.
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "explorer.hpp"

namespace echobuf::model {

namespace {

/// The name of a function without its template arguments, parameters and result, so
/// that it is the same in every instance: "echobuf::DrawPath::draw".
std::string plain_name(const std::string& demangled) {
  std::string name;
  int depth = 0;
  for (std::size_t i = 0; i < demangled.size(); ++i) {
    const char c = demangled[i];
    const bool is_operator =
        name.size() >= 8 && name.compare(name.size() - 8, 8, "operator") == 0;
    if (c == '<' && !is_operator) ++depth;
    if (depth == 0) name += c;
    if (c == '>' && depth > 0) --depth;
  }
  name = name.substr(0, name.find('('));
  // "result name": of templates alone.
  const std::size_t space = name.find_last_of(' ');
  return space == std::string::npos ? name : name.substr(space + 1);
}

}  // namespace

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
      name += plain_name(text);
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
