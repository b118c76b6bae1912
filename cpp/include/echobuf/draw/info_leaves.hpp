// The leaves of a batch that say which draws it is made of, in host memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "echobuf/draw/batch_layout.hpp"
#include "echobuf/draw/part.hpp"
#include "echobuf/leaf_options.hpp"
#include "echobuf/store/versions.hpp"

namespace echobuf {

class InfoLeaves {
 public:
  /// `versions` must outlive it; null: all are 0.
  InfoLeaves(const BatchLayout& batch, const Versions* versions) : versions_(versions) {
    for (std::size_t i = 0; i < batch.leaves(); ++i)
      if (batch.all()[i].info != InfoLeaf::kNone)
        infos_.push_back({i, batch.all()[i].info});
  }

  bool none() const { return infos_.empty(); }

  /// Writes rows `row` ... `row` + count - 1, of draws of `part`: the places of their
  /// records in the window, and their echoes.
  void write(const PassPart& part, const std::uint32_t* places,
             const std::uint32_t* echoes, std::size_t count, std::byte* const* leaves,
             std::uint64_t row) const {
    for (const Info& info : infos_) {
      std::byte* const leaf = leaves[info.leaf];
      switch (info.what) {
        case InfoLeaf::kIndex: {
          auto* const to = at<std::int64_t>(leaf, row);
          const auto record = static_cast<std::int64_t>(part.record);
          for (std::size_t i = 0; i < count; ++i) to[i] = record + places[i];
          break;
        }
        case InfoLeaf::kEcho:
          std::memcpy(at<std::uint32_t>(leaf, row), echoes,
                      count * sizeof(std::uint32_t));
          break;
        case InfoLeaf::kVersion: {
          auto* const to = at<std::int64_t>(leaf, row);
          if (versions_ && versions_->any())
            versions_->copy(part.window, places, count, to);
          else
            std::fill_n(to, count, std::int64_t{0});
          break;
        }
        case InfoLeaf::kNone:
          break;
      }
    }
  }

  /// Writes the same of one draw to the first `rows` rows.
  void write_all(const PassPart& part, std::uint32_t place, std::uint32_t echo,
                 std::size_t rows, std::byte* const* leaves) const {
    for (std::size_t i = 0; i < rows; ++i) write(part, &place, &echo, 1, leaves, i);
  }

 private:
  struct Info {
    std::size_t leaf;
    InfoLeaf what;
  };

  template <class T>
  static T* at(std::byte* leaf, std::uint64_t row) {
    return reinterpret_cast<T*>(leaf) + row;
  }

  std::vector<Info> infos_;
  const Versions* versions_;
};

}  // namespace echobuf
