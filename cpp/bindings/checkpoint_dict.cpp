#include "checkpoint_dict.hpp"

#include <pybind11/stl.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "echobuf/buffer/checkpoint.hpp"

namespace echobuf::python {
namespace {

namespace py = pybind11;
using namespace py::literals;

template <class T = std::uint64_t>
T get(const py::dict& state, const char* key) {
  return state[key].cast<T>();
}

void add_sweep(py::dict& state, const FixedSweep& sweep) {
  state["pass_done"] = sweep.pass_done();
  if (sweep.schedule().fractional()) state["phase"] = sweep.schedule().phase();
  if (const auto counted = sweep.counted()) {
    state["entered_draws"] = counted->draws;
    state["oldest_segment"] = counted->oldest_segment;
    state["whole_segments"] = counted->whole_before;
  }
}

void add_sweep(py::dict& state, const AutoSweep& sweep) {
  const AutoSchedule::State& s = sweep.schedule().state();
  std::vector<std::uint32_t> uses;
  for (std::uint64_t i = s.lo; i < s.hi; ++i) uses.push_back(sweep.schedule().uses(i));
  state["auto"] =
      py::dict("lo"_a = s.lo, "hi"_a = s.hi, "limit"_a = s.limit, "begun"_a = s.begun,
               "waiting"_a = s.waiting, "uses"_a = uses);
}

/// The values and the examples of rows, one after the other.
std::vector<std::uint64_t> list_of(const std::vector<PackedRow>& rows) {
  std::vector<std::uint64_t> list;
  for (const PackedRow& row : rows) list.insert(list.end(), {row.used, row.segments});
  return list;
}

OpenRows rows_of(const std::vector<std::uint64_t>& list, std::uint64_t row_length) {
  if (list.size() % 2 != 0) throw std::invalid_argument("`open_rows` is cut off");
  std::vector<PackedRow> rows;
  for (std::size_t i = 0; i < list.size(); i += 2)
    rows.push_back({list[i], static_cast<std::uint32_t>(list[i + 1])});
  return checked_rows(std::move(rows), row_length);
}

/// With records of different lengths.
std::optional<Entered> entered_of(const py::dict& state, const BufferOptions& options) {
  if (!options.lengths.any()) return std::nullopt;
  Entered entered{get(state, "fresh_offset"), std::nullopt};
  if (state.contains("entered_draws"))
    entered.counted = Counted{get(state, "entered_draws"), get(state, "oldest_segment"),
                              get(state, "whole_segments")};
  return entered;
}

py::dict dict_of(const SelectionState& state) {
  const std::vector<std::uint8_t>& marks = state.pass.marks;
  return py::dict(
      "expired"_a = state.expired, "newest"_a = state.newest,
      "first"_a = state.pass.first,
      "marks"_a = py::bytes(reinterpret_cast<const char*>(marks.data()), marks.size()));
}

SelectionState selection_of(const py::dict& state) {
  const auto marks = get<std::string>(state, "marks");
  return {{get(state, "first"), {marks.begin(), marks.end()}},
          get(state, "expired"),
          get<std::int64_t>(state, "newest")};
}

void restore(FixedSweep& sweep, const py::dict& state, const Position& position,
             const std::optional<Entered>& entered, bool expires) {
  const bool fractional = sweep.schedule().fractional();
  if (entered && entered->counted.has_value() != fractional)
    throw std::invalid_argument("`entered_draws` does not fit `factor`");
  restore_sweep(sweep, position, get<bool>(state, "pass_done"),
                get(state, "resident_end"), fractional ? get(state, "phase") : 0,
                entered, expires);
}

void restore(AutoSweep& sweep, const py::dict& state, const Position& position,
             const std::optional<Entered>& entered, bool /*expires*/) {
  const auto inner = get<py::dict>(state, "auto");
  AutoSchedule::State s;
  s.lo = get(inner, "lo");
  s.hi = get(inner, "hi");
  s.end_record = get(state, "resident_end");
  s.limit = get(inner, "limit");
  s.begun = get<bool>(inner, "begun");
  s.waiting = get<bool>(inner, "waiting");
  restore_sweep(sweep, position, s, get<std::vector<std::uint32_t>>(inner, "uses"),
                entered);
}

}  // namespace

py::dict to_dict(const Checkpoint& checkpoint) {
  return std::visit(
      [&](const auto& sweep) {
        const Position at = sweep.position();
        py::dict state("epoch"_a = checkpoint.epoch,
                       "epoch_done"_a = checkpoint.epoch_done,
                       "fresh_offset"_a = sweep.oldest_record(), "pass"_a = at.pass,
                       "offset"_a = at.offset, "draws"_a = at.draws,
                       "resident_end"_a = sweep.resident_end(),
                       "upstream_length"_a = checkpoint.total);
        add_sweep(state, sweep);
        if (sweep.open_rows) {
          state["open_rows"] = list_of(*sweep.open_rows);
          state["served_ahead"] = sweep.served_ahead;
        }
        if (const auto selection = sweep.selection_state())
          state["selection"] = dict_of(*selection);
        return state;
      },
      checkpoint.sweep);
}

Checkpoint from_dict(const py::dict& state, const BufferOptions& options) {
  const Position position{get(state, "pass"), get(state, "offset"),
                          get(state, "draws")};
  const auto epoch = get(state, "epoch");
  Sweep sweep = make_sweep(options, epoch);
  const std::optional<Entered> entered = entered_of(state, options);
  const bool expires = options.expires();
  std::visit([&](auto& s) { restore(s, state, position, entered, expires); }, sweep);
  const std::uint64_t row_length = options.lengths.row_length();
  if (row_length > 0 && state.contains("open_rows")) {
    const auto list = get<std::vector<std::uint64_t>>(state, "open_rows");
    const auto ahead = get(state, "served_ahead");
    std::visit([&](auto& s) { restore_rows(s, rows_of(list, row_length), ahead); },
               sweep);
  }
  if (oldest_record(sweep) != get(state, "fresh_offset"))
    throw std::invalid_argument("`fresh_offset` does not fit the position");
  Checkpoint point{epoch, sweep,
                   get<std::optional<std::uint64_t>>(state, "upstream_length"), false};
  check_total(point);
  if (expires && position.draws > 0) {
    const auto selection = get<py::dict>(state, "selection");
    std::visit([&](auto& s) { restore_selection(s, selection_of(selection)); },
               point.sweep);
  }
  return point;
}

}  // namespace echobuf::python
