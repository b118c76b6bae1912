// Buffers of every kind at full speed, each example checksummed and its uses counted.
//
//   soak SECONDS [SEED]   goes on with SEED+1, SEED+2, ...; without a seed, a random
//   one soak 0 SEED           one round: what a failure printed
#include <charconv>
#include <chrono>
#include <cstring>
#include <exception>
#include <iostream>
#include <random>
#include <sstream>

#include "plan.hpp"
#include "round.hpp"
#include "watchdog.hpp"

namespace {

std::uint64_t number(const char* text) {
  std::uint64_t value = 0;
  const char* end = text + std::strlen(text);
  const auto result = std::from_chars(text, end, value);
  if (result.ec != std::errc() || result.ptr != end) {
    std::cerr << "not a number: " << text << "\nusage: soak SECONDS [SEED]\n";
    std::exit(2);
  }
  return value;
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 2 || argc > 3) {
    std::cerr << "usage: soak SECONDS [SEED]\n";
    return 2;
  }
  using echobuf::Clock;
  const auto end = Clock::now() + std::chrono::seconds(number(argv[1]));
  std::uint64_t seed = argc > 2 ? number(argv[2]) : std::random_device()();
  std::cout << "first seed " << seed << std::endl;

  echobuf::soak::Watchdog watchdog;
  std::uint64_t rounds = 0, draws = 0;
  do {
    const echobuf::soak::Plan plan = echobuf::soak::choose_plan(seed++);
    std::ostringstream text;
    text << plan;
    watchdog.begin(text.str());
    draws += echobuf::soak::Round(plan, watchdog).run();
    ++rounds;
  } while (Clock::now() < end);
  std::cout << rounds << " rounds, " << draws << " draws, last seed " << seed - 1
            << std::endl;
} catch (const std::exception& error) {
  std::cerr << error.what() << std::endl;
  return 2;
}
