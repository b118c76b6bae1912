// The plan of one round of the soak: everything follows from its seed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <random>
#include <vector>

#include "echobuf/buffer/buffer.hpp"

namespace echobuf::soak {

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t below(std::uint64_t n) { return engine_() % n; }
  std::uint64_t from_to(std::uint64_t least, std::uint64_t most) {
    return least + below(most - least + 1);
  }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  std::uint64_t one_of(std::initializer_list<std::uint64_t> values) {
    return values.begin()[below(values.size())];
  }

 private:
  std::mt19937_64 engine_;
};

/// The course of an epoch.
enum class Course {
  kServed,   // to its end
  kResumed,  // cut once or more; a new buffer goes on from a checkpoint
  kReset,    // given up, under the hands of producers and consumers
  kFailed,   // upstream fails
  kAhead,    // served to its end while the next is put already
  kLeft,     // given up for the next, which is put already, under the consumers' hands
  kDown,     // shut down
};
inline constexpr const char* kCourseNames[] = {"served", "resumed", "reset", "failed",
                                               "ahead",  "left",    "down"};

struct EpochPlan {
  Course course;
  std::uint64_t examples;
  std::vector<std::uint64_t> cuts;  // batches after which something happens
  bool fails_ahead = false;         // upstream, before the epoch is gone over to
  bool dropped_ahead = false;  // what was put ahead; a reset, instead of going over
};

struct Plan {
  std::uint64_t seed;
  BufferOptions options;
  int producers;
  int consumers;
  bool in_order;       // producers take turns: the order of put is that of the numbers
  bool patient;        // no call has a timeout: a lost wake-up is a hang
  std::uint64_t held;  // batches that a consumer keeps before it drops them
  std::vector<EpochPlan> epochs;
};

inline std::size_t bytes_of(const BufferOptions& options) {
  return RecordLayout(options.fields).stride();
}

/// Bytes of the first field of the smallest record: where its number is.
inline std::size_t bytes_of_number(const BufferOptions& options) {
  return std::min<std::size_t>(options.fields[0].row_bytes, sizeof(std::uint64_t));
}

inline void choose_records(Random& random, BufferOptions& options) {
  const bool in_batches = random.one_in(5);
  const std::uint64_t fields = random.from_to(1, 4);
  const std::uint64_t most = random.one_of({1, 8, 64, 512, 4096, 100'000}) / fields;
  for (std::uint64_t f = 0; f < fields; ++f) {
    const std::uint64_t rows = in_batches ? random.from_to(2, 6) : 1;
    const std::uint64_t bytes = random.from_to(f == 0 ? 1 : 0, std::max(most, fields));
    const std::uint64_t row = std::max<std::uint64_t>(bytes / rows, f == 0 ? 1 : 0);
    options.fields.push_back({random.one_in(3) ? row : round_up(row, 8),
                              f == 0 ? rows : options.fields[0].rows});
  }
  if (in_batches) options.lengths.examples = options.fields[0].rows;
}

inline void choose_schedule(Random& random, BufferOptions& options) {
  const std::uint64_t kind = random.below(3);
  options.automatic = kind == 0;
  if (kind == 1) options.factor = {random.from_to(1, 5), 1};
  if (kind == 2) {
    constexpr Ratio kRatios[] = {{3, 2}, {5, 2}, {5, 4}, {33, 10}, {101, 100}, {29, 7}};
    options.factor = kRatios[random.below(std::size(kRatios))];
  }
  options.max_factor = static_cast<std::uint32_t>(random.from_to(1, 8));
  const std::uint64_t least = options.automatic ? 1 : options.factor.ceil();
  const std::uint64_t most = random.one_of({10, 100, 1000});
  options.window = std::max(least, random.from_to(1, most));
  // A fractional factor allows smaller batches: see docs/options.md.
  const Ratio& factor = options.factor;
  const std::uint64_t largest =
      options.automatic || factor.den == 1
          ? options.window
          : factor.num / factor.den * (options.window / factor.ceil());
  options.batch_size = options.lengths.in_batches() ? 1 : random.from_to(1, largest);
}

inline std::vector<EpochPlan> choose_epochs(Random& random, const Plan& plan) {
  const BufferOptions& options = plan.options;
  // A number of less than eight bytes does not say of which epoch it is.
  const bool tagged = bytes_of_number(options) == sizeof(std::uint64_t);
  const std::uint64_t most =
      std::clamp<std::uint64_t>((4u << 20) / bytes_of(options), 20, 6000);
  std::vector<EpochPlan> epochs(random.from_to(1, 4));
  for (EpochPlan& epoch : epochs) {
    epoch.examples = random.below(most + 1);
    epoch.course = static_cast<Course>(random.below(6));
    if (epoch.course == Course::kResumed && !plan.in_order)
      epoch.course = Course::kServed;
    const bool mixes = epoch.course == Course::kReset || epoch.course == Course::kLeft;
    if (mixes && !tagged) epoch.course = Course::kFailed;
    const std::uint64_t batches = 2 * epoch.examples / options.batch_size + 1;
    epoch.cuts.resize(epoch.course == Course::kResumed ? random.from_to(1, 3) : 1);
    for (std::uint64_t& cut : epoch.cuts) cut = random.below(batches);
    epoch.fails_ahead = epoch.course == Course::kFailed && random.one_in(2);
    epoch.dropped_ahead = random.one_in(4);
  }
  // Each reset is followed by an epoch, which shows whether that is whole.
  epochs.back().course = random.one_in(6) ? Course::kDown : Course::kServed;
  epochs.back().fails_ahead = false;
  return epochs;
}

inline Plan choose_plan(std::uint64_t seed) {
  Random random(seed);
  Plan plan{};
  plan.seed = seed;
  choose_records(random, plan.options);
  choose_schedule(random, plan.options);
  plan.options.seed = seed;
  plan.options.prefetch = static_cast<std::uint32_t>(random.one_of({0, 0, 1, 3}));
  plan.options.drop_last = random.one_in(3);
  plan.producers = static_cast<int>(random.from_to(1, 4));
  plan.consumers = static_cast<int>(random.from_to(1, 3));
  plan.in_order = random.one_in(2);
  plan.patient = random.one_in(2);
  plan.held = random.one_of({0, 0, 1, 5});
  plan.epochs = choose_epochs(random, plan);
  return plan;
}

inline std::ostream& operator<<(std::ostream& out, const Plan& plan) {
  const BufferOptions& options = plan.options;
  out << "seed " << plan.seed << ": fields";
  for (const auto& field : options.fields)
    out << ' ' << field.row_bytes << 'x' << field.rows;
  out << (options.lengths.in_batches() ? " whole batches" : "") << ", window "
      << options.window << ", batch " << options.batch_size << ", factor ";
  if (options.automatic)
    out << "auto up to " << options.max_factor;
  else
    out << options.factor.num << '/' << options.factor.den;
  out << ", prefetch " << options.prefetch << (options.drop_last ? ", drop_last" : "")
      << ", " << plan.producers << " producers" << (plan.in_order ? " in turn" : "")
      << ", " << plan.consumers << " consumers" << (plan.patient ? ", patient" : "")
      << ", " << plan.held << " held; epochs";
  for (const EpochPlan& epoch : plan.epochs) {
    out << ' ' << kCourseNames[static_cast<int>(epoch.course)] << '(' << epoch.examples;
    if (epoch.course != Course::kServed)
      for (const std::uint64_t cut : epoch.cuts) out << " @" << cut;
    out << (epoch.fails_ahead ? " early" : "")
        << (epoch.dropped_ahead ? " or dropped" : "") << ')';
  }
  return out;
}

}  // namespace echobuf::soak
