#include "core/settings/python_lines.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <tuple>

#include "core/base/shell_word.hpp"
#include "core/device/transport_traits.hpp"
#include "core/settings/carried_out.hpp"
#include "core/settings/python_classes.hpp"
#include "core/settings/settings_table.hpp"
#include "core/settings/version_rules.hpp"

namespace foreshard {
namespace {

/// A Python string literal.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out.push_back('\\');
    c == '\n' ? out.append("\\n") : out.append(1, c);
  }
  return out + '"';
}

std::string reshard_value(const Reshard& reshard) {
  if (reshard.kind == Reshard::Kind::group) return std::to_string(reshard.group_size);
  return reshard.kind == Reshard::Kind::always ? "True" : "False";
}

/// The statement takes something out of the module `torch`, beyond what a "from torch… import" brings.
bool uses_torch(std::string_view line) {
  const std::size_t first = line.find_first_not_of(' ');
  if (first == std::string_view::npos) return false;
  const std::string_view statement = line.substr(first);
  if (statement.starts_with("#") || statement.starts_with("from ") || statement.starts_with("import ")) return false;
  const std::size_t at = statement.find("torch.");
  return at != std::string_view::npos &&
         (at == 0 || std::string_view(" ([=").find(statement[at - 1]) != std::string_view::npos);
}

class Writer {
 public:
  Writer(const Settings& settings, const ModuleNames& modules) : s_(settings), modules_(modules) {}

  PythonLines write() {
    imports();
    communicator();
    mesh();
    policies();
    blocks();
    wrap();
    prefetch();
    collectives();
    reduce_scatter_group();
    optimizer();
    step();
    import_torch();
    if (!s_.alloc_conf.empty()) code_.environment.push_back("PYTORCH_ALLOC_CONF=" + s_.alloc_conf);
    if (s_.cuda_graph && s_.alloc_conf.find("expandable_segments:True") != std::string::npos)
      code_.environment.emplace_back("NCCL_GRAPH_REGISTER=0");  // pytorch#158029
    return std::move(code_);
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    code_.lines.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  [[nodiscard]] bool mixed() const { return s_.param_dtype || s_.reduce_dtype; }
  [[nodiscard]] bool symmetric() const { return in_nccl_windows(s_.all_gather) || in_nccl_windows(s_.reduce_scatter); }
  [[nodiscard]] bool registered() const {
    return s_.all_gather == Transport::nccl_registered || s_.reduce_scatter == Transport::nccl_registered;
  }
  /// Some call goes to every FSDPModule: those of 2.11 set their own module's unit, not its children's.
  [[nodiscard]] bool on_modules() const { return symmetric() || registered() || separate_by_class(); }
  [[nodiscard]] bool names_fsdp_module() const { return on_modules() || (explicit_lists() && !only_blocks()); }
  [[nodiscard]] bool explicit_lists() const { return s_.forward_prefetch || s_.backward_prefetch; }

  void imports() {
    if (s_.reduce_scatter == Transport::pull_reduce)
      line("# reduce-scatter pull-reduce: foreshard's own kernel; no call of PyTorch sets it");
    if (s_.kernels == Kernels::fused) line("# kernels: foreshard's own; no call of PyTorch sets them");
    std::string names = "fully_shard";
    if (mixed()) names = "MixedPrecisionPolicy, " + names;
    if (names_fsdp_module()) names = "FSDPModule, " + names;
    if (s_.offload) names = "CPUOffloadPolicy, " + names;
    if (s_.all_gather == Transport::copy_engine) line("import os");
    behind_import_os_ = code_.lines.size();
    line("from torch.distributed.device_mesh import init_device_mesh");
    line("from torch.distributed.fsdp import {}", names);
    if (s_.checkpoint != Checkpoint::none)
      line("from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper");
    if (s_.checkpoint == Checkpoint::selective_op)
      line("from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts");
  }

  /// Where a line that was written needs it.
  void import_torch() {
    if (std::none_of(code_.lines.begin(), code_.lines.end(), uses_torch)) return;
    code_.lines.insert(code_.lines.begin() + static_cast<std::ptrdiff_t>(behind_import_os_), "import torch");
  }

  /// The zero-CTA policy is the communicator's: it is given when the process group is made.
  void communicator() {
    if (s_.all_gather != Transport::copy_engine) return;
    line("device = torch.device(\"cuda\", int(os.environ[\"LOCAL_RANK\"]))");
    line("torch.cuda.set_device(device)");
    line("options = torch.distributed.ProcessGroupNCCL.Options()");
    line("options.config.cta_policy = torch.distributed.ProcessGroupNCCL.NCCL_CTA_POLICY_ZERO");
    line("torch.distributed.init_process_group(\"nccl\", pg_options=options, device_id=device)");
  }

  void mesh() {
    if (s_.tensor_parallel > 1 && s_.replicate > 1)
      line(
          "mesh = init_device_mesh(\"cuda\", ({}, {}, {}), mesh_dim_names=(\"replicate\", \"shard\", \"tp\"))"
          "[\"replicate\", \"shard\"]",
          s_.replicate, s_.shard_ranks(), s_.tensor_parallel);
    else if (s_.tensor_parallel > 1)
      line("mesh = init_device_mesh(\"cuda\", ({}, {}), mesh_dim_names=(\"shard\", \"tp\"))[\"shard\"]",
           s_.shard_ranks(), s_.tensor_parallel);
    else if (s_.replicate > 1)
      line("mesh = init_device_mesh(\"cuda\", ({}, {}), mesh_dim_names=(\"replicate\", \"shard\"))", s_.replicate,
           s_.shard_ranks());
    else
      line("mesh = init_device_mesh(\"cuda\", ({},))", s_.world());
    experts_mesh();
  }

  /// As torchtitan lays out its meshes: expert-parallel ranks are neighbours.
  void experts_mesh() {
    if (s_.expert_parallel == 1) return;
    const std::uint32_t rest = s_.shard_ranks() / s_.expert_parallel;
    if (s_.replicate > 1)
      line("experts_mesh = init_device_mesh(\"cuda\", ({}, {}, {}), mesh_dim_names=(\"replicate\", \"efsdp\", \"ep\"))",
           s_.replicate, rest, s_.expert_parallel);
    else
      line("experts_mesh = init_device_mesh(\"cuda\", ({}, {}), mesh_dim_names=(\"efsdp\", \"ep\"))", rest,
           s_.expert_parallel);
    line("# the experts' parameters and tokens: torchtitan's ExpertParallel over experts_mesh[\"ep\"]");
    experts_of();
    if (experts_are_groups()) experts_placement();
  }

  /// A dense block has none; checkpoint_wrapper() puts its own name before theirs.
  void experts_of() {
    line("def experts_of(block):  # none of a dense block");
    line("    return [module for name, module in block.named_modules() if name.endswith({})]",
         quoted(modules_.experts));
  }

  [[nodiscard]] bool experts_are_groups() const {
    return s_.expert_parallel > 1 && holds(RuleId::groups_per_mesh, s_.pytorch);
  }

  void experts_placement() {
    const bool hybrid = s_.replicate > 1;
    const char* info = hybrid ? "HSDPMeshInfo" : "FSDPMeshInfo";
    const char* dimensions = hybrid ? "replicate_mesh_dim=0, shard_mesh_dim=1" : "shard_mesh_dim=0";
    line("from torch.distributed.fsdp._fully_shard._fsdp_common import {}, ShardPlacementResult", info);
    line("from torch.distributed.tensor import Shard");
    line("whole = {}(mesh, {})", info, dimensions);
    line("rest = {}(experts_mesh[{}\"efsdp\"], {})", info, hybrid ? "\"replicate\", " : "", dimensions);
    line("def placement(block):");
    line("    experts = {{p for module in experts_of(block) for p in module.parameters()}}");
    line("    return lambda p: ShardPlacementResult(Shard(0), rest if p in experts else whole)");
  }

  /// torchtitan's apply_fsdp: gradients are those of all ranks' tokens.
  void wrap_experts(const std::string& reshard) {
    if (s_.expert_parallel == 1 || experts_are_groups()) return;
    std::string arguments = arguments_;
    arguments.replace(
        0, std::string("mesh=mesh").size(),
        s_.replicate > 1 ? "mesh=experts_mesh[\"replicate\", \"efsdp\"]" : "mesh=experts_mesh[\"efsdp\"]");
    line("    for experts in experts_of(block):");
    line("        fully_shard(experts, {}, reshard_after_forward={})", arguments, looked_up("names[experts]", reshard));
    line("        experts.set_gradient_divide_factor({}.0)", s_.world());
  }

  void policies() {
    arguments_ = "mesh=mesh";
    if (mixed()) {
      std::string fields;
      if (s_.param_dtype) fields = fmt::format("param_dtype=torch.{}", name(*s_.param_dtype));
      if (s_.reduce_dtype)
        fields += fmt::format("{}reduce_dtype=torch.{}", fields.empty() ? "" : ", ", name(*s_.reduce_dtype));
      line("policy = MixedPrecisionPolicy({})", fields);
      arguments_ += ", mp_policy=policy";
    }
    if (s_.offload) arguments_ += ", offload_policy=CPUOffloadPolicy(pin_memory=True)";
  }

  /// torchtitan's selective policy: attention and every second GEMM are kept.
  void selective_contexts() {
    line("def contexts():");
    line("    products = {{False: 0, True: 0}}");
    line("    def policy(ctx, op, *args, **kwargs):");
    line("        products[ctx.is_recompute] += op == torch.ops.aten.mm.default");
    line("        odd = op == torch.ops.aten.mm.default and products[ctx.is_recompute] % 2 == 1");
    line("        keep = odd or \"scaled_dot_product\" in str(op)");
    line("        return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.PREFER_RECOMPUTE");
    line("    return create_selective_checkpoint_contexts(policy)");
  }

  void checkpointing() {
    if (s_.checkpoint == Checkpoint::none) return;
    const bool by_op = s_.checkpoint == Checkpoint::selective_op;
    if (by_op) selective_contexts();
    const bool several = modules_.blocks.size() > 1;
    if (several) line("for layers in ({}):", fmt::join(modules_.blocks, ", "));
    std::string indent = several ? "    " : "";
    const std::string list = several ? "layers" : modules_.blocks.front();
    line("{}for i, block in enumerate({}):", indent, list);
    indent += "    ";
    if (s_.checkpoint == Checkpoint::selective_layer) {
      line("{1}if ((i + 1) * {0} + 50) // 100 > (i * {0} + 50) // 100:", s_.checkpoint_share, indent);
      indent += "    ";
    }
    line("{}{}[i] = checkpoint_wrapper(block{})", indent, list, by_op ? ", context_fn=contexts" : "");
  }

  void blocks() {
    checkpointing();
    if (modules_.blocks.size() > 1)
      line("blocks = [*{}]", fmt::join(modules_.blocks, ", *"));
    else
      line("blocks = list({})", modules_.blocks.front());
    if (s_.units_per_group > 1) {
      line("groups = [blocks[i:i + {0}] for i in range(0, len(blocks), {0})]", s_.units_per_group);
      line("blocks = [group[0] for group in groups]");
    }
  }

  /// Looks a unit of these modules up among those that differ, where some do.
  [[nodiscard]] std::string looked_up(const std::string& names, const std::string& otherwise) const {
    return differing_ ? fmt::format("reshard.get({}, {})", names, otherwise) : otherwise;
  }

  /// The units that differ, by name, as one dictionary; the others look themselves up. The root's value.
  std::string reshard_dictionary(std::string root) {
    std::string entries;
    for (const auto& [unit, of_unit] : s_.reshard_of_unit) {
      if (unit.empty())
        root = reshard_value(of_unit);
      else
        entries += fmt::format("{}{}: {}", entries.empty() ? "" : ", ", quoted(unit), reshard_value(of_unit));
    }
    differing_ = !entries.empty();
    if (differing_) {
      line("reshard = {{{}}}", entries);
      line("names = {{module: name for name, module in model.named_modules()}}");
    }
    return root;
  }

  /// ("wq",), ("w1", "w3"): a tuple of the units' tuples of modules.
  static std::string tuples(const std::vector<std::vector<std::string>>& units) {
    std::string out;
    for (const std::vector<std::string>& unit : units) {
      std::string members;
      for (const std::string& member : unit) members += (members.empty() ? "" : ", ") + quoted(member);
      out += fmt::format("{}({}{})", out.empty() ? "" : ", ", members, unit.size() == 1 ? "," : "");
    }
    return out;
  }

  /// Units that are no blocks: the modules of each of `units` below `parent`.
  void wrap_modules(const std::vector<std::vector<std::string>>& units, const std::string& indent, const char* parent,
                    const std::string& reshard) {
    if (units.empty()) return;
    line("{}for unit in ({},):", indent, tuples(units));
    line("{}    modules = [{}.get_submodule(name) for name in unit]", indent, parent);
    line("{}    fully_shard(modules, {}, reshard_after_forward={})", indent, arguments_,
         looked_up("\", \".join(names[module] for module in modules)", reshard));
  }

  void wrap() {
    const std::string reshard = reshard_value(s_.reshard_after_forward);
    const std::string root = reshard_dictionary(reshard);
    const bool groups = s_.units_per_group > 1;
    wrap_modules(modules_.outside, "", "model", reshard);
    wrap_modules(modules_.units, "", "model", reshard);
    if (modules_.units.empty()) wrap_blocks(groups, reshard);
    if (s_.fully_shard_embedding_and_head) {
      const std::string head = fmt::format("[{}]", fmt::join(modules_.head, ", "));
      line("fully_shard({}, {}, reshard_after_forward={})", head, arguments_,
           looked_up(fmt::format("\", \".join(names[module] for module in {})", head), "False"));
    }
    if (s_.root_reshard_explicit || s_.reshard_of_unit.contains(""))
      line("fully_shard(model, {}, reshard_after_forward={})", arguments_, root);
    else
      line("fully_shard(model, {})", arguments_);
  }

  void wrap_blocks(bool groups, const std::string& reshard) {
    if (s_.fully_shard_embedding_and_head)
      line("fully_shard({}, {}, reshard_after_forward={})", modules_.embedding, arguments_,
           looked_up(fmt::format("names[{}]", modules_.embedding), reshard));
    line("for {}:", groups ? "group in groups" : "block in blocks");
    wrap_experts(reshard);
    wrap_modules(modules_.inside, "    ", "block", reshard);
    if (!modules_.wraps_blocks) return;
    const char* placed = experts_are_groups() ? ", shard_placement_fn=placement(block)" : "";
    line("    fully_shard({}, {}, reshard_after_forward={}{})", groups ? "group" : "block", arguments_,
         looked_up(groups ? "\", \".join(names[block] for block in group)" : "names[block]", reshard), placed);
    if (experts_are_groups()) line("    block.set_gradient_divide_factor({}.0)", s_.world());
  }

  [[nodiscard]] bool only_blocks() const {
    return modules_.inside.empty() && modules_.outside.empty() && modules_.units.empty();
  }

  void prefetch() {
    if (explicit_lists()) {
      if (!only_blocks())  // in the order of the modules, a unit of several once
        line(
            "blocks = list({{m._get_fsdp_state(): m for m in model.modules() "
            "if isinstance(m, FSDPModule) and m is not model}}.values())");
      else if (s_.fully_shard_embedding_and_head)
        line("blocks = [{}, *blocks, {}]", modules_.embedding, modules_.head.front());
      line("for i, block in enumerate(blocks):");
      if (s_.forward_prefetch)
        line("    block.set_modules_to_forward_prefetch({})",
             with_experts(fmt::format("blocks[i + 1:i + {}]", *s_.forward_prefetch + 1)));
      if (s_.backward_prefetch)
        line("    block.set_modules_to_backward_prefetch({})",
             with_experts(fmt::format("blocks[max(0, i - {}):i][::-1]", *s_.backward_prefetch)));
    }
    list("forward", s_.prefetch_lists.forward);
    list("backward", s_.prefetch_lists.backward);
    if (s_.unshard_async) line("model._set_unshard_async_op(True)");
  }

  /// Of each of these blocks its experts behind it, where they are a unit.
  [[nodiscard]] std::string with_experts(std::string these) const {
    if (s_.expert_parallel == 1 || experts_are_groups()) return these;
    return fmt::format("[m for b in {} for m in (b, *experts_of(b))]", these);
  }

  void list(const char* pass, const std::map<std::string, std::vector<std::string>>& lists) {
    const auto module = [](const std::string& unit) {  // a unit of several modules goes by its first one
      return unit.empty() ? std::string("model")
                          : fmt::format("model.get_submodule({})", quoted(unit.substr(0, unit.find(", "))));
    };
    for (const auto& [unit, units] : lists) {
      std::string members;
      for (const std::string& member : units) members += (members.empty() ? "" : ", ") + module(member);
      line("{}.set_modules_to_{}_prefetch([{}])", module(unit), pass, members);
    }
  }

  /// The process group that units are sharded over.
  [[nodiscard]] const char* shard_group() const {
    return s_.replicate > 1 ? "mesh.get_group(\"shard\")" : "mesh.get_group()";
  }

  /// PyTorch 2.12's set_symm_mem_for_comm() moves both collectives (_fully_shard.py, FSDPModule); before it, and for
  /// one of them alone, a custom class does.
  [[nodiscard]] bool symmetric_by_call() const {
    return in_nccl_windows(s_.all_gather) && in_nccl_windows(s_.reduce_scatter) &&
           holds(RuleId::symmetric_memory_call, s_.pytorch);
  }
  [[nodiscard]] bool custom_gather() const { return in_nccl_windows(s_.all_gather) && !symmetric_by_call(); }

  [[nodiscard]] bool custom_scatter() const { return in_nccl_windows(s_.reduce_scatter) && !symmetric_by_call(); }
  [[nodiscard]] bool separate_by_class() const {
    return s_.separate_reduce_scatter_group && !holds(RuleId::separate_reduce_group, s_.pytorch);
  }

  void text(std::string_view lines) {
    for (; !lines.empty(); lines.remove_prefix(std::min(lines.size(), lines.find('\n') + 1)))
      code_.lines.emplace_back(lines.substr(0, lines.find('\n')));
    code_.lines.emplace_back();
  }

  void custom_classes() {
    if (custom_gather()) {
      text(kSymmetricAllGather);
      line("gather = SymmetricAllGather({})", shard_group());
    }
    if (custom_scatter()) {
      text(kSymmetricReduceScatter);
      line("scatter = SymmetricReduceScatter({})", shard_group());
    } else if (separate_by_class()) {
      text(kSeparateReduceScatter);
      line("scatter = SeparateReduceScatter({})", shard_group());
    }
  }

  void collectives() {
    custom_classes();
    if (on_modules()) {
      line("for module in model.modules():");
      line("    if isinstance(module, FSDPModule):");
    }
    if (registered()) line("        module.set_allocate_memory_from_process_group_for_comm(True)");
    if (symmetric_by_call()) line("        module.set_symm_mem_for_comm()");
    if (custom_gather()) line("        module.set_custom_all_gather(gather)");
    if (custom_scatter() || separate_by_class()) line("        module.set_custom_reduce_scatter(scatter)");
    // torch/distributed/fsdp/_fully_shard/_fully_shard.py, FSDPModule: ReduceOp.SUM, scaled apart from it.
    if (sums_only(s_.reduce_scatter)) line("        module.set_force_sum_reduction_for_comms(True)");
    if (s_.all_gather == Transport::low_contention || s_.reduce_scatter == Transport::low_contention)
      line(
          "# low-contention: set_custom_all_gather / set_custom_reduce_scatter with a class that calls "
          "torch.ops.symm_mem._low_contention_*");
    if (s_.release == Release::record_stream || s_.reduce_scatter_release == Release::record_stream)
      line(
          "# record-stream: PyTorch 2.8 and later keep references instead and have no switch for it; a custom "
          "collective that calls Tensor.record_stream does it");
    if (s_.gather_alloc == GatherAlloc::compute)
      line(
          "# gather-alloc compute: set_custom_all_gather with a class whose allocate() runs on the compute stream "
          "(pytorch#147168)");
  }

  void reduce_scatter_group() {
    if (s_.reduce_scatter_max_input_buffers > 1)
      line("model.set_reduce_scatter_max_input_buffers({})  # PyTorch 2.13", s_.reduce_scatter_max_input_buffers);
    if (!s_.separate_reduce_scatter_group) return;
    if (holds(RuleId::separate_reduce_group, s_.pytorch))
      line("model.set_separate_reduce_scatter_group(True)");
    else if (custom_scatter())
      line("# separate reduce-scatter group beside symmetric memory: PyTorch 2.13");
  }

  void optimizer() {
    switch (s_.optimizer) {
      case Optimizer::adam:
        return;
      case Optimizer::adam_fused:
        return line(
            "optimizer = torch.optim.AdamW(model.parameters(), fused=True)  # or Adam; its other arguments stay");
      case Optimizer::adam_single:
        return line(
            "optimizer = torch.optim.AdamW(model.parameters(), foreach=False)  # or Adam; its other arguments stay");
      case Optimizer::sgd:
        return line("optimizer = torch.optim.SGD(model.parameters())  # with a learning rate of its own");
    }
  }

  void step() {
    if (s_.accumulate > 1) {
      line("for microbatch in range({}):", s_.accumulate);
      if (!s_.accumulate_with_sync) line("    model.set_requires_gradient_sync(microbatch == {})", s_.accumulate - 1);
      line("    loss(model, batch[microbatch]).backward()");
    }
    for (const std::string& own : of_own_program(s_))
      line("# {}: foreshard run's own program, which PyTorch has no call for", own);
    if (s_.post_optimizer_event) {
      line("optimizer.step()");
      line("model.set_post_optim_event(torch.cuda.current_stream().record_event())  # in every step");
    }
    if (s_.cuda_graph)
      graph();
    else if (!s_.set_to_none)
      line("optimizer.zero_grad(set_to_none=False)  # in every step");
  }

  /// PyTorch's documentation, "Whole-network capture"; the error mode lets NCCL's watchdog thread call CUDA meanwhile.
  void graph() {
    const CudaGraph& graph = *s_.cuda_graph;
    if (graph.eager_steps > 0) line("# after {} eager steps:", graph.eager_steps);
    line("stream = torch.cuda.Stream()");
    line("stream.wait_stream(torch.cuda.current_stream())");
    line("# batch: tensors that stay; forward_backward: the step's own forward and backward");
    line("with torch.cuda.stream(stream):");
    line("    for _ in range({}):", graph.warm_up_steps);
    line("        forward_backward(model, batch)");
    line("        optimizer.step()");
    line("        optimizer.zero_grad({})", s_.set_to_none ? "" : "set_to_none=False");
    line("torch.cuda.current_stream().wait_stream(stream)");
    line("graph = torch.cuda.CUDAGraph()");
    line("with torch.cuda.graph(graph, stream=stream, capture_error_mode=\"thread_local\"):");
    line("    forward_backward(model, batch)");
    line("# in every step: batch.copy_(next_batch), {}",
         s_.set_to_none ? "graph.replay(), optimizer.step(), without zero_grad()"
                        : "optimizer.zero_grad(set_to_none=False), graph.replay(), optimizer.step()");
  }

  const Settings& s_;
  const ModuleNames& modules_;
  std::string arguments_;
  std::size_t behind_import_os_ = 0;  // line
  bool differing_ = false;            // some units' reshard_after_forward is their own
  PythonLines code_;
};

}  // namespace

PythonLines python_lines(const Settings& settings, const ModuleNames& modules) {
  return Writer(settings, modules).write();
}

std::string PythonLines::text() const {
  std::string out;
  for (const std::string& variable : environment) {
    const std::size_t value = variable.find('=') + 1;
    out += "# environment: " + variable.substr(0, value) + shell_word(variable.substr(value)) + '\n';
  }
  for (const std::string& code : lines) out += code + '\n';
  return out;
}

}  // namespace foreshard
