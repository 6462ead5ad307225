#include "gpu/collectives/call_trace.hpp"

#include <vector>

#include "gpu/collectives/driver.hpp"

namespace foreshard::gpu {
namespace {

Result<void> read_kernel(const Driver& api, CUgraphNode node, CallTrace& trace) {
  CUDA_KERNEL_NODE_PARAMS params{};
  FORESHARD_TRY(check(api.graph_kernel_node_params(node, &params), "cuGraphKernelNodeGetParams"));
  const char* name = nullptr;
  if (params.func != nullptr)
    FORESHARD_TRY(check(api.func_get_name(&name, params.func), "cuFuncGetName"));
  else
    FORESHARD_TRY(check(api.kernel_get_name(&name, params.kern), "cuKernelGetName"));
  trace.kernels.emplace_back(name == nullptr ? "?" : name);
  return {};
}

Result<void> read_graph(CUgraph graph, CallTrace& trace) {
  const Driver& api = **driver();
  std::size_t count = 0;
  FORESHARD_TRY(check(api.graph_nodes(graph, nullptr, &count), "cuGraphGetNodes"));
  std::vector<CUgraphNode> nodes(count);
  FORESHARD_TRY(check(api.graph_nodes(graph, nodes.data(), &count), "cuGraphGetNodes"));
  for (const CUgraphNode node : nodes) {
    CUgraphNodeType type{};
    FORESHARD_TRY(check(api.graph_node_type(node, &type), "cuGraphNodeGetType"));
    if (type == CU_GRAPH_NODE_TYPE_KERNEL) FORESHARD_TRY(read_kernel(api, node, trace));
    if (type == CU_GRAPH_NODE_TYPE_MEMCPY) ++trace.copies;
    if (type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) ++trace.flag_batches;
  }
  return {};
}

Result<void> capture(const std::function<Result<void>(cudaStream_t)>& call, cudaStream_t stream, CallTrace& trace) {
  FORESHARD_TRY(check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture"));
  const Result<void> called = call(stream);
  cudaGraph_t graph = nullptr;
  const Result<void> ended = check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  Result<void> read = called ? ended : called;
  if (read) read = read_graph(graph, trace);
  if (graph != nullptr) FORESHARD_TRY(check(cudaGraphDestroy(graph), "cudaGraphDestroy"));
  return read;
}

}  // namespace

CallTrace trace_call(const std::function<Result<void>(cudaStream_t)>& call) {
  CallTrace trace;
  cudaStream_t stream = nullptr;
  Result<void> done = check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate");
  if (done) done = capture(call, stream, trace);
  if (stream != nullptr) (void)cudaStreamDestroy(stream);
  if (!done) {
    trace.failed = done.error().what;
    (void)cudaGetLastError();  // a failed capture must not fail the next check
  }
  return trace;
}

}  // namespace foreshard::gpu
