#include "core/fsdp/unit_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "core/base/check.hpp"
#include "core/base/suggest.hpp"
#include "core/device/transport_choice.hpp"
#include "core/fsdp/fsdp_rules.hpp"
#include "core/fsdp/prefetch.hpp"
#include "core/settings/version_rules.hpp"
#include "core/shard/copy_metadata.hpp"
#include "core/workload/unit_place.hpp"

namespace foreshard {
namespace {

/// The effective dtypes of one parameter (FSDPParam.init_dtype_attrs; fsdp2 semantics 1.7). The reduce
/// dtype is compared with the policy's param dtype before that is clamped to the original dtype.
struct Dtypes {
  DType original;
  DType compute;
  DType reduce;
  bool reduce_set;
  DType sent;
  DType gathered;
};

/// Whether each value of `from` is one of `to`.
bool upcasts(DType from, DType to) {
  return (from == DType::bfloat16 || from == DType::float16) && to == DType::float32;
}

/// Whether pull-reduce serves the shard group, rather than NCCL in its place.
bool pull_reduces(const Settings& settings, std::uint32_t ranks, DType from, DType to) {
  CollectiveWork work{CollectiveKind::reduce_scatter, settings.reduce_scatter, 0, {}, from, to};
  TransportFacts facts;
  facts.ranks = ranks;
  facts.one_host = settings.gpus % facts.ranks == 0;
  return facts.ranks > 1 && choose_transport(work, facts).transport == Transport::pull_reduce;
}

Dtypes dtypes_of(const Settings& settings, std::uint32_t ranks, const Parameter& parameter) {
  Dtypes d{parameter.dtype, parameter.dtype, parameter.dtype, false, parameter.dtype, parameter.dtype};
  if (settings.param_dtype) d.compute = *settings.param_dtype;
  d.reduce_set = settings.reduce_dtype && settings.reduce_dtype != settings.param_dtype;
  d.reduce = d.reduce_set ? *settings.reduce_dtype : d.compute;
  d.sent = upcasts(d.compute, d.reduce) && pull_reduces(settings, ranks, d.compute, d.reduce) ? d.compute : d.reduce;
  d.gathered = parameter.gathered_in_float8 ? DType::float8_e4m3fn : d.compute;
  return d;
}

ParameterPlan plan_parameter(const Parameter& parameter, ParameterId id, const Dtypes& d, ShardGroup group,
                             const Reshard& reshard) {
  const std::uint64_t padded = padded_shard_numel(parameter, group);
  ParameterPlan plan;
  plan.id = id;
  plan.compute = d.compute;
  plan.reduce = d.reduce;
  plan.gathered = d.gathered;
  plan.sent = d.sent;
  plan.shard = padded * itemsize(d.original);
  plan.cast_shard = padded * itemsize(d.gathered);
  plan.unsharded = unsharded_numel(parameter, group) * itemsize(d.gathered);
  plan.gradient = parameter.numel() * itemsize(d.compute);
  plan.accumulated = parameter.numel() * itemsize(d.reduce);
  plan.reduce_chunk = padded * itemsize(d.reduce);
  plan.sent_chunk = padded * itemsize(d.sent);
  plan.rechunks = shard_dim(parameter, group) != 0 && group.of(parameter).ranks > 1;
  if (reshard.kind == Reshard::Kind::group) plan.clone = plan.unsharded / reshard.group_size;
  return plan;
}

Result<Reshard> reshard_of(const Settings& settings, const Unit& unit, UnitPlace place) {
  Reshard reshard = settings.reshard_after_forward;
  const bool root = place == UnitPlace::root;
  if (auto it = settings.reshard_of_unit.find(unit.name); it != settings.reshard_of_unit.end()) {
    reshard = it->second;
  } else if (place == UnitPlace::head) {
    return Reshard{Reshard::Kind::never, 0};  // backward needs it at once
  } else if (root && !settings.root_reshard_explicit) {
    return Reshard{Reshard::Kind::never, 0};  // None: the root keeps its parameters (fsdp2 semantics 1.6)
  }
  if (root && !fsdp_rules(settings.pytorch).root_reshards) return Reshard{Reshard::Kind::never, 0};
  if (reshard.kind != Reshard::Kind::group) return reshard;
  if (reshard.group_size == 0 || settings.shard_ranks() % reshard.group_size != 0)
    return fail(ErrorKind::usage,
                fmt::format("reshard_after_forward={} does not divide the shard group of {} ranks", reshard.group_size,
                            settings.shard_ranks()),
                fmt::format("unit \"{}\"", unit.name), "use true, false or a divisor of the shard group");
  if (reshard.group_size == 1) return Reshard{Reshard::Kind::never, 0};
  if (reshard.group_size == settings.shard_ranks()) return Reshard{Reshard::Kind::always, 0};
  return reshard;
}

/// Begins each parameter where a block of its own would begin at the least, so that kernels find it aligned alike. As
/// PyTorch main's _can_use_param_contiguous_output, a group of several compute dtypes stays rank-major, and one with a
/// parameter that is cut along another dimension than the first.
void place_parameters(ParamGroupPlan& plan) {
  constexpr Bytes kAlignment = 256;
  Bytes end = 0;
  for (ParameterPlan& p : plan.parameters) {
    if (p.compute != plan.compute || p.rechunks) return;
    p.offset = (end + kAlignment - 1) / kAlignment * kAlignment;
    end = p.offset + p.cast_shard * plan.shard_ranks;
  }
  plan.contiguous = end;
}

/// One flat buffer has one dtype: a group of several compute dtypes is copied in.
void keep_input(ParamGroupPlan& plan) {
  Bytes end = 0;
  for (ParameterPlan& p : plan.parameters) {
    if (p.compute != plan.compute) return;
    p.kept_offset = end;
    end += p.cast_shard;
  }
  plan.kept_input = end;
}

ParamGroupPlan plan_group(const Settings& settings, std::span<const Parameter> parameters, ParameterId first,
                          const Reshard& reshard, std::uint32_t sm_count) {
  const ShardGroup group = shard_dimension(settings);
  ParamGroupPlan plan;
  plan.shard_ranks = group.of(parameters.front()).ranks;
  plan.divides = settings.expert_parallel > 1 && parameters.front().expert_parallel;
  std::vector<Bytes> chunks;
  std::vector<Bytes> clones;
  const bool any_trained =
      std::any_of(parameters.begin(), parameters.end(), [](const Parameter& p) { return p.requires_grad; });
  for (const Parameter& parameter : parameters) {
    const Dtypes d = dtypes_of(settings, plan.shard_ranks, parameter);
    const ParameterId id{first.value + static_cast<std::uint32_t>(plan.parameters.size())};
    plan.parameters.push_back(plan_parameter(parameter, id, d, group, reshard));
    const ParameterPlan& p = plan.parameters.back();
    plan.casts |= d.compute != d.original;
    plan.gather += p.cast_shard * plan.shard_ranks;
    if (p.gathered == p.compute)
      plan.flat_cast += p.cast_shard;
    else
      ++plan.float8_weights;
    plan.small_flat += p.clone;
    chunks.push_back(p.cast_shard);
    clones.push_back(p.clone);
    if (!parameter.requires_grad && any_trained)
      continue;  // FSDPParamGroup._init_mp_dtypes asks the trained ones alone
    plan.casts_gradients |= d.reduce_set && d.reduce != d.compute;
    plan.casts_back |= d.reduce != d.original;
    plan.original = d.original;
    plan.compute = d.compute;
    plan.reduce = d.reduce;
    plan.sent = d.sent;
    plan.cast_output_itemsize = itemsize(d.original);
  }
  if (settings.all_gather_layout == AllGatherLayout::parameter_contiguous && plan.shard_ranks > 1)
    place_parameters(plan);
  if (settings.all_gather_input == AllGatherInput::optimizer && plan.shard_ranks > 1) keep_input(plan);
  // Sums are of one dtype, and what is read is in the dtype that autograd wrote.
  plan.reduces_gradients =
      settings.reduce_scatter_input == ReduceScatterInput::gradients && plan.shard_ranks > 1 &&
      std::all_of(plan.parameters.begin(), plan.parameters.end(), [&](const ParameterPlan& p) {
        return p.compute == plan.compute && p.sent == plan.compute && plan.sent == plan.compute && !p.rechunks;
      });
  plan.split_metadata = split_metadata_bytes(chunks, plan.shard_ranks, sm_count);
  if (reshard.kind == Reshard::Kind::group)
    plan.small_split_metadata = split_metadata_bytes(clones, reshard.group_size, sm_count);
  return plan;
}

/// FSDPParam._init_sharded_param cuts along another dimension than the first evenly or not at all. A part that a unit
/// keeps after forward has lost its shape, and foreach_all_gather_copy_out asks for that of another dimension (2.11).
Result<void> check_placements(const Settings& settings, const Unit& unit, const Reshard& reshard) {
  const ShardGroup group = shard_dimension(settings);
  const std::string place = fmt::format("unit \"{}\"", unit.name);
  for (const Parameter& p : unit.parameters) {
    const std::uint32_t dim = shard_dim(p, group);
    const std::uint32_t ranks = group.of(p).ranks;
    if (dim == 0 || ranks == 1) continue;
    if (sharded_size(p, group) % ranks != 0)
      return fail(ErrorKind::usage,
                  fmt::format("dimension {} of '{}' has {} elements, which {} ranks do not divide: fully_shard shards "
                              "evenly there, or raises an error",
                              dim, p.name, sharded_size(p, group), ranks),
                  place, "take a shard group that divides it");
    if (reshard.kind == Reshard::Kind::group)
      return fail(ErrorKind::usage,
                  fmt::format("'{}' is sharded along dimension {}, with reshard_after_forward={}: PyTorch 2.11 raises "
                              "an IndexError in the first backward",
                              p.name, dim, reshard.group_size),
                  place, "take reshard_after_forward true or false");
  }
  return {};
}

Result<UnitPlan> plan_unit(const Settings& settings, const Unit& unit, UnitId id, UnitPlace place, ParameterId first,
                           std::uint32_t sm_count) {
  auto reshard = reshard_of(settings, unit, place);
  FORESHARD_TRY(reshard);
  FORESHARD_TRY(check_placements(settings, unit, *reshard));
  UnitPlan plan;
  plan.id = id;
  plan.reshard = *reshard;
  const std::span<const Parameter> parameters = unit.parameters;
  std::size_t begin = 0;
  while (begin < parameters.size()) {
    const std::size_t index = plan.groups.size();
    const std::size_t left = parameters.size() - begin;
    const std::size_t count = index < unit.groups.size() ? std::min<std::size_t>(unit.groups[index], left) : left;
    const ParameterId from{first.value + static_cast<std::uint32_t>(begin)};
    plan.groups.push_back(plan_group(settings, parameters.subspan(begin, count), from, plan.reshard, sm_count));
    begin += count;
  }
  return plan;
}

/// The parameters of one group are sharded over one mesh.
Result<void> check_meshes(const Settings& settings, const Unit& unit) {
  if (settings.expert_parallel == 1) return {};
  std::size_t group = 0;
  std::size_t left = unit.groups.empty() ? unit.parameters.size() : unit.groups.front();
  for (std::size_t i = 0; i < unit.parameters.size(); ++i, --left) {
    if (left == 0) {
      left = ++group < unit.groups.size() ? unit.groups[group] : unit.parameters.size() - i;
      continue;
    }
    if (i == 0 || unit.parameters[i].expert_parallel == unit.parameters[i - 1].expert_parallel) continue;
    return fail(ErrorKind::usage,
                fmt::format("'{}' and '{}' are sharded over different meshes, and in one group",
                            unit.parameters[i].name, unit.parameters[i - 1].name),
                fmt::format("unit \"{}\"", unit.name), "give experts a unit of their own, or a group");
  }
  return {};
}

/// The float8 weights of all units one behind the other, as those of one group are.
void number_float8_weights(std::vector<UnitPlan>& plans) {
  std::uint32_t next = 0;
  for (UnitPlan& unit : plans)
    for (ParamGroupPlan& group : unit.groups) {
      group.first_float8 = next;
      for (ParameterPlan& p : group.parameters)
        if (is_float8(p.gathered)) p.float8_place = next++;
    }
}

/// What may go with it is checked of the setting (core/settings/settings_check.cpp).
Result<void> check_float8(const Settings& settings, const Unit& unit) {
  if (settings.float8_all_gather) return {};
  for (const Parameter& p : unit.parameters)
    if (p.gathered_in_float8)
      return fail(ErrorKind::usage,
                  fmt::format("'{}' is gathered in float8, which these settings do not ask for", p.name),
                  fmt::format("unit \"{}\"", unit.name), "take --float8-all-gather");
  return {};
}

/// Before 2.12 fully_shard refuses a placement with a mesh of its own.
Result<void> check_groups(const Settings& settings, const Unit& unit) {
  FORESHARD_TRY(check_meshes(settings, unit));
  if (unit.groups.size() < 2 || holds(RuleId::groups_per_mesh, settings.pytorch)) return {};
  return fail(ErrorKind::usage,
              fmt::format("unit '{}' has {} parameter groups, and PyTorch {} makes one a unit", unit.name,
                          unit.groups.size(), settings.pytorch),
              {}, "--pytorch 2.12 or later (the rule groups-per-mesh)");
}

/// Every unit that the settings name exists: a misspelt one would otherwise change nothing.
Result<void> check_unit_names(const Settings& settings, const std::vector<Unit>& units) {
  for (const auto& [name, reshard] : settings.reshard_of_unit) FORESHARD_TRY(find_unit(name, units, "reshard_of_unit"));
  for (const auto* lists : {&settings.prefetch_lists.forward, &settings.prefetch_lists.backward})
    for (const auto& [name, targets] : *lists) FORESHARD_TRY(find_unit(name, units, "prefetch_lists"));
  return {};
}

}  // namespace

Result<UnitId> find_unit(const std::string& name, const std::vector<Unit>& units, std::string where) {
  const auto it = std::find_if(units.begin(), units.end(), [&](const Unit& u) { return u.name == name; });
  if (it != units.end()) return UnitId{static_cast<std::uint32_t>(it - units.begin())};
  std::vector<std::string_view> known;
  std::string list;
  for (const Unit& unit : units) {
    known.emplace_back(unit.name);
    list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", unit.name);  // the root's is empty, a list's has commas
  }
  const auto near = nearest(name, known);
  return fail(ErrorKind::usage, fmt::format("there is no unit '{}'", name), std::move(where),
              near ? fmt::format("did you mean '{}'?", *near) : "units: " + list);
}

Result<std::vector<UnitPlan>> plan_units(const Settings& settings, const std::vector<Unit>& units,
                                         std::uint32_t sm_count) {
  FORESHARD_CHECK(sm_count > 0, "a workload says how many SMs its GPU has");
  FORESHARD_TRY(check_unit_names(settings, units));
  std::vector<UnitPlan> plans;
  std::uint32_t parameters = 0;
  for (std::uint32_t i = 0; i < units.size(); ++i) {
    const UnitPlace place = unit_place(settings, i, units.size());
    FORESHARD_TRY(check_groups(settings, units[i]));
    FORESHARD_TRY(check_float8(settings, units[i]));
    auto plan = plan_unit(settings, units[i], UnitId{i}, place, ParameterId{parameters}, sm_count);
    FORESHARD_TRY(plan);
    parameters += static_cast<std::uint32_t>(units[i].parameters.size());
    plans.push_back(std::move(*plan));
  }
  number_float8_weights(plans);
  FORESHARD_TRY(plan_prefetch(settings, units, plans));
  return plans;
}

}  // namespace foreshard
