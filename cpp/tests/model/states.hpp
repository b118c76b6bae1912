// The states seen so far, each known by a hash of its bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace echobuf::model {

/// 128 bits: two states of a search are not taken for one.
struct Key {
  std::uint64_t a = 0, b = 0;
};

Key hash(const std::vector<std::byte>& bytes);

/// Open addressing, from keys to numbers in the order of insertion.
class States {
 public:
  States() { places_.resize(std::size_t{1} << 16); }

  /// The number of a state, and whether it is new.
  std::pair<std::uint32_t, bool> insert(const Key& key) {
    if (count_ * 2 > places_.size()) grow();
    Place& place = find(key);
    if (place.key.a) return {place.number, false};
    place = {key, count_};
    return {count_++, true};
  }
  std::uint32_t count() const { return count_; }

 private:
  struct Place {
    Key key;
    std::uint32_t number = 0;
  };
  Place& find(const Key& key) {
    for (std::size_t i = key.b & (places_.size() - 1);;
         i = (i + 1) & (places_.size() - 1))
      if (!places_[i].key.a || (places_[i].key.a == key.a && places_[i].key.b == key.b))
        return places_[i];
  }
  void grow() {
    std::vector<Place> old(places_.size() * 2);
    old.swap(places_);
    for (const Place& place : old)
      if (place.key.a) find(place.key) = place;
  }
  std::vector<Place> places_;
  std::uint32_t count_ = 0;
};

}  // namespace echobuf::model
