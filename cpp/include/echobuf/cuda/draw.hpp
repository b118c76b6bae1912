// Draws on the device: what kernels are launched, and behind which events.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "echobuf/cuda/device_infos.hpp"
#include "echobuf/cuda/draw_launch.hpp"
#include "echobuf/cuda/draw_order.hpp"
#include "echobuf/cuda/handles.hpp"
#include "echobuf/cuda/plan.hpp"
#include "echobuf/cuda/staging.hpp"
#include "echobuf/cuda/transformed_leaves.hpp"
#include "echobuf/draw/gather.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/store/record.hpp"

namespace echobuf::cuda {

/// The kernels of kernels/draw.cu, compiled for the device by Python.
struct Kernels {
  FunctionHandle draw;
  FunctionHandle draw_planned;
  FunctionHandle draw_partners;
  FunctionHandle plan;
};

/// Device memory beside the window, made once.
struct Workspace {
  Address plan;     // what a captured draw draws
  Address holding;  // where a wait may cut a batch in two: slots for its records, and
                    // as many for their partners, if they have any
};

/// Enqueues draws; they are ordered among each other and against uploads by events, so
/// each may be on another stream. The device's context is the calling thread's.
class DeviceDraw {
 public:
  DeviceDraw(const Staging& staging, const BatchLayout& batch, DrawOrder& order,
             Address window, std::uint64_t capacity, const Workspace& workspace,
             const Kernels& kernels, const DeviceTransformedLeaves& transformed,
             std::uint64_t batch_size, DeviceInfos* infos)
      : staging_(staging),
        batch_(batch),
        order_(order),
        window_(window),
        capacity_(capacity),
        workspace_(workspace),
        kernels_(kernels),
        transformed_(transformed),
        batch_size_(batch_size),
        infos_(infos),
        least_blocks_(2 * context().multiprocessors()),
        copied_(copied_fields(staging.layout(), batch)) {}

  const BatchLayout& batch() const { return batch_; }
  const DeviceContext& context() const { return order_.context(); }

  DrawOrder& order() const { return order_; }

  /// A part of a pass over the records from `window` on.
  DrawPart part(const Permutation& order, std::uint64_t window, std::uint64_t offset,
                std::uint64_t count) const {
    return {.order = order,
            .slots = window_,
            .capacity = capacity_,
            .first = window % capacity_,
            .row = 0,
            .offset = static_cast<std::uint32_t>(offset),
            .count = static_cast<std::uint32_t>(count),
            .partner = 0};
  }

  /// A part of passes that lists its `count` records: see Plan.
  DrawPart listed(std::uint64_t count) const {
    DrawPart part{};
    part.order = Permutation::identity(1);
    part.slots = window_;
    part.count = static_cast<std::uint32_t>(count);
    return part;
  }

  /// The first `count` of the records that are held.
  DrawPart held(std::uint64_t count) const {
    DrawPart part{};
    part.order = Permutation::identity(static_cast<std::uint32_t>(count));
    part.slots = workspace_.holding;
    part.capacity = part.count = static_cast<std::uint32_t>(count);
    if (batch_.partner_operation())
      part.partner = static_cast<std::uint32_t>(batch_size_);
    return part;
  }

  /// Draws a batch. `rows`: its length, where records are ragged.
  void draw(const Plan& plan, const Target& target, std::size_t rows) {
    const std::size_t count = record().ragged() ? rows : plan.rows();
    ordered(plan, target.stream, [&] {
      const BatchNumber number = send_infos(plan, count, false, target.stream);
      for_launches(plan.parts(), number, [&](DrawParts& parts) {
        find_list(parts, false);
        for_fields([&](std::span<const CopiedField> fields) {
          launch(lay_out(record(), parts[0].row, rows_of(parts), target.leaves, fields,
                         rows, least_blocks_),
                 kernels_.draw, parts, target.stream);
        });
        transformed_.make(parts, 0,
                          transformed_rows(parts[0].row, rows_of(parts), rows),
                          target.leaves, target.stream);
      });
      if (infos_) infos_->copy(target.leaves, count, false, target.stream);
      order_.note_draw(target.stream);
    });
  }

  /// Keeps the parts of `plan` from number `first` on as whole records, with their
  /// partners, since their pass may be over when they are drawn.
  void hold(const Plan& plan, std::size_t first, StreamHandle stream) {
    const auto mix = batch_.partner_operation();
    const std::size_t area = batch_size_ * record().stride();
    ordered(plan, stream, [&] {
      if (!plan.slots().empty()) send_infos(plan, plan.rows(), false, stream);
      for_launches(plan.parts().subspan(first), plan.number(), [&](DrawParts& parts) {
        find_list(parts, false);
        const std::uint64_t row = parts[0].row;
        launch(lay_out_slots(record(), row, rows_of(parts), workspace_.holding, 0,
                             least_blocks_),
               kernels_.draw, parts, stream);
        if (!mix) return;
        launch(lay_out_slots(record(), row, rows_of(parts), workspace_.holding + area,
                             *mix, least_blocks_),
               kernels_.draw_partners, parts, stream);
      });
      order_.note_draw(stream);
    });
  }

  /// Makes `plan` what captured draws draw. What reads its slots comes later, on the
  /// same stream; that is for the caller to note. `rows`: see draw().
  void write(const Plan& plan, std::size_t rows, StreamHandle stream) {
    ordered(plan, stream, [&] {
      const std::size_t count = record().ragged() ? rows : plan.rows();
      const BatchNumber number = send_infos(plan, count, true, stream);
      for_launches(plan.parts(), number, [&](DrawParts& parts) {
        find_list(parts, true);
        write(parts, stream);
      });
    });
  }

  /// From now on captured draws on `stream` draw nothing.
  void erase(StreamHandle stream) {
    DrawParts none;
    write(none, stream);
  }

  /// Puts a draw of `count` rows into the graph that is being captured.
  void capture(const Target& target, std::uint64_t count, std::size_t rows) const {
    Address plan = workspace_.plan;
    for_fields([&](std::span<const CopiedField> fields) {
      launch(lay_out(record(), 0, count, target.leaves, fields, rows, least_blocks_),
             kernels_.draw_planned, plan, target.stream);
    });
    transformed_.make(DrawParts{}, plan, transformed_rows(0, count, rows),
                      target.leaves, target.stream);
    if (infos_)
      infos_->copy(target.leaves, record().ragged() ? rows : count, true,
                   target.stream);
  }

  /// The length of a ragged record.
  std::size_t length(std::uint64_t position) const { return staging_.length(position); }
  /// The length of those that have all their rows.
  std::size_t full_length() const {
    return record().fields().empty() ? 0 : record().fields()[0].rows;
  }

 private:
  const RecordLayout& record() const { return staging_.layout(); }

  /// Enqueues what reads the records of `plan`.
  template <class Enqueue>
  void ordered(const Plan& plan, StreamHandle stream, Enqueue&& enqueue) try {
    order_.order_draw(stream, plan.end());
    enqueue();
  } catch (const Error& error) {
    order_.lose_draw(stream, error);
    throw;
  }

  /// Sends the uses that the rows of a batch are, and the slots that its parts list.
  /// Returns its number with the uses.
  BatchNumber send_infos(const Plan& plan, std::size_t rows, bool captured,
                         StreamHandle stream) {
    BatchNumber number = plan.number();
    if (!infos_ || (rows == 0 && plan.slots().empty())) return number;
    infos_->send(plan.uses(), rows, plan.slots(), captured, stream);
    number.uses = infos_->uses(captured);
    return number;
  }

  /// Tells parts that list their records where the list is.
  void find_list(DrawParts& parts, bool captured) const {
    if (!infos_) return;
    for (std::uint32_t i = 0; i < parts.count; ++i)
      if (parts.part[i].is_listed()) parts.part[i].first = infos_->slots(captured);
  }

  template <class Use>
  void for_fields(Use&& use) const {
    const std::span<const CopiedField> all = copied_;
    for (std::size_t f = 0; f < all.size(); f += kDrawFields)
      use(all.subspan(f, std::min<std::size_t>(all.size() - f, kDrawFields)));
  }

  /// `count` rows of the batch, or the rows of its ragged record.
  TransformedRows transformed_rows(std::uint64_t row, std::uint64_t count,
                                   std::size_t rows) const {
    const auto length = static_cast<std::uint32_t>(rows);
    if (record().ragged()) return {0, length, length};
    return {static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(count), 0};
  }

  static std::uint64_t rows_of(const DrawParts& parts) {
    const DrawPart& last = parts[parts.count - 1];
    return last.row + last.count - parts[0].row;
  }

  template <class Last>
  void launch(DrawLaunch launch, FunctionHandle kernel, Last& last,
              StreamHandle stream) const {
    void* arguments[] = {&launch.layout, &last};
    context().driver().launch(kernel, launch.blocks, 1u, 1u, launch.layout.threads, 1u,
                              1u, 0u, stream, arguments, static_cast<void**>(nullptr));
  }

  void write(DrawParts& parts, StreamHandle stream) const {
    Address plan = workspace_.plan;
    void* arguments[] = {&parts, &plan};
    context().driver().launch(kernels_.plan, 1u, 1u, 1u, kDrawParts, 1u, 1u, 0u, stream,
                              arguments, static_cast<void**>(nullptr));
  }

  const Staging& staging_;
  const BatchLayout& batch_;
  DrawOrder& order_;
  const Address window_;
  const std::uint64_t capacity_;
  const Workspace workspace_;
  const Kernels kernels_;
  const DeviceTransformedLeaves& transformed_;
  const std::uint64_t batch_size_;
  DeviceInfos* const infos_;          // null: draws do not know the uses of records,
                                      // and list none
  const std::uint32_t least_blocks_;  // so that every multiprocessor has work
  const std::vector<CopiedField> copied_;
};

}  // namespace echobuf::cuda
