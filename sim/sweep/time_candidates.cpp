#include "sim/sweep/time_candidates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/settings/version_rules.hpp"
#include "sim/predict/cuda_graph.hpp"
#include "sim/sweep/candidate_list.hpp"

namespace foreshard::sim {
namespace {

class TimeList {
 public:
  explicit TimeList(const Settings& base) : base_(base), list_(base) {}

  void prefetch();
  void reshard();
  void transports();
  void reduction();
  void units();
  void ends();
  void mesh();
  void graph();
  void own_program();
  void program();
  [[nodiscard]] std::vector<TimeCandidate> take() {
    std::vector<Candidate> candidates = list_.take();
    for (std::size_t i = 0; i < candidates.size(); ++i) out_[i].candidate = std::move(candidates[i]);
    return std::move(out_);
  }

 private:
  void add(ChangeKind kind, std::string reason, std::function<void(Settings&)> change) {
    if (list_.add(std::move(reason), {}, change)) out_.push_back({{}, kind, std::move(change)});
  }

  const Settings& base_;
  CandidateList list_;
  std::vector<TimeCandidate> out_;
};

void TimeList::prefetch() {
  add(ChangeKind::prefetch, "FSDP2's own prefetch: the all-gathers of the host's run-ahead, one ahead in backward",
      [](Settings& s) {
        s.forward_prefetch.reset();
        s.backward_prefetch.reset();
        s.prefetch_lists = {};
        s.unshard_async = false;
      });
  for (const std::uint32_t depth : {1U, 2U, 3U})
    add(ChangeKind::prefetch, fmt::format("{} all-gather{} ahead in forward", depth, depth == 1 ? "" : "s"),
        [depth](Settings& s) { s.forward_prefetch = depth; });
  for (const std::uint32_t depth : {2U, 3U})
    add(ChangeKind::prefetch, fmt::format("{} all-gathers ahead in backward", depth),
        [depth](Settings& s) { s.backward_prefetch = depth; });
  for (const std::uint32_t depth : {1U, 2U, 3U})
    add(ChangeKind::prefetch,
        fmt::format("{} all-gather{} ahead in forward and backward", depth, depth == 1 ? "" : "s"),
        [depth](Settings& s) { s.forward_prefetch = s.backward_prefetch = depth; });
  for (const std::uint32_t depth : {1U, 2U})
    add(ChangeKind::prefetch, "all-gathers as async ops on the process group's own stream, explicitly prefetched",
        [depth](Settings& s) {
          s.unshard_async = true;
          s.forward_prefetch = s.backward_prefetch = depth;
        });
}

void TimeList::reshard() {
  add(ChangeKind::reshard, "parameters stay gathered after forward: backward gathers nothing", [](Settings& s) {
    s.reshard_after_forward = {Reshard::Kind::never, 0};
    s.reshard_of_unit.clear();
  });
  if (base_.nodes > 1)
    add(ChangeKind::reshard,
        "after forward parameters stay sharded within the node: backward gathers over NVLink alone", [](Settings& s) {
          s.reshard_after_forward = {Reshard::Kind::group, s.gpus};
          s.reshard_of_unit.clear();
        });
}

void TimeList::transports() {
  const std::pair<Transport, const char*> gathers[] = {
      {Transport::copy_engine, "all-gathers by copy engines: they take no SM from the kernels beside them"},
      {Transport::symmetric, "all-gathers by NCCL's kernels for symmetric memory"},
      {Transport::low_contention, "all-gathers as copy-engine pulls from symmetric memory"},
      {Transport::nccl, "all-gathers by NCCL's ordinary kernels"}};
  for (const auto& [transport, reason] : gathers)
    add(ChangeKind::all_gather, reason, [to = transport](Settings& s) {
      s.all_gather = to;
      s.all_gather_layout = AllGatherLayout::rank_major;
      s.all_gather_input = AllGatherInput::copy_in;
    });
  const std::pair<Transport, const char*> scatters[] = {
      {Transport::symmetric, "reduce-scatters by NCCL's kernels for symmetric memory"},
      {Transport::low_contention, "reduce-scatters as copy-engine pulls that one kernel sums"},
      {Transport::nccl, "reduce-scatters by NCCL's ordinary kernels"}};
  for (const auto& [transport, reason] : scatters)
    add(ChangeKind::reduce_scatter, reason, [to = transport](Settings& s) {
      s.reduce_scatter = to;
      s.reduce_scatter_input = ReduceScatterInput::chunk_cat;
    });
  if (base_.shard_ranks() > 1)
    add(ChangeKind::reduce_scatter_group,
        "reduce-scatters have a communicator of their own: they run beside all-gathers instead of behind them",
        [](Settings& s) { s.separate_reduce_scatter_group = true; });
  if (holds(RuleId::reduce_input_cap, base_.pytorch) && base_.shard_ranks() > 1)
    add(ChangeKind::reduce_scatter_inputs,
        "two reduce-scatter inputs in flight: backward does not wait for the reduction before it",
        [](Settings& s) { s.reduce_scatter_max_input_buffers = std::max(2U, s.reduce_scatter_max_input_buffers); });
}

void TimeList::reduction() {
  if (base_.reduce_dtype == DType::float32)
    add(ChangeKind::reduce_dtype, "gradients are reduced in bfloat16: half the bytes, and less exact sums",
        [](Settings& s) { s.reduce_dtype = DType::bfloat16; });
}

void TimeList::units() {
  for (const std::uint32_t blocks : {1U, 2U, 4U})
    add(ChangeKind::units,
        blocks == 1 ? std::string("each block a unit: smaller collectives, which start earlier")
                    : fmt::format("{} blocks a unit: fewer and larger collectives, fewer launches", blocks),
        [blocks](Settings& s) { s.units_per_group = blocks; });
}

void TimeList::ends() {
  add(ChangeKind::ends, "embedding and head are units of their own: smaller collectives at both ends of the step",
      [](Settings& s) { s.fully_shard_embedding_and_head = true; });
}

void TimeList::mesh() {
  if (base_.nodes > 1 && base_.replicate == 1)
    add(ChangeKind::mesh, "HSDP: shards within the node, gradients all-reduced between nodes",
        [](Settings& s) { s.replicate = s.nodes; });
}

void TimeList::graph() {
  if (base_.cuda_graph) return;
  add(ChangeKind::issue,
      "forward and backward replayed from one CUDA graph: the host's work in both is gone; the graph keeps their "
      "memory",
      [](Settings& s) {
        s.cuda_graph = CudaGraph{};
        s.post_optimizer_event = false;
      });
}

/// docs/own_program.md. Each takes what it needs of the transports.
void TimeList::own_program() {
  add(ChangeKind::all_gather, "all-gathers into the parameters themselves: no copy-out", [](Settings& s) {
    s.all_gather = Transport::low_contention;
    s.all_gather_layout = AllGatherLayout::parameter_contiguous;
  });
  if (base_.optimizer == Optimizer::adam_fused || base_.optimizer == Optimizer::sgd)
    add(ChangeKind::all_gather, "the optimizer writes what is gathered: no copy into the all-gathers", [](Settings& s) {
      s.all_gather = Transport::low_contention;
      s.all_gather_input = AllGatherInput::optimizer;
    });
  if (base_.float8 != Float8::none)
    add(ChangeKind::gathered_dtype, "weights are gathered in float8: half the bytes, and no casts of them in forward",
        [](Settings& s) {
          s.float8_all_gather = true;
          s.all_gather_input = AllGatherInput::copy_in;
        });
  add(ChangeKind::reduce_scatter, "reduce-scatters read the gradients where autograd wrote them: no copy of them",
      [](Settings& s) {
        s.reduce_scatter = Transport::low_contention;
        s.reduce_scatter_input = ReduceScatterInput::gradients;
      });
  add(ChangeKind::issue, "the optimizer steps unit by unit beside the next forward", [](Settings& s) {
    s.optimizer_overlap = OptimizerOverlap::forward;
    s.post_optimizer_event = false;
  });
}

void TimeList::program() {
  if (!base_.cuda_graph)
    add(ChangeKind::issue, "the next step's first all-gather waits for the optimizer alone",
        [](Settings& s) { s.post_optimizer_event = true; });
  if (base_.optimizer == Optimizer::adam || base_.optimizer == Optimizer::adam_single)
    add(ChangeKind::program, "the fused optimizer: a few kernels instead of one for each operation",
        [](Settings& s) { s.optimizer = Optimizer::adam_fused; });
  if (base_.checkpoint != Checkpoint::none)
    add(ChangeKind::program, "activations are kept instead of computed again",
        [](Settings& s) { s.checkpoint = Checkpoint::none; });
  if (base_.offload)
    add(ChangeKind::program, "parameters, gradients and optimizer states stay on the GPU",
        [](Settings& s) { s.offload = false; });
}

}  // namespace

std::vector<TimeCandidate> time_candidates(const Settings& base, const TimeCandidatesOf& of) {
  TimeList list(base);
  list.prefetch();
  list.reshard();
  list.transports();
  list.reduction();
  list.units();
  if (of.root_has_weights) list.ends();
  list.mesh();
  if (offers_graph(of.lowering)) list.graph();
  if (of.lowering == Lowering::foreshard && of.computes) list.own_program();
  list.program();
  return list.take();
}

}  // namespace foreshard::sim
