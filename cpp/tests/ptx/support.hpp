// Small kernels for the tests of the PTX machine.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ptx/errors.hpp"
#include "ptx/machine.hpp"
#include "ptx/parser.hpp"

namespace echobuf::ptx::test {

/// A module with one kernel `k` that takes the addresses `in` and `out`, and has %in
/// and %out with them, %t with the thread's number in the block and %at, the place of
/// word t of `out`. Free registers: %p0-7, %h0-7 (16 bits), %r0-15, %d0-15, %f0-7,
/// %g0-7 (f64).
std::string kernel(const std::string& body, const std::string& declarations = "");

/// The line of `text` that holds `part` first.
std::uint32_t line_of(const std::string& text, const std::string& part);

struct RunSettings {
  std::uint32_t blocks = 1;
  std::uint32_t threads = 1;
  std::uint64_t seed = 1;
  std::vector<std::uint64_t> in;  // words
  std::uint64_t out = 1;          // words
  std::uint64_t most_instructions = 1000000;
};

/// Runs the kernel of a text; returns `out`, all of which must have been written.
std::vector<std::uint64_t> run(const std::string& text, const RunSettings& settings);

/// The fault that a run ends with; none where it ends well.
std::optional<Fault> fault_of(const std::string& text, const RunSettings& settings);

/// A row of operands; their number and the bits of each are the test's.
using Row = std::vector<std::uint64_t>;

/// Results of `instruction` for each row, where %a, %b, %c and %e are the operands, of
/// `bits` each (1: a predicate), and %z is the result, of `result` bits.
std::vector<std::uint64_t> results(const std::string& instruction, unsigned result,
                                   const std::vector<unsigned>& bits,
                                   const std::vector<Row>& rows);

/// The message of the error that `instruction` is refused with, in a kernel where the
/// registers of kernel() are; empty where it is not.
std::string refusal(const std::string& instruction);

/// All rows of `count` values.
std::vector<Row> rows_of(const std::vector<std::uint64_t>& values, unsigned count);

/// Values at which integers of `bits` bits and floats go wrong.
std::vector<std::uint64_t> integer_edges(unsigned bits);

}  // namespace echobuf::ptx::test
