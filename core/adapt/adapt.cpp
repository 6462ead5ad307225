#include "core/adapt/adapt.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/adapt/program_kernels.hpp"
#include "core/adapt/shard_kernels.hpp"
#include "core/settings/settings_names.hpp"

namespace foreshard {
namespace {

Result<void> refuse(std::string what, std::string hint) {
  return fail(ErrorKind::usage, std::move(what), {}, std::move(hint));
}

/// Settings that change what the user's program itself asks for, which one capture cannot tell.
Result<void> check_derivable(const Workload& workload, const Settings& wanted) {
  const Settings& have = workload.settings;
  if (wanted.batch != have.batch || wanted.seq != have.seq) {
    const auto is_wanted = [&](const RecordedStep& step) {
      return step.batch == wanted.batch && step.seq == wanted.seq;
    };
    if (std::any_of(workload.recorded.begin(), workload.recorded.end(), is_wanted))
      return refuse("its recorded steps differ, and a plan is of all of them: it cannot be of those of one size",
                    "leave --batch and --seq out: the answer has each size, and each step is in --json's steps");
    return refuse("another batch or sequence length changes the recorded program itself",
                  "record a step at that size, or plan from a model");
  }
  if (wanted.tensor_parallel != have.tensor_parallel)
    return refuse(fmt::format("tensor_parallel {} instead of the recorded {} changes what each rank computes",
                              wanted.tensor_parallel, have.tensor_parallel),
                  "record a step at that degree; gpus, nodes and replicate may change around it");
  if (wanted.expert_parallel != have.expert_parallel || wanted.router_imbalance != have.router_imbalance)
    return refuse(
        fmt::format("expert_parallel {} with router_imbalance {} instead of the recorded {} with {} changes "
                    "what each rank computes",
                    wanted.expert_parallel, wanted.router_imbalance, have.expert_parallel, have.router_imbalance),
        "record a step at that degree, or plan from a model; gpus, nodes and replicate may change around it");
  if (wanted.param_dtype != have.param_dtype)
    return refuse("another param_dtype changes the recorded program itself",
                  "record a step with that MixedPrecisionPolicy, or plan from a model");
  if (wanted.set_to_none != have.set_to_none)
    return refuse(have.set_to_none ? "set_to_none false: the recording does not show what zeroing its gradients costs"
                                   : "set_to_none true: the kernels that zero gradients are a part of the recording",
                  fmt::format("record a step with optimizer.zero_grad(set_to_none={}), or plan from a model",
                              wanted.set_to_none ? "True" : "False"));
  if (wanted.kernels != have.kernels)
    return refuse("a capture's kernels are those that PyTorch ran",
                  fmt::format("plan from a model with --kernels {}", name(wanted.kernels)));
  if (wanted.float8 != have.float8)
    return refuse("float8 changes the program's kernels, and here are those that it was recorded or planned with alone",
                  fmt::format("plan the model (its preset or config.json) with --float8 {}", name(wanted.float8)));
  if (wanted.float8_all_gather != have.float8_all_gather)
    return refuse(
        "float8_all_gather changes the program's kernels (who casts weights, and when), and here are those that it was "
        "planned with alone",
        fmt::format("plan the model (its preset or config.json) {} --float8-all-gather",
                    wanted.float8_all_gather ? "with" : "without"));
  if (wanted.shard_ranks() != have.shard_ranks() && !workload.shards_known)
    return refuse(fmt::format("the shard group cannot change from {} to {} ranks: the recorded allocations of the "
                              "parameter shards were not recognised",
                              have.shard_ranks(), wanted.shard_ranks()),
                  "record from process start on, before the model is built");
  if (wanted.optimizer != have.optimizer && !workload.optimizer_known)
    return refuse("the recorded optimizer was not recognised, so it cannot be exchanged",
                  "give the optimizer of the recorded run in the about file, or keep it");
  if (wanted.shard_ranks() != have.shard_ranks() && !workload.optimizer_known)
    return refuse("the shard group cannot change: the recorded optimizer was not recognised",
                  "give the optimizer of the recorded run in the about file");
  if (wanted.fully_shard_embedding_and_head != have.fully_shard_embedding_and_head)
    return have.fully_shard_embedding_and_head
               ? refuse("embedding and head are units of their own here", "plan from the model")
               : refuse(
                     "the recording gathers embedding and head with the root: plan the model (its preset or "
                     "config.json), or record it so wrapped",
                     {});
  if (have.offload && !wanted.offload)
    return refuse("what was recorded or planned with CPU offload does not show the shards on the device",
                  "record a step without offload, or plan the model (its preset or config.json)");
  return {};
}

void add_time_caveats(const Settings& have, const Settings& wanted, AdaptedWorkload& out) {
  if (wanted.offload != have.offload)
    out.time_unknown.emplace_back(
        "the copies of offloaded shards and the optimizer's time on the CPU are not in the recording; a plan of the "
        "model has both");
  out.warnings.insert(out.warnings.end(), out.time_unknown.begin(), out.time_unknown.end());
  const auto small = [](const Settings& s) { return s.reshard_after_forward.kind == Reshard::Kind::group; };
  if (small(wanted) && !small(have))
    out.warnings.push_back("the clones of an int reshard_after_forward are priced by bytes, not recorded");
}

/// Whether unreduced gradients stay in .grad between microbatches (fsdp2 semantics 3.4).
bool gradients_stay(const Settings& s) {
  return !s.accumulate_with_sync && (!s.reduce_dtype || s.reduce_dtype == s.param_dtype);
}

/// Whether a program's kernels add up the gradients of microbatches where the wanted settings have autograd do it: a
/// rewritten one has only FSDP2 add them.
bool adds_gradients_alike(const Settings& have, const Settings& wanted) {
  if (wanted.accumulate != have.accumulate) return !gradients_stay(wanted);
  return gradients_stay(have) == gradients_stay(wanted);
}

/// How much longer this rank's shards are.
double shard_scale(const Settings& have, const Settings& wanted) {
  return wanted.shard_ranks() == 0
             ? 1
             : static_cast<double>(have.shard_ranks()) / static_cast<double>(wanted.shard_ranks());
}

bool checkpoints_otherwise(const Settings& have, const Settings& wanted) {
  if (wanted.checkpoint != have.checkpoint) return true;
  return wanted.checkpoint == Checkpoint::selective_layer && wanted.checkpoint_share != have.checkpoint_share;
}

}  // namespace

bool rewrites(const Workload& workload, const Settings& wanted) {
  const Settings& have = workload.settings;
  return wanted.accumulate != have.accumulate || (wanted.accumulate > 1 && !adds_gradients_alike(have, wanted)) ||
         wanted.units_per_group != have.units_per_group || checkpoints_otherwise(have, wanted) ||
         (shard_scale(have, wanted) != 1 && has_shard_kernels(workload));
}

Result<AdaptedWorkload> leave_as_is(const Workload& workload, const Settings& wanted) {
  FORESHARD_TRY(check_derivable(workload, wanted));
  AdaptedWorkload out;
  if (workload.has_timing) add_time_caveats(workload.settings, wanted, out);
  return out;
}

Result<AdaptedWorkload> adapt(const Workload& workload, const Settings& wanted) {
  if (!rewrites(workload, wanted)) {
    auto out = leave_as_is(workload, wanted);
    if (out) out->workload = workload;
    return out;
  }
  FORESHARD_TRY(check_derivable(workload, wanted));
  AdaptedWorkload out{workload, {}};
  const Settings& have = workload.settings;
  if (wanted.accumulate != have.accumulate) {
    FORESHARD_TRY(set_microbatches(out.workload, have.accumulate, wanted.accumulate));
    if (wanted.accumulate > 1 && (!wanted.reduce_dtype || wanted.reduce_dtype == wanted.param_dtype))
      out.warnings.push_back(
          "accumulation without a reduce dtype of its own: where autograd adds gradients is estimated");
  }
  if (wanted.accumulate > 1 && !adds_gradients_alike(have, wanted)) drop_kernels(out.workload);
  if (wanted.units_per_group != have.units_per_group) {
    if (have.units_per_group != 1)
      return fail(ErrorKind::usage, fmt::format("units of {} blocks cannot be taken apart", have.units_per_group), {},
                  "record a step with one block a unit; from that any units_per_group can be planned");
    FORESHARD_TRY(merge_units(out.workload, wanted.units_per_group));
  }
  const bool selective =
      wanted.checkpoint == Checkpoint::selective_op || wanted.checkpoint == Checkpoint::selective_layer;
  if (checkpoints_otherwise(have, wanted)) {
    if (selective)
      return fail(ErrorKind::usage, "selective checkpointing cannot be put into a capture", {},
                  "record a step with it, choose --checkpoint blocks, or plan from a model");
    if (have.checkpoint != Checkpoint::none)
      return fail(ErrorKind::usage, "checkpointing cannot be taken out of a capture", {},
                  "record a step without checkpointing; from that both can be planned");
    FORESHARD_TRY(checkpoint_blocks(out.workload));
    out.warnings.push_back(
        "checkpointing was put into the capture: allocations and requested peaks are exact, some "
        "frees move, so allocated, active and reserved are estimates");
  }
  if (const double scale = shard_scale(have, wanted); scale != 1) scale_shard_kernels(out.workload, scale);
  if (workload.has_timing) add_time_caveats(have, wanted, out);
  return out;
}

}  // namespace foreshard
