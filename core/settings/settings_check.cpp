#include <fmt/core.h>

#include <algorithm>

#include "core/device/transport_traits.hpp"
#include "core/settings/pytorch_version.hpp"
#include "core/settings/settings_table.hpp"
#include "core/settings/version_rules.hpp"

namespace foreshard {
namespace {

tl::unexpected<Error> contradiction(std::string what, std::string hint) {
  return fail(ErrorKind::usage, std::move(what), {}, std::move(hint));
}

/// As FSDP2's _get_post_forward_mesh_info (2.11): a group size must divide the shard ranks.
Result<void> check_reshard(const Settings& settings, const std::string& key, const Reshard& reshard) {
  if (reshard.kind != Reshard::Kind::group) return {};
  if (reshard.group_size == 0 || settings.shard_ranks() % reshard.group_size != 0)
    return contradiction(
        fmt::format("{}: {} does not divide the {} shard ranks", key, reshard.group_size, settings.shard_ranks()),
        "fully_shard wants a divisor of the shard mesh's size, true or false");
  return {};
}

Result<void> check_positive(const Settings& settings) {
  const std::pair<const char*, std::uint32_t> counted[] = {
      {"gpus", settings.gpus},
      {"nodes", settings.nodes},
      {"replicate", settings.replicate},
      {"tensor_parallel", settings.tensor_parallel},
      {"expert_parallel", settings.expert_parallel},
      {"units_per_group", settings.units_per_group},
      {"reduce_scatter_max_input_buffers", settings.reduce_scatter_max_input_buffers},
      {"accumulate", settings.accumulate},
      {"checkpoint_share", settings.checkpoint_share},
      {"batch", settings.batch.value_or(1)},
      {"seq", settings.seq.value_or(1)}};
  for (const auto& [key, value] : counted)
    if (value == 0) return contradiction(fmt::format("{} is 0", key), "it must be at least 1");
  return {};
}

/// torchtitan's ParallelDims: expert-parallel ranks are a part of the shard dimension (dp_shard_in_ep).
Result<void> check_expert_parallel(const Settings& settings) {
  if (settings.expert_parallel > 1 && settings.tensor_parallel > 1)
    return contradiction("tensor_parallel together with expert_parallel is not modelled", "leave one of the two out");
  if (settings.expert_parallel == 1 && settings.router_imbalance > 1)
    return contradiction(fmt::format("router_imbalance {} without expert_parallel: no rank has experts of its own, so "
                                     "that none gets more tokens than others",
                                     settings.router_imbalance),
                         "give --expert-parallel as well, or leave --router-imbalance out");
  if (settings.router_imbalance < 1 || settings.router_imbalance > settings.expert_parallel)
    return contradiction(fmt::format("router_imbalance {} with expert_parallel {}: it is 1 to {}",
                                     settings.router_imbalance, settings.expert_parallel, settings.expert_parallel),
                         "a rank gets all tokens of its expert-parallel group at most");
  if (settings.expert_parallel == 1) return {};
  if (settings.shard_ranks() % settings.expert_parallel != 0)
    return contradiction(fmt::format("expert_parallel {} does not divide the {} shard ranks", settings.expert_parallel,
                                     settings.shard_ranks()),
                         "it splits the mesh's shard dimension: gpus x nodes / (replicate x tensor_parallel)");
  const bool keeps_part = settings.reshard_after_forward.kind == Reshard::Kind::group ||
                          std::any_of(settings.reshard_of_unit.begin(), settings.reshard_of_unit.end(),
                                      [](const auto& unit) { return unit.second.kind == Reshard::Kind::group; });
  if (keeps_part)
    return contradiction("a number as reshard_after_forward together with expert_parallel is not modelled",
                         "use true or false: units are sharded over two meshes then");
  return {};
}

/// FSDPModule.set_reduce_scatter_max_input_buffers and what FSDPParamGroup.lazy_init refuses with it.
Result<void> check_reduce_inputs(const Settings& settings) {
  if (settings.reduce_scatter_max_input_buffers == 1) return {};
  const VersionRule& rule = version_rule(RuleId::reduce_input_cap);
  if (!holds(rule.id, settings.pytorch))
    return contradiction(fmt::format("reduce_scatter_max_input_buffers {} is a call that PyTorch {} does not have",
                                     settings.reduce_scatter_max_input_buffers, settings.pytorch),
                         fmt::format("plan with --pytorch {} or later", version_name(rule.since)));
  if (memory_of(settings.reduce_scatter) == MemoryKind::symmetric)
    return contradiction("reduce_scatter_max_input_buffers of more than 1 is refused in symmetric memory",
                         "FSDP2 keeps one symmetric buffer a group: leave it at 1, or reduce-scatter by nccl");
  return {};
}

/// What torch.cuda.graph cannot capture of a step with these settings.
Result<void> check_cuda_graph(const Settings& settings) {
  if (!settings.cuda_graph) return {};
  constexpr std::uint32_t kMaxSteps = 64;  // each is simulated
  const std::uint64_t before = std::uint64_t{settings.cuda_graph->eager_steps} + settings.cuda_graph->warm_up_steps;
  if (before > kMaxSteps || settings.cuda_graph->warm_up_steps == 0)
    return contradiction(fmt::format("cuda_graph {}: 1 to {} steps before the capture are planned",
                                     name(*settings.cuda_graph), kMaxSteps),
                         "memory no longer changes after three");
  if (settings.offload)
    return contradiction("offload and cuda_graph exclude each other",
                         "the host waits for offloaded gradients, which a capture cannot do");
  if (settings.post_optimizer_event)
    return contradiction("post_optimizer_event and cuda_graph exclude each other",
                         "a capture cannot wait for an event of the eager optimizer (cudaErrorStreamCaptureIsolation)");
  if (settings.release == Release::record_stream || settings.reduce_scatter_release == Release::record_stream)
    return contradiction("release record-stream with cuda_graph is not modelled",
                         "blocks freed in a capture come back after it: plan with --release stash");
  return {};
}

/// The mesh is replicate x shard x tensor parallel: whether no shard group has ranks of two nodes.
bool shards_within_node(const Settings& settings) {
  const std::uint32_t ranks = settings.shard_ranks() * settings.tensor_parallel;
  return ranks != 0 && settings.gpus % ranks == 0;
}

/// What the settings that only foreshard's own program has ask for and these settings have not: all of it at once.
std::string own_program_hint(const Settings& settings) {
  const bool contiguous = settings.all_gather_layout == AllGatherLayout::parameter_contiguous;
  const bool written = settings.all_gather_input == AllGatherInput::optimizer;
  const bool direct = settings.reduce_scatter_input == ReduceScatterInput::gradients;
  const bool one_pass = settings.optimizer == Optimizer::adam_fused || settings.optimizer == Optimizer::sgd;
  std::string take;
  const auto add = [&](bool wanted, bool there, std::string_view option) {
    if (wanted && !there) take += (take.empty() ? "take " : " ") + std::string(option);
  };
  add(contiguous || written, settings.all_gather == Transport::low_contention, "--all-gather low-contention");
  add(direct, outside_nccl(settings.reduce_scatter), "--reduce-scatter low-contention");
  add(written, one_pass, "--optimizer adam-fused");
  if (settings.float8 != Float8::none) {
    add(true, settings.kernels == Kernels::fused, "--kernels fused");
    add(true, settings.param_dtype == DType::bfloat16, "--param-dtype bfloat16");
  }
  return take + ", and plan with --lowering foreshard";
}

/// Whether units keep their parameters gathered over a smaller group after forward.
bool keeps_part(const Settings& settings) {
  return settings.reshard_after_forward.kind == Reshard::Kind::group ||
         std::any_of(settings.reshard_of_unit.begin(), settings.reshard_of_unit.end(),
                     [](const auto& unit) { return unit.second.kind == Reshard::Kind::group; });
}

/// What an all-gather whose input the optimizer writes asks for beside what all of them do (check_copies_left_out).
Result<void> check_all_gather_input(const Settings& settings) {
  if (settings.all_gather_input == AllGatherInput::copy_in) return {};
  if (settings.all_gather != Transport::low_contention)
    return contradiction(
        fmt::format("all_gather_input optimizer with all_gather {} is not built", name(settings.all_gather)),
        own_program_hint(settings));
  if (settings.optimizer != Optimizer::adam_fused && settings.optimizer != Optimizer::sgd)
    return contradiction(fmt::format("all_gather_input optimizer with optimizer {}: it goes over the parameters in "
                                     "several passes",
                                     name(settings.optimizer)),
                         own_program_hint(settings));
  return {};
}

/// What foreshard's collectives without a copy ask for.
Result<void> check_copies_left_out(const Settings& settings) {
  const bool contiguous = settings.all_gather_layout == AllGatherLayout::parameter_contiguous;
  const bool direct = settings.reduce_scatter_input == ReduceScatterInput::gradients;
  const bool written = settings.all_gather_input == AllGatherInput::optimizer;
  if (!contiguous && !direct && !written) return {};
  const char* key = contiguous ? "all_gather_layout parameter-contiguous"
                    : direct   ? "reduce_scatter_input gradients"
                               : "all_gather_input optimizer";
  if (contiguous && settings.all_gather != Transport::low_contention)
    return contradiction(fmt::format("{} with all_gather {}: only foreshard's own all-gather places each part", key,
                                     name(settings.all_gather)),
                         own_program_hint(settings));
  if (direct && !outside_nccl(settings.reduce_scatter))
    return contradiction(fmt::format("reduce_scatter_input gradients with reduce_scatter {}: NCCL reads one buffer",
                                     name(settings.reduce_scatter)),
                         own_program_hint(settings));
  if (!shards_within_node(settings) || settings.shard_ranks() > kMaxLowContentionRanks)
    return contradiction(fmt::format("{} over {} shard ranks", key, settings.shard_ranks()),
                         fmt::format("it serves shard groups within a node, of up to {} ranks: replicate over the "
                                     "nodes (--replicate)",
                                     kMaxLowContentionRanks));
  if (direct && settings.accumulate > 1)
    return contradiction("reduce_scatter_input gradients with accumulate is not built",
                         "sums of microbatches are in buffers of their own: leave it at chunk-cat");
  if (settings.offload || settings.cuda_graph)
    return contradiction(fmt::format("{} with {} is not built", key, settings.offload ? "offload" : "cuda_graph"),
                         "leave one of the two out");
  if (settings.release == Release::record_stream || settings.reduce_scatter_release == Release::record_stream)
    return contradiction(fmt::format("{} with release record-stream is not built", key), "leave release out");
  if (contiguous && keeps_part(settings))
    return contradiction("all_gather_layout parameter-contiguous with a number as reshard_after_forward",
                         "parameters that a smaller group keeps are gathered rank-major: use true or false");
  return {};
}

Result<void> check_optimizer_overlap(const Settings& settings) {
  if (settings.optimizer_overlap == OptimizerOverlap::none) return {};
  const std::string key = fmt::format("optimizer_overlap {}", name(settings.optimizer_overlap));
  if (settings.optimizer_overlap == OptimizerOverlap::backward && settings.accumulate > 1 &&
      settings.accumulate_with_sync)
    return contradiction(key + " with accumulate_with_sync would step after every microbatch",
                         "leave out --accumulate-with-sync: gradients are reduced in the last microbatch then");
  if (settings.offload)
    return contradiction(key + " with offload is not built", "offloaded shards are stepped by the CPU");
  if (settings.cuda_graph)
    return contradiction(key + " with cuda_graph is not built",
                         "a capture cannot wait for the eager optimizer's events");
  if (settings.post_optimizer_event)
    return contradiction(key + " and post_optimizer_event exclude each other",
                         "each unit's all-gather waits for that unit's step already");
  return {};
}

/// What gradients that are kept and zeroed ask for.
Result<void> check_set_to_none(const Settings& settings) {
  if (settings.set_to_none) return {};
  if (settings.offload)
    return contradiction(
        "set_to_none false with offload is not modelled",
        "gradients on the host are added to and zeroed by the CPU there: leave out --no-set-to-none, or --offload");
  if (settings.optimizer_overlap != OptimizerOverlap::none)
    return contradiction(
        fmt::format("set_to_none false with optimizer_overlap {} is not built", name(settings.optimizer_overlap)),
        "the optimizer's own stream reads gradients that are freed behind it: leave out --no-set-to-none, or "
        "--optimizer-overlap");
  return {};
}

/// What all-gathers of float8 weights ask for beside that.
Result<void> check_float8_all_gather(const Settings& settings) {
  if (!settings.float8_all_gather) return {};
  if (settings.float8 == Float8::none)
    return contradiction("float8_all_gather without float8: bfloat16 GEMMs do not take float8 weights",
                         "take --float8 tensorwise too");
  if (settings.shard_ranks() == 1)
    return contradiction("float8_all_gather over one shard rank, which gathers nothing", "leave it out");
  const char* with = settings.all_gather_input == AllGatherInput::optimizer ? "all_gather_input optimizer"
                     : settings.cuda_graph                                  ? "cuda_graph"
                     : settings.offload                                     ? "offload"
                     : keeps_part(settings)                                 ? "a number as reshard_after_forward"
                                                                            : nullptr;
  if (with == nullptr) return {};
  return contradiction(fmt::format("float8_all_gather with {} is not built", with), "leave one of the two out");
}

/// What the fp8 GEMMs of foreshard's own blocks ask for.
Result<void> check_float8(const Settings& settings) {
  if (settings.float8 == Float8::none) return {};
  const std::string key = fmt::format("float8 {}", name(settings.float8));
  if (settings.kernels != Kernels::fused)
    return contradiction(key + " with kernels eager: PyTorch's blocks have no fp8 GEMMs of foreshard's",
                         own_program_hint(settings));
  if (settings.param_dtype && *settings.param_dtype != DType::bfloat16)
    return contradiction(
        fmt::format("{} with param_dtype {}: what is cast to float8 is bfloat16", key, name(*settings.param_dtype)),
        own_program_hint(settings));
  return {};
}

}  // namespace

Result<void> check(const Settings& settings) {
  if (auto positive = check_positive(settings); !positive) return positive;
  constexpr std::uint32_t kAllBlocks = 100;
  if (settings.checkpoint_share > kAllBlocks)
    return contradiction(fmt::format("checkpoint_share {} is more than 100 percent", settings.checkpoint_share),
                         "it is the share of the blocks that selective-layer checkpoints");
  constexpr std::uint32_t kMaxMicrobatches = 1024;  // each is simulated: keeps time and memory of a plan in bounds
  if (settings.accumulate > kMaxMicrobatches)
    return contradiction(fmt::format("accumulate {} is more than {}", settings.accumulate, kMaxMicrobatches),
                         "plan a smaller number: memory no longer changes after 2, and time grows in proportion");
  constexpr std::uint64_t kMaxRanks = 1u << 20;
  if (std::uint64_t{settings.gpus} * settings.nodes > kMaxRanks)
    return contradiction(fmt::format("{} x {} GPUs are more than {}", settings.nodes, settings.gpus, kMaxRanks),
                         "check gpus (a node) and nodes");
  if (settings.world() % settings.replicate != 0)
    return contradiction(fmt::format("replicate {} does not divide the {} GPUs", settings.replicate, settings.world()),
                         "an HSDP mesh is replicate x shard");
  if (auto ok = check_expert_parallel(settings); !ok) return ok;
  if (std::uint64_t{settings.replicate} * settings.tensor_parallel > settings.world() ||
      settings.world() % (settings.replicate * settings.tensor_parallel) != 0)
    return contradiction(fmt::format("replicate {} x tensor_parallel {} does not divide the {} GPUs",
                                     settings.replicate, settings.tensor_parallel, settings.world()),
                         "the mesh is replicate x shard x tensor parallel");
  if (auto ok = check_reshard(settings, "reshard_after_forward", settings.reshard_after_forward); !ok) return ok;
  for (const auto& [unit, reshard] : settings.reshard_of_unit)
    if (auto ok = check_reshard(settings, "reshard_of_unit " + unit, reshard); !ok) return ok;
  Settings scratch;
  if (auto ok = set_setting(scratch, "pytorch", settings.pytorch); !ok) return ok;
  if (auto ok = check_cuda_graph(settings); !ok) return ok;
  if (auto ok = check_optimizer_overlap(settings); !ok) return ok;
  if (auto ok = check_copies_left_out(settings); !ok) return ok;
  if (auto ok = check_all_gather_input(settings); !ok) return ok;
  if (auto ok = check_float8(settings); !ok) return ok;
  if (auto ok = check_set_to_none(settings); !ok) return ok;
  if (auto ok = check_float8_all_gather(settings); !ok) return ok;
  return check_reduce_inputs(settings);
}

std::vector<std::string> warnings(const Settings& settings) {
  std::vector<std::string> out;
  // NCCL 2.28.9, enqueue.cc: the copy-engine path is taken on one node only, and never for a reduction.
  if (settings.all_gather == Transport::copy_engine && settings.nodes > 1)
    out.emplace_back("all_gather copy-engine needs one node in NCCL 2.28: across nodes NCCL falls back to its ring");
  if (settings.reduce_scatter == Transport::copy_engine)
    out.emplace_back("reduce_scatter copy-engine does not exist in NCCL: copy engines cannot add");
  if (!shards_within_node(settings) &&
      (settings.all_gather == Transport::low_contention || settings.reduce_scatter == Transport::low_contention ||
       settings.reduce_scatter == Transport::pull_reduce))
    out.emplace_back("low-contention collectives need every rank in one NVLink domain");
  if (settings.separate_reduce_scatter_group)
    out.emplace_back(settings.shard_ranks() == 1
                         ? "separate_reduce_scatter_group changes nothing: one rank reduces nothing"
                         : "separate_reduce_scatter_group is a call of PyTorch 2.13; from 2.9 on "
                           "set_custom_reduce_scatter with a process group of its own does it. The second NCCL "
                           "communicator's buffers are not in the plan");
  if (settings.shard_ranks() == 1 && (settings.all_gather_layout != AllGatherLayout::rank_major ||
                                      settings.all_gather_input != AllGatherInput::copy_in ||
                                      settings.reduce_scatter_input != ReduceScatterInput::chunk_cat))
    out.emplace_back(
        "one shard rank gathers and reduces nothing: all_gather_layout, all_gather_input and reduce_scatter_input "
        "change nothing");
  if (settings.cuda_graph && settings.alloc_conf.find("expandable_segments:True") != std::string::npos)
    out.emplace_back("expandable segments and NCCL in a CUDA graph need NCCL_GRAPH_REGISTER=0 (pytorch#158029)");
  if (settings.pytorch != kCheckedPyTorch)
    out.push_back(
        fsdp_rules_recorded(settings.pytorch)
            ? fmt::format("FSDP2's rules of PyTorch {} were checked against recordings over {}'s allocator; the "
                          "allocator's own were read but not checked",
                          settings.pytorch, kCheckedPyTorch)
            : fmt::format("the rules of PyTorch {} were read but not checked against recordings; {}'s were",
                          settings.pytorch, kCheckedPyTorch));
  if (settings.reshard_after_forward.kind == Reshard::Kind::group) {
    if (settings.reshard_after_forward.group_size == 1)
      out.emplace_back("reshard_after_forward 1 means false to fully_shard, which advises against writing it so");
    else if (settings.reshard_after_forward.group_size == settings.shard_ranks())
      out.emplace_back("reshard_after_forward equal to the shard ranks means true to fully_shard");
  }
  if (settings.offload && settings.optimizer == Optimizer::adam_fused)
    out.emplace_back("the optimizer runs on the CPU under offload, where its time is not modelled");
  if (settings.checkpoint_share != Settings().checkpoint_share && settings.checkpoint != Checkpoint::selective_layer)
    out.emplace_back("checkpoint_share changes nothing without checkpoint selective-layer");
  if (settings.accumulate_with_sync && settings.accumulate == 1)
    out.emplace_back("accumulate_with_sync changes nothing with one microbatch a step");
  return out;
}

}  // namespace foreshard
