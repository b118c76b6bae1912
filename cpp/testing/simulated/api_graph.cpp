// The driver's calls that capture streams and launch graphs.
#include <map>
#include <memory>
#include <utility>

#include "graphs.hpp"
#include "library.hpp"

namespace echobuf::simulated {

namespace {

template <class Table>
auto& look_up(const char* symbol, World& world, Table& table, void* handle) {
  const auto found = table.find(handle);
  if (found != table.end()) return found->second;
  if (world.graphs.destroyed.count(handle) > 0)
    world.reports.add("destroyed handle: " + std::string(symbol) +
                      " on a graph that was destroyed");
  throw Failure{cuda::kErrorInvalidValue};
}

template <class Table>
void destroy(const char* symbol, World& world, Table& table, void* handle) {
  look_up(symbol, world, table, handle);
  table.erase(handle);
  world.graphs.destroyed.insert(handle);
}

}  // namespace

cuda::Result cuStreamBeginCapture_v2(cuda::StreamHandle handle, int mode) {
  return call("cuStreamBeginCapture_v2", [&](World& world, Lock&) {
    require(mode >= kCaptureGlobal && mode <= cuda::kCaptureRelaxed);
    world.begin_capture(world.stream("cuStreamBeginCapture", handle), mode);
  });
}

cuda::Result cuStreamEndCapture(cuda::StreamHandle handle, GraphHandle* graph) {
  return call("cuStreamEndCapture", [&](World& world, Lock&) {
    require(graph);
    *graph = nullptr;
    Graph captured = world.end_capture(world.stream("cuStreamEndCapture", handle));
    *graph = new_handle();
    world.graphs.captured.emplace(*graph, std::move(captured));
  });
}

cuda::Result cuGraphInstantiateWithFlags(GraphExecHandle* executable, GraphHandle graph,
                                         unsigned long long flags) {
  return call("cuGraphInstantiateWithFlags", [&](World& world, Lock&) {
    require(executable);
    require(flags <= 1);  // CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH
    world.current();
    Graph& nodes = look_up("cuGraphInstantiate", world, world.graphs.captured, graph);
    *executable = new_handle();
    world.graphs.executable.emplace(*executable, nodes);
  });
}

cuda::Result cuGraphLaunch(GraphExecHandle executable, cuda::StreamHandle handle) {
  return call("cuGraphLaunch", [&](World& world, Lock& lock) {
    StreamState& stream = world.stream("cuGraphLaunch", handle);
    world.await_room(lock, stream);
    const Graph& nodes =
        look_up("cuGraphLaunch", world, world.graphs.executable, executable);
    for (const Work& node : nodes) world.enqueue(stream, node);
  });
}

cuda::Result cuGraphExecDestroy(GraphExecHandle executable) {
  return call("cuGraphExecDestroy", [&](World& world, Lock&) {
    destroy("cuGraphExecDestroy", world, world.graphs.executable, executable);
  });
}

cuda::Result cuGraphDestroy(GraphHandle graph) {
  return call("cuGraphDestroy", [&](World& world, Lock&) {
    destroy("cuGraphDestroy", world, world.graphs.captured, graph);
  });
}

}  // namespace echobuf::simulated
