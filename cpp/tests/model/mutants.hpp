// A test that cannot fail is no test: every atomic operation of chosen files is
// weakened, and left out, one at a time, and the model checker must find what then goes
// wrong.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "explorer.hpp"

namespace echobuf::model {

/// A program that is explored under every change, until one finds it.
struct Try {
  const char* name;
  Result (*run)(const Options&);
  std::uint32_t max_time = 0;
};

/// A file whose operations are changed, and how many lines with one it has at least: a
/// file that is split or renamed must not drop out unseen.
struct File {
  const char* name;
  std::size_t lines;
};

/// A change that is not found, and the reason. It holds for so many lines of a function
/// at most: where one more is not found, that is a failure.
struct Known {
  const char* line;    // part of "function file.hpp:line"
  const char* change;  // "acquire -> relaxed", "left out"
  const char* why;
  std::size_t lines = 1;
};

/// The operations of one line of code, wherever it was inlined.
struct Line {
  std::string text;  // "Ring::claim ring.hpp:69"
  Kind kind;
  std::uint8_t order, failure_order;
  std::vector<std::uint64_t> sites;
};

inline bool long_form() {
  const char* form = std::getenv("ECHOBUF_MODEL");
  return form && std::strcmp(form, "long") == 0;
}

class Mutants {
 public:
  /// `is_tried`: lines that are changed; null for all.
  Mutants(std::vector<Try> tries, std::vector<File> files, std::vector<Known> known,
          bool (*is_tried)(const Line&) = nullptr)
      : tries_(std::move(tries)),
        files_(std::move(files)),
        known_(std::move(known)),
        is_tried_(is_tried) {}

  /// Explores the programs as they are, in up to `most` states each, then with each
  /// change.
  void expect_found(std::uint64_t most) {
    std::vector<Site> sites;
    record_sites(&sites);
    for (const Try& t : tries_) {
      Options options;
      options.max_states = most;
      EXPECT_EQ(t.run(options).failure, "") << "without any change: " << t.name;
    }
    record_sites(nullptr);
    const std::vector<Line> lines = lines_of(sites);
    for (const File& file : files_) {
      const auto in_it = [&](const Line& line) { return is_in(line.text, file.name); };
      EXPECT_GE(std::count_if(lines.begin(), lines.end(), in_it), file.lines)
          << file.name << " has fewer atomic operations than it had";
    }
    const char* only = std::getenv("ECHOBUF_MODEL_ONLY");  // a part of a line's name
    for (const Line& line : lines) {
      if (only && line.text.find(only) == std::string::npos) continue;
      if (is_tried_ && !is_tried_(line)) continue;
      for (const std::uint8_t order : weaker(line.order))
        expect_found(line, name_of(line.order) + " -> " + name_of(order),
                     {line.sites, false, order, line.failure_order});
      if (is_tried_) continue;
      if (line.kind == Kind::kCas)
        for (const std::uint8_t order : weaker(line.failure_order))
          expect_found(line, "on failure " + name_of(order),
                       {line.sites, false, line.order, order});
      if (line.kind != Kind::kLoad && line.kind != Kind::kCas)
        expect_found(line, "left out", {line.sites, true});
    }
  }

 private:
  static constexpr std::uint64_t kMost = 300'000;  // states of a program

  struct Found {
    std::string what, where;
  };

  static bool is_in(const std::string& line, const char* file) {
    return line.find(std::string(" ") + file + ":") != std::string::npos;
  }

  /// The first frame that is not the standard library's.
  static std::string line_of(const std::string& symbol) {
    for (std::size_t at = 0; at < symbol.size();) {
      const std::size_t end = std::min(symbol.find(" < ", at), symbol.size());
      const std::string frame = symbol.substr(at, end - at);
      if (frame.find(" atomic") == std::string::npos) return frame;
      at = end + 3;
    }
    return symbol;
  }

  std::vector<Line> lines_of(const std::vector<Site>& sites) const {
    std::vector<std::uint64_t> addresses;
    for (const Site& site : sites) addresses.push_back(site.address);
    const std::vector<std::string> names = symbols(addresses);
    std::map<std::pair<std::string, Kind>, Line> lines;
    for (std::size_t i = 0; i < sites.size(); ++i) {
      const std::string text = line_of(names[i]);
      const auto has_it = [&](const File& file) { return is_in(text, file.name); };
      if (std::none_of(files_.begin(), files_.end(), has_it)) continue;
      Line& line = lines[{text.substr(text.find(' ') + 1) + text, sites[i].kind}];
      line.text = text;
      line.kind = sites[i].kind;
      line.order = sites[i].order;
      line.failure_order = sites[i].failure_order;
      line.sites.push_back(sites[i].address);
    }
    std::vector<Line> out;
    for (auto& [key, line] : lines) out.push_back(line);
    return out;
  }

  static std::vector<std::uint8_t> weaker(std::uint8_t order) {
    if (order == kAcqRel) return {kAcquire, kRelease, kRelaxed};
    if (order == kAcquire || order == kRelease) return {kRelaxed};
    return {};
  }

  static std::string name_of(std::uint8_t order) {
    static const char* const kNames[] = {"relaxed", "consume", "acquire", "release",
                                         "acq_rel"};
    return kNames[order];
  }

  Found hunt(const Mutation& mutation) const {
    set_mutation(&mutation);
    Found found;
    for (const Try& t : tries_) {
      Options options;
      options.max_time = t.max_time;
      options.max_states = kMost;
      const Result result = t.run(options);
      if (!result.ok && !result.failure.empty()) {
        found = {result.failure, t.name};
        break;
      }
    }
    set_mutation(nullptr);
    return found;
  }

  void expect_found(const Line& line, const std::string& change,
                    const Mutation& mutation) {
    const Found found = hunt(mutation);
    std::string why;
    if (found.what.empty()) {
      for (Known& known : known_) {
        if (line.text.find(known.line) == std::string::npos || change != known.change)
          continue;
        if (known.lines == 0) continue;
        --known.lines;
        why = known.why;
        break;
      }
    }
    std::printf("%-44s %-22s %s\n", line.text.c_str(), change.c_str(),
                found.what.empty() ? ("not found: " + why).c_str()
                                   : (found.what + " (" + found.where + ")").c_str());
    std::fflush(stdout);
    EXPECT_TRUE(!found.what.empty() || !why.empty()) << line.text << ": " << change;
  }

  const std::vector<Try> tries_;
  const std::vector<File> files_;
  std::vector<Known> known_;
  bool (*const is_tried_)(const Line&);
};

}  // namespace echobuf::model
