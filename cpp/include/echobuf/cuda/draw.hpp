// Draws of records without rows on the device: what kernels are launched, and behind
// which events.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "echobuf/cuda/device_infos.hpp"
#include "echobuf/cuda/draw_launch.hpp"
#include "echobuf/cuda/draw_order.hpp"
#include "echobuf/cuda/handles.hpp"
#include "echobuf/cuda/kernels.hpp"
#include "echobuf/cuda/plan.hpp"
#include "echobuf/cuda/staging.hpp"
#include "echobuf/cuda/transformed_leaves.hpp"
#include "echobuf/draw/gather.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/draw/planner.hpp"
#include "echobuf/options.hpp"
#include "echobuf/store/record.hpp"

namespace echobuf::cuda {

inline constexpr std::size_t kWorkspaceAlignment = 256;

/// Device memory beside the window: the plan that captured draws draw, behind it the
/// holding area, and behind that the memory of plans that make leaves. The holding area
/// is for a batch that a wait may cut in two: slots for its records, and as many for
/// their partners, if they have any.
struct WorkspaceLayout {
  std::size_t holding;
  std::size_t transformed;
  std::size_t bytes;

  WorkspaceLayout(const BufferOptions& options, const RecordLayout& record,
                  const BatchLayout& batch)
      : holding(round_up(DrawPlan::bytes(most_parts(options)), kWorkspaceAlignment)) {
    const bool cut = (options.automatic || options.expires()) && options.batch_size > 1;
    const std::size_t slots =
        cut ? options.batch_size * (batch.partner_operation() ? 2 : 1) : 0;
    transformed =
        holding + round_up(size_product(slots, record.stride()), kWorkspaceAlignment);
    bytes = transformed + transformed_memory(batch, largest_rows(options)).bytes();
  }

  /// Rows of a batch at most.
  static std::size_t largest_rows(const BufferOptions& options) {
    if (!options.lengths.in_batches()) return options.batch_size;
    return options.fields.empty() ? 0 : options.fields[0].rows;
  }
};

/// Enqueues draws; they are ordered among each other and against uploads by events, so
/// each may be on another stream. The device's context is the calling thread's.
class DeviceDraw {
 public:
  /// All must outlive it. Throws Error, std::bad_alloc.
  DeviceDraw(const SharedContext& context, const Staging& staging,
             const BatchLayout& batch, const BufferOptions& options, DrawOrder& order,
             const Staging::Window& window, const Kernels& kernels,
             const std::vector<StageKernels>& stages)
      : staging_(staging),
        batch_(batch),
        options_(options),
        order_(order),
        window_(window),
        kernels_(kernels),
        layout_(options, staging.layout(), batch),
        workspace_(make_device_memory(context, layout_.bytes)),
        transformed_(context, staging.layout(), batch,
                     WorkspaceLayout::largest_rows(options), stages,
                     workspace_->get() + layout_.transformed),
        infos_(infos_bytes(options) > 0 ? std::make_unique<DeviceInfos>(
                                              options, context, batch,
                                              WorkspaceLayout::largest_rows(options))
                                        : nullptr),
        least_blocks_(2 * context->multiprocessors()),
        copied_(copied_fields(staging.layout(), batch)),
        plan_(options) {}

  /// Waits for the last draw, which reads the workspace.
  ~DeviceDraw() { order_.await_draws(); }
  DeviceDraw(const DeviceDraw&) = delete;
  DeviceDraw& operator=(const DeviceDraw&) = delete;

  /// The device memory that it takes.
  static std::size_t own_bytes(const BufferOptions& options, const RecordLayout& record,
                               const BatchLayout& batch) {
    return WorkspaceLayout(options, record, batch).bytes + infos_bytes(options);
  }
  std::size_t device_bytes() const { return layout_.bytes + infos_bytes(options_); }

  // ---- the batch that is next

  /// Makes parts for the kernels of what is planned, behind what was set apart.
  void find(const BatchPlan& planned) {
    const BatchNumber number =
        apart_ > 0 ? plan_.number()
                   : BatchNumber{transform::transform_key(options_.seed,
                                                          planned.parts.front().epoch),
                                 planned.parts.front().draw,
                                 {}};
    plan_.begin(number);
    if (apart_ > 0) plan_.add(part_apart(), 0);
    for (const DrawnUse& use : apart_uses_) plan_.add_use(use);
    for (const DrawnUse& use : planned.uses) plan_.add_use(use);
    auto slot = planned.slots.begin();
    for (const PassPart& part : planned.parts) {
      plan_.add(part.selection ? listed(part.count) : part_of(part), planned.end);
      for (std::uint64_t i = 0; part.selection && i < part.count; ++i)
        plan_.add_slot(*slot++);
      if (record().in_batches())
        length_ = staging_.length(part.window + part.place(part.offset));
    }
  }

  /// Returns whether it is as large as batches are, and not the last one.
  bool is_whole() const {
    return count() == (record().in_batches() ? full_length() : options_.batch_size);
  }
  /// Returns whether it fits memory for a whole batch, and says how large it is.
  bool fits(Target& target) const {
    target.count = count();
    return true;
  }
  static constexpr bool fits_captured(const RowsTarget&) { return true; }

  void draw(const Target& target) {
    order_.ordered(target.stream, plan_.end(), [&] {
      const BatchNumber number = send_infos(count(), false, target.stream);
      for_launches(plan_.parts(), number, [&](DrawParts& parts) {
        find_list(parts, false);
        for_fields([&](std::span<const CopiedField> fields) {
          launch(lay_out(record(), parts[0].row, rows_of(parts), target.leaves, fields,
                         length_, least_blocks_),
                 kernels_.draw, parts, target.stream);
        });
        transformed_.make(parts, 0,
                          transformed_rows(parts[0].row, rows_of(parts), length_),
                          target.leaves, target.stream);
      });
      if (infos_) infos_->copy(target.leaves, count(), false, target.stream);
      order_.note_draw(target.stream);
    });
  }

  /// Keeps it as whole records, with their partners, since its passes may be over when
  /// it is drawn: they are the first of the next batch.
  void set_apart(StreamHandle stream) {
    const auto mix = batch_.partner_operation();
    const Address holding = workspace_->get() + layout_.holding;
    const std::size_t area = options_.batch_size * record().stride();
    order_.ordered(stream, plan_.end(), [&] {
      if (!plan_.slots().empty()) send_infos(plan_.rows(), false, stream);
      const std::size_t first = apart_ > 0 ? 1 : 0;
      for_launches(plan_.parts().subspan(first), plan_.number(), [&](DrawParts& parts) {
        find_list(parts, false);
        const std::uint64_t row = parts[0].row;
        launch(lay_out_slots(record(), row, rows_of(parts), holding, 0, least_blocks_),
               kernels_.draw, parts, stream);
        if (!mix) return;
        launch(lay_out_slots(record(), row, rows_of(parts), holding + area, *mix,
                             least_blocks_),
               kernels_.draw_partners, parts, stream);
      });
      order_.note_draw(stream);
    });
    apart_ = plan_.rows();
    apart_uses_ = plan_.uses();
  }
  /// What was set apart is drawn, or given up.
  void forget_apart() {
    apart_ = 0;
    apart_uses_.clear();
  }

  // ---- in graphs

  /// Returns whether graphs may have draws.
  static constexpr bool has_graphs() { return true; }
  static constexpr bool can_capture(const Target&) { return true; }

  /// Puts a draw of a whole batch into the graph that is being captured.
  void capture(Target& target) const {
    const std::size_t length = full_length();
    const std::uint64_t count = options_.batch_size;
    Address plan = workspace_->get();
    for_fields([&](std::span<const CopiedField> fields) {
      launch(lay_out(record(), 0, count, target.leaves, fields, length, least_blocks_),
             kernels_.draw_planned, plan, target.stream);
    });
    transformed_.make(DrawParts{}, plan, transformed_rows(0, count, length),
                      target.leaves, target.stream);
    target.count = record().in_batches() ? length : count;
    if (infos_) infos_->copy(target.leaves, target.count, true, target.stream);
  }

  /// Makes the next batch what captured draws draw later on `stream`. That they have
  /// read it is for the caller to note.
  void send(StreamHandle stream) {
    order_.ordered(stream, plan_.end(), [&] {
      const BatchNumber number = send_infos(count(), true, stream);
      for_launches(plan_.parts(), number, [&](DrawParts& parts) {
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

 private:
  static std::size_t infos_bytes(const BufferOptions& options) {
    return DeviceInfos::device_bytes(options, WorkspaceLayout::largest_rows(options));
  }

  const RecordLayout& record() const { return staging_.layout(); }

  /// Examples of the next batch.
  std::size_t count() const { return record().in_batches() ? length_ : plan_.rows(); }
  /// The examples of a whole batch that is not a short one.
  std::size_t full_length() const {
    return record().in_batches() ? WorkspaceLayout::largest_rows(options_) : 0;
  }

  DrawPart part_of(const PassPart& part) const {
    return {.order = part.order,
            .slots = window_.slots,
            .capacity = window_.capacity,
            .first = part.window % window_.capacity,
            .row = 0,
            .offset = static_cast<std::uint32_t>(part.offset),
            .count = static_cast<std::uint32_t>(part.count),
            .partner = 0};
  }

  /// A part of passes that lists its `count` records: see Plan.
  DrawPart listed(std::uint64_t count) const {
    DrawPart part{};
    part.order = Permutation::identity(1);
    part.slots = window_.slots;
    part.count = static_cast<std::uint32_t>(count);
    return part;
  }

  DrawPart part_apart() const {
    DrawPart part{};
    part.order = Permutation::identity(static_cast<std::uint32_t>(apart_));
    part.slots = workspace_->get() + layout_.holding;
    part.capacity = part.count = static_cast<std::uint32_t>(apart_);
    if (batch_.partner_operation())
      part.partner = static_cast<std::uint32_t>(options_.batch_size);
    return part;
  }

  /// Sends the uses that the rows of a batch are, and the slots that its parts list.
  /// Returns its number with the uses.
  BatchNumber send_infos(std::size_t rows, bool captured, StreamHandle stream) {
    BatchNumber number = plan_.number();
    if (!infos_ || (rows == 0 && plan_.slots().empty())) return number;
    infos_->send(plan_.uses(), rows, plan_.slots(), captured, stream);
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
    if (record().in_batches()) return {0, length, length};
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
    order_.context().driver().launch(kernel, launch.blocks, 1u, 1u,
                                     launch.layout.threads, 1u, 1u, 0u, stream,
                                     arguments, static_cast<void**>(nullptr));
  }

  void write(DrawParts& parts, StreamHandle stream) const {
    Address plan = workspace_->get();
    void* arguments[] = {&parts, &plan};
    order_.context().driver().launch(kernels_.plan, 1u, 1u, 1u, kDrawParts, 1u, 1u, 0u,
                                     stream, arguments, static_cast<void**>(nullptr));
  }

  const Staging& staging_;
  const BatchLayout& batch_;
  const BufferOptions& options_;
  DrawOrder& order_;
  const Staging::Window window_;
  const Kernels kernels_;
  const WorkspaceLayout layout_;
  const std::unique_ptr<DeviceMemory> workspace_;
  const DeviceTransformedLeaves transformed_;
  const std::unique_ptr<DeviceInfos> infos_;  // null: draws do not know the uses of
                                              // records, and list none
  const std::uint32_t least_blocks_;          // so that every multiprocessor has work
  const std::vector<CopiedField> copied_;

  Plan plan_;               // of the batch that is next
  std::size_t length_ = 0;  // of the batch, where records are ragged

  // The first records of the batch, where they were set apart.
  std::uint64_t apart_ = 0;
  std::vector<DrawnUse> apart_uses_;
};

}  // namespace echobuf::cuda
