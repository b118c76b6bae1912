// A test that cannot fail is no test: every atomic operation of the ring, the event
// count and the turn is weakened, and left out, one at a time, and the model checker
// must find what then goes wrong.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "buffer_ahead_world.hpp"
#include "buffer_world.hpp"
#include "ring_ahead_world.hpp"
#include "ring_world.hpp"

namespace {

using namespace echobuf;         // NOLINT(google-build-using-namespace)
using namespace echobuf::model;  // NOLINT(google-build-using-namespace)

struct Try {
  const char* name;
  Result (*run)(const Options&);
  std::uint32_t max_time = 0;
};

template <class World, std::uint64_t Capacity, std::uint64_t Runs0, std::uint64_t Runs1,
          bool SecondCloses = false, std::uint32_t Tick = ~0u>
Result run(const Options& options) {
  RingPlan plan;
  plan.capacity = Capacity;
  plan.runs[0] = Runs0;
  plan.runs[1] = Runs1;
  plan.second_closes = SecondCloses;
  plan.put_deadline = Tick;
  return explore<World>(plan, options);
}

/// A term opened ahead, without and with a thread that puts beside it.
template <int Threads, std::uint64_t Capacity, std::uint64_t First, bool GivesUp>
Result run_ahead(const Options& options) {
  RingPlan plan;
  plan.capacity = Capacity;
  plan.runs[0] = First;
  plan.ahead = First;
  plan.gives_up = GivesUp;
  return explore<PutAhead<Threads>>(plan, options);
}

template <class World, bool Fails = false, bool Downs = false,
          std::uint64_t Examples = 1>
Result run_buffer(const Options& options) {
  BufferPlan plan;
  plan.examples = Examples;
  plan.fails = Fails;
  plan.downs = Downs;
  return explore<World>(plan, options);
}

Result run_claims(const Options& options) {
  RingPlan plan;
  plan.capacity = 1;
  plan.runs[1] = 2;
  plan.keep = 2;
  return explore<ClaimAndLook>(plan, options);
}

const Try kTries[] = {
    {"claims", run_claims},
    {"a record", run<PutAndTake, 1, 1, 0>},
    {"two records in a slot", run<PutAndTake, 1, 2, 0>},
    {"a close beside a put", run<PutAndTake, 1, 1, 0, true>},
    {"a close beside puts", run<PutAndTake, 1, 2, 0, true>},
    {"a buffer that fails", run_buffer<PutAndNext<2>, true>},
    {"a buffer shut down", run_buffer<PutAndNext<2>, false, true>},
    {"a reset", run<PutAndReset, 2, 1, 0>},
    {"a reset, two producers", run<PutAndReset, 2, 1, 1>},
    {"a term ahead", run_ahead<2, 1, 1, false>},
    {"a term ahead, given up for it", run_ahead<3, 2, 0, true>},
    {"a shutdown beside a term ahead", run_buffer<ShutDownBesideOpening>},
    {"a buffer that fails ahead", run_buffer<PutAndGoAhead, true, false, 0>},
    {"a buffer reset, a failure ahead", run_buffer<ResetOfAFailureAhead>},
    {"two producers", run<PutAndTake, 1, 1, 1>},
    {"two consumers, no record", run<TakeInTurn, 1, 0, 0>},
    {"two consumers", run<TakeInTurn, 1, 1, 0>},
    {"a buffer reset", run_buffer<PutAndRestart<2>>},
    {"a term failed beside a reset", run_buffer<FailATermBesideRestart>},
};

/// The operations of one line of the core, wherever it was inlined.
struct Line {
  std::string text;  // "ring.hpp:69 Ring::claim"
  Kind kind;
  std::uint8_t order, failure_order;
  std::vector<std::uint64_t> sites;
};

/// The first frame that is not the standard library's.
std::string line_of(const std::string& symbol) {
  for (std::size_t at = 0; at < symbol.size();) {
    const std::size_t end = std::min(symbol.find(" < ", at), symbol.size());
    const std::string frame = symbol.substr(at, end - at);
    if (frame.find(" atomic") == std::string::npos) return frame;
    at = end + 3;
  }
  return symbol;
}

/// The headers whose operations are changed, and how many lines with one each has at
/// least: a file that is split or renamed must not drop out unseen.
struct File {
  const char* name;
  std::size_t lines;
};
constexpr File kFiles[] = {{"ring.hpp", 15},       {"event_count.hpp", 3},
                           {"draw_lock.hpp", 2},   {"buffer.hpp", 2},
                           {"termination.hpp", 8}, {"draw_path.hpp", 3}};

/// Their operations are relaxed and order nothing, but for std::shared_ptr's: times,
/// and memory that is used again.
constexpr const char* kStatistics[] = {"wait_clock.hpp", "clocks.hpp",
                                       "outstanding_claims.hpp"};

bool is_in(const std::string& line, const char* file) {
  return line.find(std::string(" ") + file + ":") != std::string::npos;
}

bool is_core(const std::string& line) {
  return std::any_of(std::begin(kFiles), std::end(kFiles),
                     [&](const File& file) { return is_in(line, file.name); });
}

std::vector<Line> lines_of(const std::vector<Site>& sites) {
  std::vector<std::uint64_t> addresses;
  for (const Site& site : sites) addresses.push_back(site.address);
  const std::vector<std::string> names = symbols(addresses);
  std::map<std::pair<std::string, Kind>, Line> lines;
  for (std::size_t i = 0; i < sites.size(); ++i) {
    const std::string text = line_of(names[i]);
    if (std::getenv("ECHOBUF_MODEL_LIST"))
      std::printf("%s %d %s\n", text.c_str(), sites[i].order, names[i].c_str());
    if (!is_core(text)) continue;
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

std::vector<std::uint8_t> weaker(std::uint8_t order) {
  if (order == kAcqRel) return {kAcquire, kRelease, kRelaxed};
  if (order == kAcquire || order == kRelease) return {kRelaxed};
  return {};
}

const char* name_of(std::uint8_t order) {
  static const char* const kNames[] = {"relaxed", "consume", "acquire", "release",
                                       "acq_rel"};
  return kNames[order];
}

constexpr std::uint64_t kMost = 300'000;  // states of a program

struct Found {
  std::string what, where;
};

Found hunt(const Mutation& mutation) {
  set_mutation(&mutation);
  Found found;
  for (const Try& t : kTries) {
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

bool long_form() {
  const char* form = std::getenv("ECHOBUF_MODEL");
  return form && std::strcmp(form, "long") == 0;
}

/// What a change that is not found is called here, and why it may guard.
struct Known {
  const char* line;
  const char* change;
  const char* why;
};
constexpr const char* kByTheTail =
    "comes with the ring's close, or with the turn; kept for those who look alone";
constexpr const char* kMissing = "not explored: a close or shut_down during a reset";
constexpr Known kKnown[] = {
    {"EventCount::wake event_count.hpp:", "left out",
     "a mark that stays only makes the next notifier wake nobody"},
    {"::restart buffer.hpp:", "release -> relaxed",
     "fail() reads nothing behind it: the pause orders what is served"},
    {"::restart buffer.hpp:", "left out",
     "a reset that waits for workers needs it: workers_test.cpp"},
    {"::fail buffer.hpp:", "acquire -> relaxed", "as the store in restart()"},
    {"Ring::claim ring.hpp:", "left out", "a statistic of factor=auto"},
    {"Ring::clear_held_back ", "left out", "a statistic of factor=auto"},
    {"Ring::claim ring.hpp:", "acq_rel -> release",
     "a success needs nothing from the tail that the load before did not give"},
    {"Ring::closed ", "acquire -> relaxed",
     "the load of the tail that follows acquires"},
    {"Ring::has_room ", "acquire -> relaxed",
     "a hint: the claim that follows acquires"},
    {"Ring::tail ", "acquire -> relaxed", "closed(), before it, acquires"},
    {"Ring::term ", "acquire -> relaxed", "the claim that follows acquires"},
    {"Ring::close ", "acq_rel -> release", kMissing},
    {"Ring::reopen ", "acquire -> relaxed", kMissing},
    {"Ring::extent ", "acquire -> relaxed",
     "the border alone: the word or the slot read before orders it"},
    {"Ring::reopen_ahead ", "release -> relaxed", "the exchange that follows releases"},
    {"Ring::cross_border ", "release -> relaxed",
     "only whoever has the turn draws by it, and the turn releases"},
    {"Ring::opened_ahead ", "acquire -> relaxed",
     "looked at after failed_, which acquires what came before the failure"},
    {"Ring::is_committed ", "acquire -> relaxed",
     "a hint: it chooses the position to wait for, and the look that follows acquires"},
    {"Termination::fail termination.hpp:", "left out",
     "read by checkpoint() alone, which no program calls"},
    {"DrawPath::Pause::announce ", "release -> relaxed",
     "the ring's close, or the turn, releases what came before"},
    {"DrawPath::Pause::~Pause ", "release -> relaxed", "the turn given back releases"},
    {"Termination::fail ", "release -> relaxed", kByTheTail},
    {"Termination::shut_down ", "release -> relaxed", kByTheTail},
    {"Termination::is_down ", "acquire -> relaxed", kByTheTail},
    {"Termination::has_failed ", "acquire -> relaxed", kByTheTail},
    {"Termination::forget_failure ", "release -> relaxed", kByTheTail},
    {"DrawPath::draw<", "acquire -> relaxed", kByTheTail},
};

/// In short the lines that records themselves pass by.
bool is_short(const Line& line) {
  for (const char* name : {"EventCount::prepare", "EventCount::announce",
                           "Ring::release", "Ring::commit ", "Ring::committed"})
    if (line.text.find(name) != std::string::npos) return true;
  return false;
}

void expect_found(const Line& line, const std::string& change,
                  const Mutation& mutation) {
  const Found found = hunt(mutation);
  std::string why;
  for (const Known& known : kKnown)
    if (line.text.find(known.line) != std::string::npos && change == known.change)
      why = known.why;
  std::printf("%-44s %-22s %s\n", line.text.c_str(), change.c_str(),
              found.what.empty() ? ("not found: " + why).c_str()
                                 : (found.what + " (" + found.where + ")").c_str());
  std::fflush(stdout);
  EXPECT_TRUE(!found.what.empty() || !why.empty()) << line.text << ": " << change;
}

TEST(Mutants, AreFound) {
  std::vector<Site> sites;
  record_sites(&sites);
  for (const Try& t : kTries) {
    Options options;
    options.max_states = long_form() ? kMost : 50'000;
    EXPECT_EQ(t.run(options).failure, "") << "without any change: " << t.name;
  }
  record_sites(nullptr);
  const std::vector<Line> lines = lines_of(sites);
  EXPECT_GT(lines.size(), 15u);
  const char* only = std::getenv("ECHOBUF_MODEL_ONLY");  // a part of a line's name
  for (const Line& line : lines) {
    if (only && line.text.find(only) == std::string::npos) continue;
    if (!long_form() && !is_short(line)) continue;
    for (const std::uint8_t order : weaker(line.order))
      expect_found(line, std::string(name_of(line.order)) + " -> " + name_of(order),
                   {line.sites, false, order, line.failure_order});
    if (!long_form()) continue;
    if (line.kind == Kind::kCas)
      for (const std::uint8_t order : weaker(line.failure_order))
        expect_found(line, std::string("on failure ") + name_of(order),
                     {line.sites, false, line.order, order});
    if (line.kind != Kind::kLoad && line.kind != Kind::kCas)
      expect_found(line, "left out", {line.sites, true});
  }
}

}  // namespace
