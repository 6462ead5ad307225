#include "core/settings/settings_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/json_io.hpp"
#include "core/base/suggest.hpp"
#include "core/base/units.hpp"
#include "core/device/transport_traits.hpp"
#include "core/settings/pytorch_version.hpp"
#include "core/settings/version_rules.hpp"

namespace foreshard {
namespace {

using Json = nlohmann::ordered_json;
using Words = std::span<const std::string_view>;

constexpr std::array<std::string_view, 2> kBooleans{"true", "false"};
/// The words of the transports that gather.
constexpr auto kAllGatherTransports = [] {
  constexpr auto kCount = std::ranges::count_if(kTransportTraits, &TransportTraits::gathers);
  std::array<std::string_view, kCount> words;
  auto* word = words.begin();
  for (const Transport transport : kEnumValues<Transport>)
    if (traits_of(transport).gathers) *word++ = name(transport);
  return words;
}();
constexpr std::array<std::string_view, 5> kDTypeNames{"none", "bfloat16", "float16", "float32", "float64"};
constexpr std::array<std::string_view, 1> kImplicitWord{"implicit"};
constexpr std::array<std::string_view, 1> kDefaultWord{"default"};
constexpr std::array<std::string_view, 1> kNoneWord{"none"};
constexpr SettingNumber kDepth{"a whole number from 0", "2"};

/// A row with its two functions. `set` gets the value with quotes dropped.
struct Row {
  SettingOption setting;
  Result<void> (*set)(Settings&, const SettingOption&, std::string_view);
  std::string (*get)(const Settings&);
};

/// The nearest word, else all that is accepted: "implicit, or a whole number from 0, as in --forward-prefetch 2".
std::string hint_of(const SettingOption& setting, std::string_view value) {
  const auto& [range, example] = setting.number;
  if (range.empty()) return setting.words.empty() ? std::string() : suggestion(value, setting.words);
  if (const auto near = nearest(value, setting.words)) return fmt::format("did you mean '{}'?", *near);
  return fmt::format("{}{}{}, as in {} {}", fmt::join(setting.words, ", "), setting.words.empty() ? "" : ", or ", range,
                     setting.option(), example);
}

tl::unexpected<Error> refused(const SettingOption& setting, std::string_view value) {
  return fail(ErrorKind::usage, fmt::format("'{}' is not a value of {} ({})", value, setting.key, setting.values), {},
              hint_of(setting, value));
}

bool is_none(std::string_view value) {
  return value == "null" || value == "none";
}

/// The index of `value` among the row's words: an enumeration's value.
std::optional<std::size_t> index_of(std::string_view value, Words words) {
  const auto found = std::find(words.begin(), words.end(), value);
  if (found == words.end()) return std::nullopt;
  return static_cast<std::size_t>(found - words.begin());
}

template <auto Member>
Result<void> set_flag(Settings& settings, const SettingOption& setting, std::string_view value) {
  if (!index_of(value, kBooleans)) return refused(setting, value);
  settings.*Member = value == "true";
  return {};
}
template <auto Member>
std::string get_flag(const Settings& settings) {
  return settings.*Member ? "true" : "false";
}

template <auto Member>
Result<void> set_count(Settings& settings, const SettingOption& setting, std::string_view value) {
  const auto count = parse_count(value);
  if (!count || *count == 0) return refused(setting, value);
  settings.*Member = *count;
  return {};
}
template <auto Member>
std::string get_count(const Settings& settings) {
  return std::to_string(settings.*Member);
}

/// A decimal fraction of at least 1.
template <auto Member>
Result<void> set_factor(Settings& settings, const SettingOption& setting, std::string_view value) {
  double factor = 0;
  const auto [end, error] =
      std::from_chars(value.data(), value.data() + value.size(), factor, std::chars_format::fixed);
  if (error != std::errc{} || end != value.data() + value.size() || !(factor >= 1)) return refused(setting, value);
  settings.*Member = factor;
  return {};
}
template <auto Member>
std::string get_factor(const Settings& settings) {
  return fmt::format("{}", settings.*Member);
}

template <auto Member>
Result<void> set_optional_count(Settings& settings, const SettingOption& setting, std::string_view value) {
  if (is_none(value)) {
    settings.*Member = std::nullopt;
    return {};
  }
  const auto count = parse_count(value);
  if (!count || *count == 0) return refused(setting, value);
  settings.*Member = *count;
  return {};
}
template <auto Member>
std::string get_optional_count(const Settings& settings) {
  return settings.*Member ? std::to_string(*(settings.*Member)) : "null";
}

/// The row's only word means none; 0 is a depth like any other (an empty explicit list).
template <auto Member>
Result<void> set_prefetch(Settings& settings, const SettingOption& setting, std::string_view value) {
  if (value == setting.words.front() || value == "null") {
    settings.*Member = std::nullopt;
    return {};
  }
  const auto depth = parse_count(value);
  if (!depth) return refused(setting, value);
  settings.*Member = *depth;
  return {};
}
std::string get_forward_prefetch(const Settings& settings) {
  return settings.forward_prefetch ? std::to_string(*settings.forward_prefetch) : json_quoted(kImplicitWord[0]);
}
std::string get_backward_prefetch(const Settings& settings) {
  return settings.backward_prefetch ? std::to_string(*settings.backward_prefetch) : json_quoted(kDefaultWord[0]);
}

template <auto Member>
Result<void> set_dtype(Settings& settings, const SettingOption& setting, std::string_view value) {
  if (value.starts_with("torch.")) value.remove_prefix(6);
  if (value == "bf16") value = "bfloat16";
  if (value == "fp16") value = "float16";
  if (value == "fp32") value = "float32";
  if (is_none(value)) {
    settings.*Member = std::nullopt;
    return {};
  }
  if (!index_of(value, setting.words)) return refused(setting, value);
  settings.*Member = parse_dtype(value);
  return {};
}
template <auto Member>
std::string get_dtype(const Settings& settings) {
  return settings.*Member ? json_quoted(name(*(settings.*Member))) : "null";
}

template <auto Member>
Result<void> set_word(Settings& settings, const SettingOption& setting, std::string_view value) {
  const auto parsed = parse_name<std::remove_reference_t<decltype(settings.*Member)>>(value);
  if (!parsed || !index_of(value, setting.words)) return refused(setting, value);
  settings.*Member = *parsed;
  return {};
}
template <auto Member>
std::string get_word(const Settings& settings) {
  return json_quoted(name(settings.*Member));
}

template <auto Member>
Result<void> set_text(Settings& settings, const SettingOption&, std::string_view value) {
  settings.*Member = is_none(value) ? std::string() : std::string(value);
  return {};
}
template <auto Member>
std::string get_text(const Settings& settings) {
  return json_quoted(settings.*Member);
}

/// "stash", or "all-gather=stash,reduce-scatter=record-stream" in any order, either part left out.
Result<void> set_release(Settings& settings, const SettingOption& setting, std::string_view value) {
  Settings changed = settings;
  changed.reduce_scatter_release.reset();
  std::string_view rest = value;
  while (!rest.empty()) {
    const std::string_view part = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(rest.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    const std::string_view kind = equals == std::string_view::npos ? part : part.substr(equals + 1);
    const std::string_view which = equals == std::string_view::npos ? std::string_view() : part.substr(0, equals);
    const auto index = index_of(kind, setting.words);
    if (!index) return refused(setting, kind);
    const auto release = static_cast<Release>(*index);
    if (which.empty() || which == "all-gather") {
      changed.release = release;
    } else if (which == "reduce-scatter") {
      changed.reduce_scatter_release = release;
    } else {
      return refused(setting, value);
    }
  }
  if (value.empty()) return refused(setting, value);
  settings = std::move(changed);
  return {};
}
std::string get_release(const Settings& settings) {
  if (!settings.reduce_scatter_release) return json_quoted(name(settings.release));
  return json_quoted(
      fmt::format("all-gather={},reduce-scatter={}", name(settings.release), name(*settings.reduce_scatter_release)));
}

/// AdamW is Adam with weight decay (torch/optim/adamw.py; a subclass from 2.7 on), which fused Adam's kernel computes
/// as well. The foreach and the for-loop form multiply the parameters in place for it, a pass more than Adam's without.
Result<void> set_optimizer(Settings& settings, const SettingOption& setting, std::string_view value) {
  if (value == "adamw-fused") value = "adam-fused";
  if (value == "adamw" || value == "adamw-single")
    return fail(ErrorKind::usage, fmt::format("'{}' is not a value of {} ({})", value, setting.key, setting.values), {},
                fmt::format("take {0}: AdamW has its memory, and one pass over the parameters more for the weight "
                            "decay, which {0} does not price; adamw-fused is adam-fused",
                            value == "adamw" ? "adam" : "adam-single"));
  return set_word<&Settings::optimizer>(settings, setting, value);
}

/// "none", "3" or "4+3": see CudaGraph.
Result<void> set_cuda_graph(Settings& settings, const SettingOption& setting, std::string_view value) {
  if (is_none(value)) {
    settings.cuda_graph = std::nullopt;
    return {};
  }
  const std::size_t plus = value.find('+');
  const auto eager = plus == std::string_view::npos ? Result<std::uint32_t>(0U) : parse_count(value.substr(0, plus));
  const auto warm_up = parse_count(plus == std::string_view::npos ? value : value.substr(plus + 1));
  if (!eager || !warm_up || *warm_up == 0) return refused(setting, value);
  settings.cuda_graph = CudaGraph{*eager, *warm_up};
  return {};
}
std::string get_cuda_graph(const Settings& settings) {
  if (!settings.cuda_graph) return "null";
  return json_quoted(name(*settings.cuda_graph));
}

std::optional<Reshard> parse_reshard(std::string_view value) {
  if (value == "true") return Reshard{Reshard::Kind::always, 0};
  if (value == "false") return Reshard{Reshard::Kind::never, 0};
  const auto size = parse_count(value);
  if (!size || *size == 0) return std::nullopt;
  return Reshard{Reshard::Kind::group, *size};
}
Result<void> set_reshard(Settings& settings, const SettingOption& setting, std::string_view value) {
  const auto reshard = parse_reshard(value);
  if (!reshard) return refused(setting, value);
  settings.reshard_after_forward = *reshard;
  return {};
}
std::string get_reshard(const Settings& settings) {
  return name(settings.reshard_after_forward);
}

Result<void> set_reshard_of_unit(Settings& settings, const SettingOption& setting, std::string_view value) {
  if (!value.starts_with('{')) {
    const std::size_t equals = value.rfind('=');
    if (equals == std::string_view::npos) return refused(setting, value);
    const auto reshard = parse_reshard(value.substr(equals + 1));
    if (!reshard) return refused(setting, value);
    settings.reshard_of_unit[std::string(value.substr(0, equals))] = *reshard;
    return {};
  }
  const Json object = parse_ordered_json_text(value);
  if (!object.is_object()) return refused(setting, value);
  std::map<std::string, Reshard> all;
  for (const auto& [unit, entry] : object.items()) {
    const auto reshard = parse_reshard(json_text(entry));
    if (!reshard) return refused(setting, fmt::format("{}={}", unit, json_text(entry)));
    all[unit] = *reshard;
  }
  settings.reshard_of_unit = std::move(all);
  return {};
}
std::string get_reshard_of_unit(const Settings& settings) {
  Json object = Json::object();
  for (const auto& [unit, reshard] : settings.reshard_of_unit) object[unit] = parse_ordered_json_text(name(reshard));
  return json_text(object);
}

using PrefetchMap = std::map<std::string, std::vector<std::string>>;

Result<PrefetchMap> prefetch_map(const SettingOption& setting, const std::string& pass, const Json& object) {
  PrefetchMap out;
  const auto wrong = [&](const std::string& where, const char* wanted) {
    return fail(ErrorKind::usage, fmt::format("{} of {} is needed", wanted, setting.key), where,
                std::string(setting.help));
  };
  if (!object.is_object()) return wrong(pass, "an object of lists, by unit,");
  for (const auto& [unit, list] : object.items()) {
    const bool names = list.is_array() && std::all_of(list.begin(), list.end(), [](auto& n) { return n.is_string(); });
    if (!names) return wrong(pass + "." + unit, "a list of units' names");
    out[unit] = list.template get<std::vector<std::string>>();
  }
  return out;
}
Result<void> set_prefetch_lists(Settings& settings, const SettingOption& setting, std::string_view value) {
  constexpr std::array<std::string_view, 2> kPasses{"forward", "backward"};
  PrefetchLists lists;
  if (value != "null") {
    const Json object = parse_ordered_json_text(value);
    if (!object.is_object())
      return fail(ErrorKind::usage, fmt::format("an object of {} is needed", setting.key), {},
                  std::string(setting.help));
    for (const auto& [pass, units] : object.items()) {
      if (!index_of(pass, kPasses))
        return fail(ErrorKind::usage, fmt::format("unknown key '{}' in {}", pass, setting.key), {},
                    suggestion(pass, kPasses));
      auto map = prefetch_map(setting, pass, units);
      FORESHARD_TRY(map);
      (pass == "forward" ? lists.forward : lists.backward) = std::move(*map);
    }
  }
  settings.prefetch_lists = std::move(lists);
  return {};
}
std::string get_prefetch_lists(const Settings& settings) {
  Json object = Json::object();
  object["forward"] = settings.prefetch_lists.forward;
  object["backward"] = settings.prefetch_lists.backward;
  return json_text(object);
}

/// The rule of that name, which `version` has and a plan of it follows.
Result<const VersionRule*> rule_to_leave_out(std::string_view name, std::string_view version) {
  const VersionRule* rule = find_rule(name);
  if (rule == nullptr) {
    std::vector<std::string_view> known;
    for (const VersionRule& one : version_rules()) known.push_back(one.name);
    const auto near = nearest(name, known);
    return fail(ErrorKind::usage, fmt::format("no rule is called '{}'", name), {},
                near ? fmt::format("did you mean '{}'?", *near) : "`foreshard rules` lists them");
  }
  if (!holds(rule->id, version))
    return fail(ErrorKind::usage, fmt::format("PyTorch {} does not have the rule {}", version, name), {},
                fmt::format("it came with {}: leave ~{} out", version_name(rule->since), name));
  if (rule->planned == RulePlanned::no || rule->planned == RulePlanned::not_met)
    return fail(ErrorKind::usage, fmt::format("no plan follows the rule {}, so none can be without it", name), {},
                fmt::format("leave ~{} out; `foreshard rules` says which a plan follows", name));
  return rule;
}

/// "2.11.0+cu130" and "2.11" are the same rules; "2.13~RULE" is 2.13 without one.
Result<void> set_pytorch(Settings& settings, const SettingOption& /*setting*/, std::string_view value) {
  const auto version = known_pytorch_version(value);
  if (!version) {
    const auto near = nearest_pytorch_version(value);  // by number: of words 2.10 is as near to 2.13 as 2.12
    return fail(ErrorKind::usage, fmt::format("PyTorch {} is not supported", value), {},
                fmt::format("supported: {}{}", fmt::join(kKnownPyTorch, ", "),
                            near ? fmt::format("; the nearest is {}", *near) : std::string()));
  }
  std::string wanted(*version);
  for (std::size_t at = value.find('~'); at != std::string_view::npos;) {
    value.remove_prefix(at + 1);
    at = value.find('~');
    const auto rule = rule_to_leave_out(value.substr(0, at), *version);
    FORESHARD_TRY(rule);
    if (holds((*rule)->id, wanted)) wanted = without_rule(wanted, **rule);  // else it is given twice
  }
  settings.pytorch = std::move(wanted);
  return {};
}

#define FORESHARD_MEMBER(kind, member) set_##kind<&Settings::member>, get_##kind<&Settings::member>
using Form = SettingForm;

constexpr std::array kRows{
    Row{{"gpus", "N", "GPUs a node", Form::count, {}}, FORESHARD_MEMBER(count, gpus)},
    Row{{"nodes", "N", "nodes", Form::count, {}}, FORESHARD_MEMBER(count, nodes)},
    Row{{"replicate", "N", "HSDP: size of the mesh's replicate dimension; 1 is plain FSDP", Form::count, {}},
        FORESHARD_MEMBER(count, replicate)},
    Row{{"tensor_parallel", "N", "ranks of the mesh's tensor-parallel dimension; a recording's own", Form::count, {}},
        FORESHARD_MEMBER(count, tensor_parallel)},
    Row{{"expert_parallel",
         "N",
         "EP: ranks that a model's experts are split over, of the shard dimension; torchtitan's",
         Form::count,
         {}},
        FORESHARD_MEMBER(count, expert_parallel)},
    Row{{"router_imbalance",
         "X",
         "tokens of the expert-parallel rank with most of them over the mean; 1: balanced",
         Form::word,
         {},
         false,
         {"a number from 1 to expert_parallel", "1.5"}},
        set_factor<&Settings::router_imbalance>,
        get_factor<&Settings::router_imbalance>},
    Row{{"batch", "N", "samples a GPU and microbatch", Form::count, {}}, FORESHARD_MEMBER(optional_count, batch)},
    Row{{"seq", "N", "tokens a sample", Form::count, {}}, FORESHARD_MEMBER(optional_count, seq)},
    Row{{"param_dtype", "none|bfloat16|float16|float32", "MixedPrecisionPolicy.param_dtype", Form::word, kDTypeNames},
        FORESHARD_MEMBER(dtype, param_dtype)},
    Row{{"reduce_dtype", "none|bfloat16|float16|float32", "MixedPrecisionPolicy.reduce_dtype", Form::word, kDTypeNames},
        FORESHARD_MEMBER(dtype, reduce_dtype)},
    Row{{"forward_prefetch", "implicit|N", "units gathered ahead in forward; N: set_modules_to_forward_prefetch",
         Form::word, kImplicitWord, false, kDepth},
        set_prefetch<&Settings::forward_prefetch>,
        get_forward_prefetch},
    Row{{"backward_prefetch", "default|N", "units gathered ahead in backward; N: set_modules_to_backward_prefetch",
         Form::word, kDefaultWord, false, kDepth},
        set_prefetch<&Settings::backward_prefetch>,
        get_backward_prefetch},
    Row{{"prefetch_lists",
         "FILE",
         "prefetch lists per unit: {\"forward\": {UNIT: [UNIT, …]}, \"backward\": {…}}",
         Form::json,
         {}},
        set_prefetch_lists,
        get_prefetch_lists},
    Row{{"unshard_async", "true|false", "_set_unshard_async_op(True)", Form::flag, kBooleans},
        FORESHARD_MEMBER(flag, unshard_async)},
    Row{{"release", "auto|stash|record-stream",
         "what holds a collective's buffers; per collective: all-gather=KIND,reduce-scatter=KIND", Form::word,
         EnumNames<Release>::kNames},
        set_release,
        get_release},
    Row{{"gather_alloc", "copy-in|compute", "stream that owns the gather buffers", Form::word,
         EnumNames<GatherAlloc>::kNames},
        FORESHARD_MEMBER(word, gather_alloc)},
    Row{{"reshard_after_forward", "true|false|N", "reshard_after_forward of fully_shard", Form::word, kBooleans, false,
         kCounted},
        set_reshard,
        get_reshard},
    Row{{"reshard_of_unit",
         "UNIT=true|false|N",
         "reshard_after_forward of one unit; may be repeated",
         Form::text,
         {},
         true,
         {"true, false or a whole number from 1 behind the unit's name", "layers.0=false"}},
        set_reshard_of_unit,
        get_reshard_of_unit},
    Row{{"root_reshard_explicit", "true|false", "reshard_after_forward was passed for the root too", Form::flag,
         kBooleans},
        FORESHARD_MEMBER(flag, root_reshard_explicit)},
    Row{{"all_gather", "nccl|nccl-registered|symmetric|copy-engine|low-contention", "how all-gathers move their bytes",
         Form::word, kAllGatherTransports},
        FORESHARD_MEMBER(word, all_gather)},
    Row{{"reduce_scatter", "nccl|nccl-registered|symmetric|copy-engine|low-contention|pull-reduce",
         "how reduce-scatters move their bytes; low-contention: PyTorch's copies and a sum; pull-reduce: foreshard's "
         "one "
         "kernel, which its run takes for either",
         Form::word, EnumNames<Transport>::kNames},
        FORESHARD_MEMBER(word, reduce_scatter)},
    Row{{"all_gather_layout", "rank-major|parameter-contiguous",
         "where gathered bytes arrive; parameter-contiguous: in the unsharded parameters themselves, without a "
         "copy-out; with --lowering foreshard, and in `foreshard run`",
         Form::word, EnumNames<AllGatherLayout>::kNames},
        FORESHARD_MEMBER(word, all_gather_layout)},
    Row{{"all_gather_input", "copy-in|optimizer",
         "what fills an all-gather's input; optimizer: its kernel does, without a copy; with --lowering foreshard, and "
         "in `foreshard run`",
         Form::word, EnumNames<AllGatherInput>::kNames},
        FORESHARD_MEMBER(word, all_gather_input)},
    Row{{"reduce_scatter_input", "chunk-cat|gradients",
         "what reduce-scatters read; gradients: them where autograd wrote them, without a copy; with --lowering "
         "foreshard, and in `foreshard run`",
         Form::word, EnumNames<ReduceScatterInput>::kNames},
        FORESHARD_MEMBER(word, reduce_scatter_input)},
    Row{{"separate_reduce_scatter_group", "true|false",
         "set_separate_reduce_scatter_group(True), PyTorch 2.13: reduce-scatters do not queue behind all-gathers",
         Form::flag, kBooleans},
        FORESHARD_MEMBER(flag, separate_reduce_scatter_group)},
    Row{{"reduce_scatter_max_input_buffers",
         "N",
         "set_reduce_scatter_max_input_buffers(N), PyTorch 2.13: reduce-scatter inputs in flight at most",
         Form::count,
         {}},
        FORESHARD_MEMBER(count, reduce_scatter_max_input_buffers)},
    Row{{"units_per_group", "N", "blocks given to fully_shard together", Form::count, {}},
        FORESHARD_MEMBER(count, units_per_group)},
    Row{{"fully_shard_embedding_and_head", "true|false",
         "embedding, and norm and head, are units of their own (fully_shard before the root); for models only",
         Form::flag, kBooleans},
        FORESHARD_MEMBER(flag, fully_shard_embedding_and_head)},
    Row{{"post_optimizer_event", "true|false", "set_post_optim_event: gathers wait for it, not for the compute stream",
         Form::flag, kBooleans},
        FORESHARD_MEMBER(flag, post_optimizer_event)},
    Row{{"accumulate", "N", "microbatches a step", Form::count, {}}, FORESHARD_MEMBER(count, accumulate)},
    Row{{"accumulate_with_sync", "true|false", "reduce gradients in every microbatch", Form::flag, kBooleans},
        FORESHARD_MEMBER(flag, accumulate_with_sync)},
    Row{{"set_to_none", "true|false",
         "optimizer.zero_grad(set_to_none=…); false: gradients stay allocated, are zeroed and added to", Form::flag,
         kBooleans},
        FORESHARD_MEMBER(flag, set_to_none)},
    Row{{"checkpoint", "none|blocks|selective-op|selective-layer",
         "activation checkpointing; the selective kinds (torchtitan's) for models only", Form::word,
         EnumNames<Checkpoint>::kNames},
        FORESHARD_MEMBER(word, checkpoint)},
    Row{{"checkpoint_share",
         "N",
         "percent of the blocks that selective-layer checkpoints",
         Form::count,
         {},
         false,
         {"a whole number from 1 to 100", "50"}},
        FORESHARD_MEMBER(count, checkpoint_share)},
    Row{{"kernels", "eager|fused", "PyTorch's kernels op by op, or foreshard's own joined ones; for models only",
         Form::word, EnumNames<Kernels>::kNames},
        FORESHARD_MEMBER(word, kernels)},
    Row{{"float8", "none|tensorwise",
         "fp8 GEMMs in the blocks' linear layers, by torchao's recipe of that name; with --kernels fused, with "
         "--lowering foreshard, and in `foreshard run`",
         Form::word, EnumNames<Float8>::kNames},
        FORESHARD_MEMBER(word, float8)},
    Row{{"float8_all_gather", "true|false",
         "torchao's enable_fsdp_float8_all_gather: weights are cast to float8 before they are gathered; with --float8",
         Form::flag, kBooleans},
        FORESHARD_MEMBER(flag, float8_all_gather)},
    Row{{"offload", "true|false", "CPUOffloadPolicy(pin_memory=True)", Form::flag, kBooleans},
        FORESHARD_MEMBER(flag, offload)},
    Row{{"optimizer", "adam|adam-fused|adam-single|sgd",
         "torch.optim.Adam (foreach, fused, for-loop) or SGD; adamw-fused is adam-fused", Form::word,
         EnumNames<Optimizer>::kNames},
        set_optimizer,
        get_word<&Settings::optimizer>},
    Row{{"optimizer_overlap", "none|backward|forward",
         "what the optimizer's kernels run beside, on a stream of their own: backward (each unit behind its own "
         "reduce-scatter), forward (unit by unit as the next forward needs them); with --lowering foreshard, and in "
         "`foreshard run`",
         Form::word, EnumNames<OptimizerOverlap>::kNames},
        FORESHARD_MEMBER(word, optimizer_overlap)},
    Row{{"cuda_graph",
         "none|N|E+N",
         "forward and backward in one CUDA graph, captured after N warm-up steps on its stream, and E eager ones "
         "before",
         Form::word,
         kNoneWord,
         false,
         {"warm-up steps from 1, with + behind eager ones", "3, or 4+3"}},
        set_cuda_graph,
        get_cuda_graph},
    Row{{"alloc_conf", "KEY:VALUE,…", "PYTORCH_ALLOC_CONF, as in \"expandable_segments:True\"", Form::text, {}},
        FORESHARD_MEMBER(text, alloc_conf)},
    Row{{"pytorch", kKnownPyTorchRange, "the PyTorch version whose rules are followed", Form::word, kKnownPyTorch},
        set_pytorch,
        get_text<&Settings::pytorch>},
};
#undef FORESHARD_MEMBER

/// A JSON string's content, or the value as it is.
std::string without_quotes(std::string_view value) {
  if (!value.starts_with('"')) return std::string(value);
  const Json parsed = parse_ordered_json_text(value);
  return parsed.is_string() ? parsed.get<std::string>() : std::string(value);
}

}  // namespace

std::string SettingOption::option() const {
  std::string out = "--" + std::string(key);
  std::replace(out.begin(), out.end(), '_', '-');
  return out;
}

std::string SettingOption::option(std::string_view value) const {
  std::string out = option();
  if (form != SettingForm::flag) return out.append(" ").append(value);
  return value == "false" ? out.insert(2, "no-") : out;
}

std::span<const SettingOption> setting_table() {
  static const auto kTable = [] {
    std::array<SettingOption, kRows.size()> table;
    std::transform(kRows.begin(), kRows.end(), table.begin(), [](const Row& row) { return row.setting; });
    return table;
  }();
  return kTable;
}

Result<void> set_setting(Settings& settings, std::string_view key, std::string_view value) {
  std::string wanted(key);
  std::replace(wanted.begin(), wanted.end(), '-', '_');
  for (const Row& row : kRows)
    if (row.setting.key == wanted) return row.set(settings, row.setting, without_quotes(value));
  std::vector<std::string_view> keys;
  for (const Row& row : kRows) keys.push_back(row.setting.key);
  return fail(ErrorKind::usage, fmt::format("unknown setting '{}'", key), {}, suggestion(wanted, keys));
}

std::vector<std::pair<std::string, std::string>> setting_options(const Settings& settings) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Row& row : kRows) out.emplace_back(row.setting.key, row.get(settings));
  return out;
}

std::string name(const CudaGraph& graph) {
  if (graph.eager_steps == 0) return std::to_string(graph.warm_up_steps);
  return fmt::format("{}+{}", graph.eager_steps, graph.warm_up_steps);
}

std::string name(const Reshard& reshard) {
  if (reshard.kind == Reshard::Kind::group) return std::to_string(reshard.group_size);
  return reshard.kind == Reshard::Kind::always ? "true" : "false";
}

}  // namespace foreshard
