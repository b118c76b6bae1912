#include "ptx/parser.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "ptx/body.hpp"
#include "ptx/declarations.hpp"
#include "ptx/flow.hpp"
#include "ptx/stream.hpp"

namespace echobuf::ptx {

namespace {

constexpr std::array kTargets{75U, 80U, 86U, 87U, 89U, 90U, 100U, 103U, 120U};
constexpr std::string_view kOldest = "6.3";  // the first that has sm_75
constexpr std::uint32_t kNewestMajor = 9;
constexpr std::uint64_t kFewParameters = 4096;  // bytes, before PTX 8.1

class ModuleParser {
 public:
  explicit ModuleParser(std::string_view text) : stream_(tokens_of(text)) {}

  Module run() {
    read_version();
    read_target();
    read_address_size();
    while (!stream_.at_end()) read_directive();
    if (module_.kernels.empty())
      throw ParseError(stream_.line(), "the text has no kernel");
    return std::move(module_);
  }

 private:
  void read_version() {
    if (!stream_.accept_dotted("version")) stream_.fail("expected .version");
    const Token& token = stream_.expect(TokenKind::kNumber, "a version");
    const std::size_t dot = token.text.find('.');
    const auto bad = [&](const std::string& message) {
      throw ParseError(token.line, message + ": " + std::string(token.text));
    };
    if (dot == std::string_view::npos) bad("not a version");
    const auto part = [&](std::string_view digits) {
      return static_cast<std::uint32_t>(
          number_of({TokenKind::kNumber, digits, token.line}).bits);
    };
    const std::string_view minor = token.text.substr(dot + 1);
    if (minor.empty() || minor.size() > 2) bad("not a version");
    const std::uint32_t major = part(token.text.substr(0, dot));
    const bool old = major < 6 || (major == 6 && part(minor) < 3);
    if (old || major > kNewestMajor)
      bad("PTX from " + std::string(kOldest) + " to " + std::to_string(kNewestMajor) +
          ".x is supported, not version");
    has_large_parameters_ = major > 8 || (major == 8 && part(minor) >= 1);
  }

  void read_target() {
    if (!stream_.accept_dotted("target")) stream_.fail("expected .target");
    const std::uint32_t line = stream_.line();
    const std::string name = stream_.name();
    const auto known = std::find_if(kTargets.begin(), kTargets.end(), [&](unsigned n) {
      return name == "sm_" + std::to_string(n);
    });
    if (known == kTargets.end()) throw ParseError(line, "unsupported target " + name);
    module_.target = *known;
    if (stream_.peek().is(',')) stream_.fail("unsupported target option");
  }

  void read_address_size() {
    if (!stream_.accept_dotted("address_size")) stream_.fail("expected .address_size");
    const std::uint32_t line = stream_.line();
    if (stream_.integer() != 64) throw ParseError(line, "addresses must have 64 bits");
  }

  void read_directive() {
    const Token& token = stream_.expect(TokenKind::kDotted, "a directive");
    if (token.text == "visible" || token.text == "weak" || token.text == "extern") {
      if (stream_.peek().kind != TokenKind::kDotted)
        stream_.fail("expected a directive");
      return;
    }
    if (token.text == "entry") return read_kernel(token.line);
    if (token.text == "file") return skip_file();
    const auto space = space_named(token.text);
    if (!space || *space == Space::kLocal || *space == Space::kParam)
      throw ParseError(token.line, "unknown directive ." + std::string(token.text));
    module_.variables.push_back(read_variable(stream_, *space));
    stream_.expect(';');
  }

  /// `.file 1 "name"`, and two numbers that may follow.
  void skip_file() {
    stream_.integer();
    stream_.expect(TokenKind::kString, "a name");
    while (stream_.accept(',')) stream_.integer();
  }

  void read_kernel(std::uint32_t line) {
    Kernel kernel;
    kernel.line = line;
    kernel.name = stream_.name();
    if (module_.find(kernel.name) != nullptr)
      throw ParseError(line, "a second kernel " + kernel.name);
    if (stream_.accept('(')) read_parameters(kernel);
    while (stream_.peek().kind == TokenKind::kDotted) read_tuning(kernel);
    std::vector<Variable> shared;
    for (Variable variable : module_.variables) {
      if (variable.space == Space::kShared) kernel.shared.add(variable);
      shared.push_back(std::move(variable));
    }
    const std::uint64_t others = kernel.shared.dense_bytes();  // of the whole module
    read_body(stream_, shared, kernel);
    const auto check = [&](const char* what, std::uint64_t bytes, std::uint64_t most) {
      if (bytes > most)
        throw ParseError(line, kernel.name + " has " + std::to_string(bytes) +
                                   " bytes of " + what + "; ptxas takes " +
                                   std::to_string(most));
    };
    check("parameters", kernel.parameter_layout.dense_bytes(),
          has_large_parameters_ ? kMostParameters : kFewParameters);
    check("shared memory", kernel.shared.dense_bytes() - others, kMostShared);
    check("local memory", kernel.local.dense_bytes(), kMostLocal);
    find_joins(kernel);
    module_.kernels.push_back(std::move(kernel));
  }

  void read_parameters(Kernel& kernel) {
    while (!stream_.accept(')')) {
      if (!kernel.parameters.empty()) stream_.expect(',');
      if (!stream_.accept_dotted("param")) stream_.fail("expected .param");
      Variable parameter = read_variable(stream_, Space::kParam);
      kernel.parameter_layout.add(parameter);
      kernel.parameters.push_back(std::move(parameter));
    }
  }

  void read_tuning(Kernel& kernel) {
    const Token& token = stream_.next();
    if (token.text == "maxntid" || token.text == "reqntid") {
      std::uint64_t threads = stream_.integer();
      while (stream_.accept(',')) threads *= stream_.integer();
      kernel.most_threads = std::min(kernel.most_threads, threads);
      if (token.text == "reqntid") kernel.exact_threads = threads;
    } else if (token.text == "minnctapersm" || token.text == "maxnreg") {
      stream_.integer();  // of speed alone
    } else {
      throw ParseError(token.line, "unknown directive ." + std::string(token.text));
    }
  }

  TokenStream stream_;
  Module module_;
  bool has_large_parameters_ = false;
};

}  // namespace

Module parse(std::string_view text) { return ModuleParser(text).run(); }

}  // namespace echobuf::ptx
