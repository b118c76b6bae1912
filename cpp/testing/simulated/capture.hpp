// Streams that are captured, and the graphs that come of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "clock.hpp"
#include "echobuf/cuda/api.hpp"

namespace echobuf::simulated {

/// The name and the action of an operation; stateless: a graph runs it many times.
struct Work {
  std::string name;
  std::function<void(const Actor&)> run;  // may be empty
};

/// In the order in which they were captured, which a launch keeps.
using Graph = std::vector<Work>;

/// By handle.
struct Graphs {
  std::map<void*, Graph> captured;
  std::map<void*, Graph> executable;
  std::set<void*> destroyed;
};

struct Capture {
  std::uint64_t id = 0;    // that no other has
  std::size_t origin = 0;  // the stream in which it was begun
  std::size_t thread = 0;
  int mode = 0;
  bool ended = false;
  bool invalid = false;
  Graph nodes;
  VectorClock all;  // how many nodes each stream has
};

/// A stream's, or an event's, part in a capture: null where it has none.
struct CaptureState {
  std::shared_ptr<Capture> capture;
  VectorClock after;  // which nodes of each stream are before what comes next

  bool active() const { return capture && !capture->ended; }
};

/// The captures that are going on in a process.
class Captures {
 public:
  void add(std::shared_ptr<Capture> capture) {
    capture->id = ++begun_;
    all_.push_back(std::move(capture));
  }
  void remove(const std::shared_ptr<Capture>& capture);

  /// True if the calling thread may make a call that a capture would not see. If not,
  /// the captures that forbid it become invalid.
  bool allow_unsafe_call();

 private:
  std::vector<std::shared_ptr<Capture>> all_;
  std::uint64_t begun_ = 0;
};

/// CUstreamCaptureMode of the calling thread.
int& thread_capture_mode();

}  // namespace echobuf::simulated
