// `foreshard collectives [KIND]`: what nccl-tests would print on a machine, and a benchmark beside the prediction.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/options/fabric_option.hpp"
#include "cli/options/link_options.hpp"
#include "cli/options/option_set.hpp"
#include "cli/options/source_options.hpp"
#include "cli/reports/collective_doubts.hpp"
#include "cli/reports/collective_sizes.hpp"
#include "cli/reports/collectives_against.hpp"
#include "cli/verbs/verbs.hpp"
#include "core/base/suggest.hpp"
#include "core/base/units.hpp"
#include "core/device/collective_names.hpp"
#include "core/settings/mesh_groups.hpp"
#include "core/settings/settings_table.hpp"
#include "sim/calibrate/measurements.hpp"
#include "sim/calibrate/nccl_size.hpp"
#include "sim/collectives/modelled_collectives.hpp"
#include "sim/network/background_load.hpp"
#include "sim/network/slow_links.hpp"
#include "traces/files/text_file.hpp"

namespace foreshard::cli {
namespace {

struct CollectivesOptions {
  std::optional<CollectiveKind> kind;
  std::string machine = "h200";
  std::string fabric;
  std::string topology;
  std::optional<std::uint32_t> gpus, nodes, replicate;
  std::string group;
  std::optional<Transport> transport;
  std::optional<DType> dtype;
  std::optional<std::vector<Bytes>> bytes;
  std::optional<Bytes> min_bytes, max_bytes;
  std::optional<std::uint32_t> factor;
  LinkOptions links;
  std::string against;
  bool messages = false;
  bool json = false;
};

Result<CollectiveKind> parse_kind(std::string_view text) {
  std::string word(text);
  std::replace(word.begin(), word.end(), '-', '_');
  if (const auto kind = parse_name<CollectiveKind>(word)) return *kind;
  std::vector<std::string_view> known;
  for (const CollectiveKind kind : kEnumValues<CollectiveKind>) known.push_back(dashed_name(kind));
  return fail(ErrorKind::usage, fmt::format("there is no collective '{}'", text), {}, suggestion(text, known));
}

Result<Transport> parse_transport(std::string_view text) {
  if (const auto transport = parse_name<Transport>(text)) return *transport;
  return fail(ErrorKind::usage, fmt::format("unknown transport '{}'", text), {},
              suggestion(text, EnumNames<Transport>::kNames));
}

Result<DType> parse_element(std::string_view text) {
  if (const auto dtype = parse_dtype(text); dtype && !is_float8(*dtype)) return *dtype;
  return fail(ErrorKind::usage, fmt::format("unknown dtype '{}'", text), {}, "as in float32 or bfloat16");
}

/// A benchmark's file says which collectives of how many ranks and bytes it has.
Result<void> check_against(const CollectivesOptions& options) {
  const std::pair<bool, const char*> own[]{
      {options.gpus.has_value(), "--gpus"},           {options.nodes.has_value(), "--nodes"},
      {options.replicate.has_value(), "--replicate"}, {!options.group.empty(), "--group"},
      {options.dtype.has_value(), "--dtype"},         {options.bytes.has_value(), "--bytes"},
      {options.min_bytes.has_value(), "--min-bytes"}, {options.max_bytes.has_value(), "--max-bytes"},
      {options.factor.has_value(), "--factor"}};
  for (const auto& [given, option] : own)
    if (given)
      return fail(ErrorKind::usage, "cannot be given with --against, whose file says it", option,
                  "leave one of them out");
  return {};
}

/// `topology`: that is on the machine.
Result<sim::MachineProfile> read_machine_and_links(const CollectivesOptions& options, Topology& topology,
                                                   Console& console) {
  auto machine = read_machine(options.machine);
  FORESHARD_TRY(machine);
  if (!options.topology.empty()) {
    auto read = read_topology_file(options.topology, console);
    FORESHARD_TRY(read);
    topology = std::move(*read);
    FORESHARD_TRY(put_on(*machine, topology));
    tell(topology, console);
    for (const std::string& doubt : topology.doubts) console.warn(doubt);
  }
  if (!options.fabric.empty()) FORESHARD_TRY(set_fabric(options.fabric, machine->network));
  auto links = options.links.read(machine->network);
  FORESHARD_TRY(links);
  machine->network.slow_adapters = std::move(links->slow_adapters);
  machine->links.slow_links = std::move(links->slow_links);
  machine->network.background = links->background;
  return machine;
}

/// What is said of links is of links that the job uses.
Result<void> check_links(const sim::MachineProfile& machine, std::uint32_t gpus, std::uint32_t nodes) {
  const sim::UsedNodes used{machine.network, machine.links.gpus, gpus, nodes};
  FORESHARD_TRY(sim::check_slow_links(used, machine.network.slow_adapters, machine.links.slow_links));
  return sim::check_background_load(used, machine.network.background, machine.network.slow_adapters);
}

Result<void> check_fabric(const CollectivesOptions& options, std::uint32_t nodes) {
  if (options.fabric.empty() || nodes > 1) return {};
  return fail(ErrorKind::usage, "nothing of a job on one node goes over a fabric", "--fabric",
              options.against.empty() ? "leave it out, or give --nodes" : "leave it out: FILE is of one node");
}

/// "has no reduce-scatter: its 2 rows are of all-gather".
std::string has_none_of(CollectiveKind kind, const std::vector<sim::CollectiveSample>& samples) {
  std::vector<std::string_view> others;
  for (const CollectiveKind other : kEnumValues<CollectiveKind>)
    if (std::any_of(samples.begin(), samples.end(), [&](const auto& sample) { return sample.kind == other; }))
      others.push_back(dashed_name(other));
  return fmt::format("has no {}: its {} of {}", dashed_name(kind),
                     samples.size() == 1 ? "row is" : fmt::format("{} rows are", samples.size()),
                     fmt::join(others, ", "));
}

/// The file's collectives, of `options.kind` where that is given; one at least.
Result<std::vector<sim::CollectiveSample>> read_against(const CollectivesOptions& options, Console& console) {
  const auto text = traces::read_text(options.against);
  FORESHARD_TRY(text);
  auto measured =
      sim::read_measurements(*text, options.against, {options.transport.value_or(Transport::nccl), options.kind});
  FORESHARD_TRY(measured);
  for (const sim::InputNote& note : measured->notes) console.note(fmt::format("{}: {}", options.against, note.text));
  if (measured->collectives.empty())
    return fail(ErrorKind::input, "has no collectives", options.against,
                "it is for what all_gather_perf and the like print, and for probe files");
  std::vector<sim::CollectiveSample> out = measured->collectives;
  if (!options.kind) return out;
  std::erase_if(out, [&](const sim::CollectiveSample& sample) { return sample.kind != *options.kind; });
  if (out.empty())
    return fail(ErrorKind::input, has_none_of(*options.kind, measured->collectives), options.against,
                "leave the collective out, and all of them are shown");
  return out;
}

Result<int> hold_against_file(const CollectivesOptions& options, Console& console) {
  FORESHARD_TRY(check_against(options));
  Topology topology;
  const auto machine = read_machine_and_links(options, topology, console);
  FORESHARD_TRY(machine);
  const auto measured = read_against(options, console);
  FORESHARD_TRY(measured);
  std::uint32_t ranks = 0, per_node = 1;
  for (const sim::CollectiveSample& sample : *measured) {
    ranks = std::max(ranks, sample.ranks);
    per_node = std::max(per_node, sample.ranks_per_node);
  }
  const auto nodes = static_cast<std::uint32_t>(ceil_div(ranks, per_node));
  FORESHARD_TRY(check_fabric(options, nodes));
  FORESHARD_TRY(check_links(*machine, std::min(per_node, ranks), nodes));
  const Against against = hold_against(options.against, *measured, *machine, options.messages);
  if (options.json) {
    Json json = json_result("collectives");
    json.update(against_json(against));
    print_json(console.out, json);
  } else {
    print_against(console.out, against);
  }
  return kDone;
}

/// Each of the sizes on its own; --bytes is in place of a range.
Result<void> check_sizes(const CollectivesOptions& options) {
  constexpr Bytes kMax = kGiB * kKiB * kKiB;
  for (const auto& [given, option] :
       {std::pair{options.min_bytes.has_value(), "--min-bytes"},
        std::pair{options.max_bytes.has_value(), "--max-bytes"}, std::pair{options.factor.has_value(), "--factor"}})
    if (options.bytes && given)
      return fail(ErrorKind::usage, "is of a range, and --bytes says sizes", option, "leave one of them out");
  std::vector<std::pair<std::optional<Bytes>, const char*>> given{{options.min_bytes, "--min-bytes"},
                                                                  {options.max_bytes, "--max-bytes"}};
  for (const Bytes bytes : options.bytes.value_or(std::vector<Bytes>{})) given.emplace_back(bytes, "--bytes");
  for (const auto& [size, option] : given) {
    if (size && *size == 0) return fail(ErrorKind::usage, "of no bytes there is nothing to send", option, "as in 1MiB");
    if (size && *size > kMax)
      return fail(ErrorKind::usage, fmt::format("{} is too large", format_bytes(*size)), option,
                  fmt::format("give {} or less", format_bytes(kMax)));
  }
  return {};
}

Result<std::vector<Bytes>> range_of(const CollectivesOptions& options) {
  constexpr Bytes kSmallest = kMiB, kLargest = kGiB;
  const Bytes largest = options.max_bytes.value_or(kLargest);
  const Bytes least = options.min_bytes.value_or(std::min(kSmallest, largest));
  if (least > largest)
    return fail(ErrorKind::usage,
                fmt::format("there is no size from {} to {}", format_bytes(least), format_bytes(largest)),
                "--min-bytes", "the smaller one first; --max-bytes says the other");
  std::vector<Bytes> out;
  for (Bytes bytes = least; bytes <= largest; bytes *= options.factor.value_or(2)) out.push_back(bytes);
  return out;
}

/// From the smallest to the largest, as nccl-tests has them: parts of whole 16 bytes.
Result<std::vector<Bytes>> sizes_of(const CollectivesOptions& options, CollectiveKind kind, std::uint32_t ranks) {
  FORESHARD_TRY(check_sizes(options));
  constexpr Bytes kAligned = 16;  // nccl-tests 2.17, AllGatherGetCollByteCount: (count / nranks) & -(16 / eltSize)
  const auto sizes = options.bytes ? Result<std::vector<Bytes>>(*options.bytes) : range_of(options);
  FORESHARD_TRY(sizes);
  const Bytes unit = has_parts(kind) ? kAligned * ranks : kAligned;
  std::vector<Bytes> out;
  for (const Bytes bytes : *sizes) {
    const Bytes whole = bytes / unit * unit;
    if (whole > 0) out.push_back(whole);
    if (whole == 0 && (options.bytes || bytes == sizes->back()))
      return fail(ErrorKind::usage,
                  fmt::format("{} has no {} bytes for each of {} GPUs", format_bytes(bytes), kAligned, ranks),
                  options.bytes ? "--bytes" : "--max-bytes", fmt::format("give {} or more", format_bytes(unit)));
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Result<Settings> mesh_of(const CollectivesOptions& options, const sim::MachineProfile& machine) {
  Settings settings;
  settings.gpus = options.gpus.value_or(machine.links.gpus);
  settings.nodes = options.nodes.value_or(1);
  settings.replicate = options.replicate.value_or(1);
  const auto consistent = check(settings);
  FORESHARD_TRY(consistent);
  if (settings.world() < 2)
    return fail(ErrorKind::usage, "one GPU has nobody to send to", "--gpus", "give two GPUs or more");
  FORESHARD_TRY(check_fabric(options, settings.nodes));
  FORESHARD_TRY(check_links(machine, settings.gpus, settings.nodes));
  return settings;
}

/// FSDP2 all-reduces among replicas, and gathers and scatters among shards.
Result<CommunicatorOptions> group_of_mesh(const CollectivesOptions& options, CollectiveKind kind,
                                          const Settings& settings) {
  const bool replicas = options.group.empty() ? kind == CollectiveKind::all_reduce && settings.replicate > 1
                                              : options.group == "replicate";
  CommunicatorOptions group = replicas ? replicate_group(settings) : shard_group(settings);
  if (group.ranks > 1) return group;
  return fail(ErrorKind::usage, fmt::format("a {} group of this mesh has one GPU", group.name), "--group",
              replicas ? "give --replicate 2 or more" : "give a smaller --replicate");
}

/// What the group's ring has messages of.
Result<void> check_messages(CollectiveKind kind, std::uint32_t ranks) {
  if (!sim::is_ring(kind))
    return fail(ErrorKind::usage, fmt::format("{} is no ring of all ranks", with_article(kind)), "--messages",
                "an all-gather, a reduce-scatter and an all-reduce are");
  const std::uint32_t most = sim::most_ring_ranks(kind);
  if (ranks > most)
    return fail(ErrorKind::usage, fmt::format("{} GPUs are too many for every message", ranks), "--messages",
                fmt::format("of {} up to {} GPUs can be asked for", with_article(kind), most));
  return {};
}

Result<int> predict_sizes(const CollectivesOptions& options, Console& console) {
  const CollectiveKind kind = options.kind.value_or(CollectiveKind::all_gather);
  Topology topology;
  const auto machine = read_machine_and_links(options, topology, console);
  FORESHARD_TRY(machine);
  const auto settings = mesh_of(options, *machine);
  FORESHARD_TRY(settings);
  const auto group = group_of_mesh(options, kind, *settings);
  FORESHARD_TRY(group);
  const std::uint32_t nodes = ceil_div(group->ranks, group->ranks_per_node) > 1 ? settings->nodes : 1;
  if (const std::string note = fabric_note(options.fabric, machine->network, settings->gpus, nodes); !note.empty())
    console.note(fmt::format("{} ({} groups)", note, group->name));
  const auto sizes = sizes_of(options, kind, group->ranks);
  FORESHARD_TRY(sizes);
  if (options.messages) FORESHARD_TRY(check_messages(kind, group->ranks));
  const sim::ModelledCollectives cost(*machine);
  CollectiveSizes all{machine->name, options.fabric, group->name, settings->nodes, {}};
  for (const Bytes bytes : *sizes) {
    CollectiveSize size;
    size.request = {kind, options.transport.value_or(Transport::nccl), bytes, group->ranks, group->ranks_per_node};
    size.request.dtype = options.dtype.value_or(DType::float32);
    size.request.node_stride = group->node_stride;
    size.request.all_nodes = group->all_nodes;
    size.request.node_ranks = settings->gpus;
    size.request.rank_stride = group->name == replicate_group(*settings).name ? settings->shard_ranks() : 1;
    size.price = cost.price(size.request);
    size.holding = sim::holding(*machine, size.request);
    size.not_valid = doubts(*machine, size.request, size.price, {settings->gpus, settings->nodes});
    if (options.messages) size.messages = sim::ring_messages(*machine, size.request);
    all.sizes.push_back(std::move(size));
  }
  if (options.json) {
    Json json = json_result("collectives");
    json.update(collectives_json(all));
    json["topology"] = topology_json(topology);
    print_json(console.out, json);
  } else {
    print_collectives(console.out, all);
  }
  return kDone;
}

void add_sizes(OptionSet& set, CollectivesOptions& options) {
  add_parsed<std::vector<Bytes>>(set, "--bytes", options.bytes, &sim::parse_nccl_sizes,
                                 "sizes, in place of a range, as in 16MiB or 64k,128M,1G (powers of 1024): of the "
                                 "whole buffer, nccl-tests' \"size\"")
      .type_name("SIZE[,SIZE...]");
  add_parsed<Bytes>(set, "--min-bytes", options.min_bytes, &sim::parse_nccl_size, "the smallest size; default 1MiB")
      .type_name("SIZE");
  add_parsed<Bytes>(set, "--max-bytes", options.max_bytes, &sim::parse_nccl_size, "the largest size; default 1GiB")
      .type_name("SIZE");
  set.add_option("--factor", options.factor, "from one size to the next; default 2").type_name("N").range(2U, 1024U);
}

}  // namespace

Action add_collectives(OptionSet& set) {
  auto options = std::make_shared<CollectivesOptions>();
  std::vector<std::string> kinds, transports;
  for (const CollectiveKind kind : kEnumValues<CollectiveKind>) kinds.emplace_back(dashed_name(kind));
  for (const std::string_view word : EnumNames<Transport>::kNames) transports.emplace_back(word);
  add_parsed<CollectiveKind>(
      set, "collective", options->kind, &parse_kind,
      "which one; default: all-gather, with --against all that FILE has; it says which one's FILE is "
      "where that does not")
      .type_name("KIND")
      .suggest(kinds);
  set.add_option("--machine", options->machine,
                 fmt::format("machine profile: {}, or a profile file; default: h200",
                             fmt::join(sim::builtin_profile_names(), ", ")))
      .type_name("NAME|FILE")
      .suggest(sim::builtin_profile_names());
  set.add_option("--gpus", options->gpus, "GPUs a node; default: the machine's").type_name("N").positive();
  set.add_option("--nodes", options->nodes, "nodes; default 1").type_name("N").positive();
  set.add_option("--replicate", options->replicate,
                 "HSDP: size of the mesh's replicate dimension; default 1, plain FSDP")
      .type_name("N")
      .positive();
  set.add_option("--group", options->group,
                 "which groups of the mesh, side by side; default: with --replicate replicate for an all-reduce, "
                 "else shard")
      .type_name("shard|replicate")
      .one_of({"shard", "replicate"});
  add_parsed<Transport>(set, "--transport", options->transport, &parse_transport,
                        "what moves the bytes; where it cannot, what runs instead; default nccl")
      .type_name("KIND")
      .suggest(transports);
  add_parsed<DType>(set, "--dtype", options->dtype, &parse_element, "of the elements; default float32")
      .type_name("DTYPE");
  add_sizes(set, *options);
  set.add_option("--fabric", options->fabric, kFabricHelp).type_name("FABRIC");
  set.add_option("--topology", options->topology, kTopologyHelp).type_name("FILE");
  options->links.add_to(set);
  set.add_flag("--messages", options->messages,
               "every message of the ring as well, one after another on each link, beside the price");
  set.add_option("--against", options->against,
                 "output of nccl-tests (text, or its -J file) or a probe file: measured, predicted, error of each row")
      .type_name("FILE");
  set.add_flag("--json", options->json, "as JSON");
  return [options](Console& console) {
    return options->against.empty() ? predict_sizes(*options, console) : hold_against_file(*options, console);
  };
}

}  // namespace foreshard::cli
