#include "core/models/generate.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/fsdp/unit_plan.hpp"
#include "core/models/embedding_and_head.hpp"
#include "core/models/expert_parallel.hpp"
#include "core/models/family.hpp"
#include "core/models/fsdp_section_costs.hpp"
#include "core/models/fuse.hpp"
#include "core/models/limits.hpp"
#include "core/models/step_writer.hpp"
#include "core/settings/version_rules.hpp"
#include "core/workload/time_estimates.hpp"

namespace foreshard {
namespace {

using model::BatchSize;
using model::Family;

/// A rank's part of the model under tensor parallelism: ColwiseParallel and RowwiseParallel of the blocks' linear
/// layers, everything else replicated.
Result<ModelConfig> tensor_parallel_part(const ModelConfig& model, const Settings& settings) {
  const std::uint32_t parts = settings.tensor_parallel;
  if (parts == 1) return model;
  const auto refuse = [](std::string what, std::string hint) {
    return fail(ErrorKind::usage, std::move(what), "--tensor-parallel", std::move(hint));
  };
  const std::string record = "import a recorded step of that training and plan from it";
  if (model.family != ModelFamily::llama)
    return refuse(fmt::format("{}: tensor parallelism of this family is not supported; llama-* have it", model.name),
                  record);
  if (model.compiled || model.lora.rank > 0 || settings.kernels == Kernels::fused)
    return refuse("tensor parallelism is not supported together with --compile, --lora or --kernels fused", record);
  if (model.heads % parts != 0 || model.kv_heads % parts != 0 || model.ffn % parts != 0)
    return refuse(fmt::format("tensor_parallel {} does not divide {}'s {} heads, {} key heads and ffn of {}", parts,
                              model.name, model.heads, model.kv_heads, model.ffn),
                  "use a common divisor of them: uneven parts are not supported");
  ModelConfig local = model;
  local.heads /= parts;
  local.kv_heads /= parts;
  local.ffn /= parts;
  return local;
}

/// A rank's experts under expert parallelism: everything else is whole.
Result<ModelConfig> expert_parallel_part(const ModelConfig& model, const Settings& settings) {
  const std::uint32_t parts = settings.expert_parallel;
  if (parts == 1) return model;
  const auto refuse = [](std::string what, std::string hint) {
    return fail(ErrorKind::usage, std::move(what), "--expert-parallel", std::move(hint));
  };
  if (model.experts == 0)
    return refuse(fmt::format("{} has no experts to split", model.name),
                  "mixtral, qwen3_moe and deepseek_v3 configurations have them");
  if (model.experts % parts != 0)
    return refuse(fmt::format("expert_parallel {} does not divide {}'s {} experts", parts, model.name, model.experts),
                  "use a divisor: uneven parts are not supported");
  if (settings.units_per_group > 1)
    return refuse("several blocks a unit together with expert_parallel are not supported",
                  "experts are a unit inside each block's: leave units_per_group at 1");
  ModelConfig local_model = model;
  local_model.expert_ranks = parts;
  return local_model;
}

/// What of the model one rank has.
Result<ModelConfig> local_part(const ModelConfig& model, const Settings& settings) {
  auto part = tensor_parallel_part(model, settings);
  FORESHARD_TRY(part);
  return expert_parallel_part(*part, settings);
}

std::unique_ptr<Family> make_family(const ModelConfig& config) {
  switch (config.family) {
    case ModelFamily::mlp:
      return model::make_mlp(config);
    case ModelFamily::llama:
      return model::make_llama(config);
    case ModelFamily::torch_transformer:
      return model::make_torch_transformer(config);
    case ModelFamily::mpt:
      return model::make_mpt(config);
    case ModelFamily::hf_llama:
    case ModelFamily::hf_qwen2:
    case ModelFamily::hf_qwen3:
    case ModelFamily::hf_mixtral:
    case ModelFamily::hf_qwen3_moe:
    case ModelFamily::hf_deepseek_v3:
      return model::make_hf_decoder(config);
    case ModelFamily::hf_gpt2:
      return model::make_hf_gpt2(config);
    case ModelFamily::states_only:
      return model::make_states_only(config);
  }
  return nullptr;  // no enumerator: the compiler names one that has no case
}

/// `wanted` blocks to a unit, named as fully_shard names a list.
std::vector<Unit> grouped(const std::vector<Unit>& blocks, std::uint32_t wanted) {
  std::vector<Unit> units{blocks.front()};
  for (std::size_t i = 1; i < blocks.size(); ++i) {
    if ((i - 1) % wanted == 0) {
      units.push_back(blocks[i]);
      continue;
    }
    units.back().name += ", " + blocks[i].name;
    units.back().parameters.insert(units.back().parameters.end(), blocks[i].parameters.begin(),
                                   blocks[i].parameters.end());
  }
  return units;
}

/// What the allocator held when the reference runs began to record: one small segment with one block in use (the
/// barrier's tensor of init_process_group).
SnapshotSegment initial_segment() {
  constexpr Address kBase = model::kFirstSegment;
  constexpr Bytes kBlock = 512;
  SnapshotSegment segment;
  segment.address = kBase;
  segment.total_size = 2 * kMiB;
  segment.small_pool = true;
  SnapshotBlock live;
  live.address = kBase;
  live.size = kBlock;
  live.requested_size = 1;
  live.state = BlockState::live;
  SnapshotBlock rest;
  rest.address = kBase + kBlock;
  rest.size = segment.total_size - kBlock;
  rest.state = BlockState::inactive;
  segment.blocks = {live, rest};
  return segment;
}

/// foreshard's own kernels are written for the plain families, those of float8 for one of them.
Result<void> check_kernels(const ModelConfig& model, const Settings& settings, const TargetGpu& gpu) {
  if (settings.float8 != Float8::none && model.family != ModelFamily::llama)
    return fail(ErrorKind::usage, fmt::format("{}: float8 is not built for this family", model.name), "--float8",
                "llama-* have it");
  if (settings.float8 != Float8::none && gpu.compute_capability < TargetGpu::kFloat8)
    return fail(ErrorKind::usage,
                fmt::format("a GPU of compute capability {}.{} multiplies no float8", gpu.compute_capability / 10,
                            gpu.compute_capability % 10),
                "--float8", "H100, H200 and later do: --machine");
  if (settings.kernels == Kernels::eager) return {};
  const bool plain = model.family == ModelFamily::mlp || model.family == ModelFamily::llama ||
                     model.family == ModelFamily::torch_transformer;
  if (!plain)
    return fail(ErrorKind::usage, fmt::format("{}: there are no fused kernels for this family", model.name),
                "--kernels", "mlp, llama-* and torch-transformer have them");
  if (model.compiled)
    return fail(ErrorKind::usage, "torch.compile and foreshard's own kernels exclude each other", "--kernels",
                "leave out --compile or --kernels");
  if (!model.frozen.empty() || model.lora.rank > 0)
    return fail(ErrorKind::usage, "foreshard's own kernels are written for models of which everything is trained",
                "--kernels", "plan frozen parameters and LoRA with --kernels eager");
  return {};
}

/// torchao's Float8Linear in a Llama's blocks: their matrices. What else a block has are norms.
void gather_in_float8(std::vector<Unit>& units) {
  for (std::size_t i = 1; i < units.size(); ++i)
    for (Parameter& p : units[i].parameters) p.gathered_in_float8 = p.shape.size() == 2;
}

std::string cpu_optimizer_estimate(const CpuOptimizer& cpu) {
  if (cpu.threads == 0)
    return fmt::format("{}: its time is not in the machine profile, and counts as none", kCpuOptimizerEstimate);
  return fmt::format(
      "{}, at the speed of the profile's host with {} threads a rank (OMP_NUM_THREADS); with one, which torchrun sets "
      "by "
      "itself, it takes {:.1f} times as long",
      kCpuOptimizerEstimate, cpu.threads, cpu.one_thread);
}

bool has_grouped_products(const Workload& workload) {
  return std::any_of(workload.steps.begin(), workload.steps.end(), [](const Program& step) {
    return std::any_of(step.ops.begin(), step.ops.end(),
                       [](const Op& op) { return op.kernel.math.ragged != RaggedExtent::none; });
  });
}

/// Trainings of mixtral and qwen3_moe with balanced routing were measured, without checkpointing, by PyTorch 2.11,
/// whose units have one mesh (docs/experts.md).
std::vector<std::string_view> unheld_expert_parallelism(const ModelConfig& model, const Settings& settings) {
  std::vector<std::string_view> out;
  if (model.family == ModelFamily::hf_deepseek_v3) out.emplace_back("of deepseek_v3");
  if (settings.checkpoint != Checkpoint::none) out.emplace_back("with checkpointing");
  if (settings.router_imbalance != 1) out.emplace_back("with router_imbalance");
  if (holds(RuleId::groups_per_mesh, settings.pytorch))
    out.emplace_back("as groups of a unit (PyTorch 2.12 and later)");
  return out;
}

/// What no recording has been held against.
void add_estimates(const ModelConfig& model, const Settings& settings, const HostCosts& host, const TargetGpu& gpu,
                   Workload& workload) {
  if (!gpu.prefers_cudnn_attention() && model.family != ModelFamily::mlp && model.family != ModelFamily::states_only)
    workload.estimates.push_back(
        "flash attention follows PyTorch's source and was not compared with a recording: its memory is an estimate");
  const DType compute = settings.param_dtype.value_or(model.dtype);
  const bool grouped = model.family == ModelFamily::llama && model.kv_heads != model.heads;
  if (grouped && itemsize(compute) != 2 && settings.kernels != Kernels::fused)
    workload.estimates.push_back(
        "grouped-query attention in float32 takes PyTorch's math fallback, which follows its source and was not "
        "compared with a recording: its memory is an estimate");
  if (model.family == ModelFamily::hf_deepseek_v3 && !model.latent.interleaves)
    workload.estimates.emplace_back(
        "rope_interleave false follows transformers' source and was not compared with a recording: its memory is an "
        "estimate");
  if (model.family == ModelFamily::mpt)
    workload.estimates.push_back("MPT follows llm-foundry's source and was not compared with a recording");
  if (!gpu.has_sm90_kernels() && has_grouped_products(workload))
    workload.estimates.push_back(
        fmt::format("grouped products of experts are planned as sm90's kernel of torch._grouped_mm, and a GPU of "
                    "compute capability "
                    "{}.{} runs another: their time and their memory are estimates",
                    gpu.compute_capability / 10, gpu.compute_capability % 10));
  if (settings.checkpoint == Checkpoint::selective_layer)
    workload.estimates.push_back(
        "selective checkpointing by layer was not compared with a recording: its memory is an estimate");
  if (settings.tensor_parallel > 1 && settings.checkpoint != Checkpoint::none)
    workload.estimates.push_back(
        "checkpointing under tensor parallelism was not compared with a recording: its memory is an estimate");
  if (settings.expert_parallel > 1)
    for (const std::string_view what : unheld_expert_parallelism(model, settings))
      workload.estimates.push_back(fmt::format(
          "expert parallelism {} follows its source and was not compared with a recording: its memory is an estimate",
          what));
  if (model.experts > 0 && settings.router_imbalance == 1)
    workload.estimates.emplace_back(
        "experts are timed as if routing were nearly balanced, as that of a router that was not trained: skewed "
        "routing "
        "takes longer");
  if (settings.offload) workload.estimates.push_back(cpu_optimizer_estimate(host.cpu_optimizer));
}

/// A model at settings, checked, with all of its workload but the steps and what follows from them.
struct Begun {
  std::unique_ptr<Family> family;
  BatchSize size;
  model::TrainedModel trained;
  std::vector<TensorId> from_setup;
  bool keep_kernels = false;  ///< of the steps
  Workload workload;
};

void add_facts(const Settings& settings, const HostCosts& host, const TargetGpu& gpu, Workload& workload) {
  workload.sm_count = gpu.sm_count;
  workload.torch = settings.pytorch;
  workload.host_program = host.program;
  workload.has_timing = true;
  workload.shards_known = true;
  workload.optimizer_known = true;
  workload.initial_segments = {initial_segment()};
  if (settings.tensor_parallel > 1) workload.process_groups = {{"mesh_tp", settings.tensor_parallel, 1}};
  if (settings.expert_parallel > 1) workload.process_groups = {{"mesh_ep", settings.expert_parallel, 1}};
}

Result<Begun> begin(const ModelConfig& model, const Settings& settings, const HostCosts& host, const TargetGpu& gpu,
                    bool keep_kernels) {
  ModelConfig sized = model;  // torch-transformer without positions of its own: max_seq_len is the sequence's
  if (model.family == ModelFamily::torch_transformer && model.positions == 0)
    sized.positions = settings.seq.value_or(model.default_seq);
  const auto local = local_part(sized, settings);
  FORESHARD_TRY(local);
  Begun begun;
  begun.family = make_family(*local);
  if (!begun.family) return fail(ErrorKind::usage, fmt::format("{}: no generator for this family", model.name));
  Workload& workload = begun.workload;
  workload.name = model.name;
  workload.settings = settings;
  workload.settings.batch = settings.batch.value_or(model.default_batch);
  workload.settings.seq = settings.seq.value_or(model.default_seq);
  if (model.layers == 0) return fail(ErrorKind::usage, fmt::format("{}: a model needs at least one layer", model.name));
  if (*workload.settings.batch == 0 || *workload.settings.seq == 0)
    return fail(ErrorKind::usage, "batch and seq must be at least 1");
  if (model.family == ModelFamily::mlp && *workload.settings.seq != model.default_seq)
    return fail(ErrorKind::usage, "the inputs of an mlp have no sequence: seq is 1", {}, "leave out --seq");
  if (settings.units_per_group == 0) return fail(ErrorKind::usage, "units_per_group must be at least 1");
  begun.size = {*workload.settings.batch, *workload.settings.seq};
  FORESHARD_TRY(model::check_limits(sized, begun.size.batch, begun.size.seq));
  FORESHARD_TRY(model::check_microbatches(sized, settings.accumulate));
  FORESHARD_TRY(begun.family->check(settings, begun.size));
  FORESHARD_TRY(check_kernels(model, settings, gpu));
  auto trained = model::trained_model(model, begun.family->units(), begun.family->parameters_order());
  FORESHARD_TRY(trained);
  begun.trained = std::move(*trained);
  if (settings.float8_all_gather) gather_in_float8(begun.trained.units);
  begun.trained.units = grouped(begun.trained.units, settings.units_per_group);
  if (settings.expert_parallel > 1)
    model::split_experts(begun.trained, holds(RuleId::groups_per_mesh, settings.pytorch));
  workload.units = begun.trained.units;
  workload.parameters_order = begun.trained.order;
  add_facts(settings, host, gpu, workload);
  model::SetupWriter setup(workload.settings, workload.units, workload.parameters_order, keep_kernels);
  begun.family->setup(setup, begun.size);
  workload.setup = setup.finish();
  begun.from_setup = setup.handed_over();
  begun.keep_kernels = keep_kernels && !model.compiled;
  return begun;
}

ModelSteps steps_of(const Begun& begun, const HostCosts& host, const TargetGpu& gpu) {
  const model::StepWriter writer(*begun.family, begun.workload.settings, begun.trained, begun.size, host,
                                 begun.from_setup);
  ModelSteps steps;
  for (const bool first : {true, false})
    steps.programs.push_back(writer.write(steps.labels, first, gpu, begun.keep_kernels));
  steps.from_setup = begun.from_setup;
  return steps;
}

}  // namespace

Result<ModelSteps> generate_steps(const ModelConfig& model, const Settings& settings, const HostCosts& host,
                                  const TargetGpu& gpu, bool keep_kernels) {
  const auto begun = begin(model, settings, host, gpu, keep_kernels);
  FORESHARD_TRY(begun);
  return steps_of(*begun, host, gpu);
}

Result<Workload> generate(const ModelConfig& model, const Settings& settings, const HostCosts& host,
                          const TargetGpu& gpu, bool keep_kernels, const ModelSteps* known) {
  auto begun = begin(model, settings, host, gpu, keep_kernels);
  FORESHARD_TRY(begun);
  // Only what a kernel computes names a tensor of setup, whose number follows what setup makes before it.
  const bool are_its = known != nullptr && (!begun->keep_kernels || known->from_setup == begun->from_setup);
  ModelSteps steps = are_its ? *known : steps_of(*begun, host, gpu);
  Workload workload = std::move(begun->workload);
  workload.labels = std::move(steps.labels);
  workload.steps = std::move(steps.programs);
  if (!settings.fully_shard_embedding_and_head) {
    auto sections = model::section_costs(workload, host);
    FORESHARD_TRY(sections);
    workload.sections = std::move(*sections);
  }
  if (model.compiled && !begun->family->compiles(settings)) {
    model::compile_blocks(workload, host);
    workload.estimates.push_back("torch.compile's kernels and memory are derived from the eager model");
  }
  if (settings.fully_shard_embedding_and_head) FORESHARD_TRY(model::wrap_embedding_and_head(workload, host));
  add_estimates(model, settings, host, gpu, workload);
  return workload;
}

}  // namespace foreshard
