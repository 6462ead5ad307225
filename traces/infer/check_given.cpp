#include "traces/infer/check_given.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "core/base/json_io.hpp"
#include "core/fsdp/unit_plan.hpp"
#include "core/settings/settings_names.hpp"
#include "core/settings/settings_table.hpp"
#include "traces/infer/inferred_settings.hpp"

namespace foreshard::traces {
namespace {

constexpr std::uint32_t kMaxWorld = 1U << 20;  // of the world, as settings_check.cpp
constexpr const char* kHint = "correct it, or leave it out: it is read off the recording";

class GivenCheck {
 public:
  GivenCheck(const About& given, const Settings& settings, const Inference& inference, const std::string& about_file,
             const std::string& recording)
      : given_(given), settings_(settings), inference_(inference), about_(about_file), recording_(recording) {}

  Result<void> run() {
    for (const auto part : {&GivenCheck::world, &GivenCheck::dtypes, &GivenCheck::units, &GivenCheck::schedule,
                            &GivenCheck::buffers, &GivenCheck::program, &GivenCheck::inputs})
      FORESHARD_TRY((this->*part)());
    return {};
  }

 private:
  /// Fails where the file gives the key, the recording settles what `shown` names, and they are not the same.
  [[nodiscard]] Result<void> equal(std::string_view key, bool same, std::string_view shown) const {
    const InferredItem* item = inference_.item(shown);
    if (same || !gives(given_, key) || item == nullptr || !item->settled) return {};
    const std::string other = key == shown ? std::string() : fmt::format("{} ", shown);
    return fail(ErrorKind::mismatch,
                fmt::format("says {} {}, but {} has {}{} ({})", key, value_of(settings_, key), recording_, other,
                            item->value, item->from),
                about_, kHint);
  }
  [[nodiscard]] Result<void> equal(std::string_view key, bool same) const { return equal(key, same, key); }
  /// The same of several keys that one rule reads.
  [[nodiscard]] Result<void> differ(std::span<const std::string_view> keys) const {
    for (const std::string_view key : keys)
      for (const std::string_view shown : keys)
        if (key == shown || inference_.item(key) == nullptr) FORESHARD_TRY(equal(key, false, shown));
    return {};
  }

  Result<void> world();
  Result<void> dtypes();
  Result<void> units();
  Result<void> unit(std::size_t index, const UnitPlan& plan);
  Result<void> schedule();
  Result<void> reshard(const UnitPlan& given, const UnitPlan& found);
  Result<void> buffers();
  Result<void> program();
  Result<void> inputs();

  const About& given_;
  const Settings& settings_;
  const Inference& inference_;
  const std::string& about_;
  const std::string& recording_;
};

Result<void> GivenCheck::world() {
  const Settings& found = inference_.settings;
  FORESHARD_TRY(equal("replicate", settings_.replicate == found.replicate));
  if (settings_.shard_ranks() != found.shard_ranks()) {
    const std::string inner =
        settings_.tensor_parallel > 1 ? fmt::format(", tensor_parallel {}", settings_.tensor_parallel) : "";
    return fail(ErrorKind::mismatch,
                fmt::format("says {} nodes of {} GPUs and replicate {}{}, but {} shards over {} ranks", settings_.nodes,
                            settings_.gpus, settings_.replicate, inner, recording_, found.shard_ranks()),
                about_, kHint);
  }
  if (settings_.world() != found.world()) return {};  // of more replicas, or other parallelism, than is settled
  FORESHARD_TRY(equal("nodes", settings_.nodes == found.nodes));
  return equal("gpus", settings_.gpus == found.gpus);
}

/// Dtypes in effect: none, and the one that parameters have already, are the same.
Result<void> GivenCheck::dtypes() {
  const auto original = [&] {
    for (const Unit& unit : inference_.units)
      if (!unit.parameters.empty()) return unit.parameters.front().dtype;
    return DType::float32;
  }();
  const auto compute = [&](const Settings& s) { return s.param_dtype.value_or(original); };
  const auto reduce = [&](const Settings& s) { return s.reduce_dtype.value_or(compute(s)); };
  FORESHARD_TRY(equal("param_dtype", compute(settings_) == compute(inference_.settings)));
  return equal("reduce_dtype", reduce(settings_) == reduce(inference_.settings));
}

Result<void> GivenCheck::unit(std::size_t index, const UnitPlan& plan) {
  const Unit& unit = given_.units[index];
  const auto found = std::find_if(inference_.recorded.begin(), inference_.recorded.end(),
                                  [&](const RecordedUnit& u) { return u.name == unit.name; });
  if (found == inference_.recorded.end() || found->gather.block == 0 || plan.groups.size() != 1) return {};
  const std::vector<Bytes>& recorded = found->gather.unsharded;
  if (recorded.size() != unit.parameters.size())
    return fail(ErrorKind::mismatch,
                fmt::format("gives the unit {} parameters, but {} copies out {}", unit.parameters.size(), recording_,
                            recorded.size()),
                fmt::format("{}, unit \"{}\"", about_, unit.name), kHint);
  for (std::size_t i = 0; i < recorded.size(); ++i) {
    const Bytes bytes = plan.groups.front().parameters[i].unsharded;
    if (bytes != recorded[i])
      return fail(ErrorKind::mismatch,
                  fmt::format("'{}' has {} bytes unsharded, but {} copies out {}", unit.parameters[i].name, bytes,
                              recording_, recorded[i]),
                  fmt::format("{}, unit \"{}\"", about_, unit.name), kHint);
  }
  return {};
}

Result<void> GivenCheck::units() {
  if (given_.units.empty()) return {};
  const auto plans = plan_units(settings_, given_.units, 1);
  if (!plans) return {};  // said elsewhere
  for (std::size_t i = 0; i < plans->size(); ++i) FORESHARD_TRY(unit(i, (*plans)[i]));
  return {};
}

/// The key that says so of this unit: its own, the root's, or that of all.
Result<void> GivenCheck::reshard(const UnitPlan& given, const UnitPlan& found) {
  if (given.reshard == found.reshard) return {};
  constexpr std::string_view kAll = "reshard_after_forward";
  const std::string& unit = inference_.units[given.id.value].name;
  if (settings_.reshard_of_unit.contains(unit)) FORESHARD_TRY(equal("reshard_of_unit", false, kAll));
  FORESHARD_TRY(equal(kAll, settings_.reshard_after_forward == inference_.settings.reshard_after_forward));
  if (unit.empty()) FORESHARD_TRY(equal("root_reshard_explicit", false));
  return equal("reshard_of_unit", false, kAll);
}

/// What is resharded and prefetched, unit by unit: other words can ask for the same.
Result<void> GivenCheck::schedule() {
  const auto given = plan_units(settings_, inference_.units, 1);
  const auto found = plan_units(inference_.settings, inference_.units, 1);
  if (!given || !found) return {};
  constexpr std::array<std::string_view, 2> kForward{"forward_prefetch", "prefetch_lists"};
  constexpr std::array<std::string_view, 2> kBackward{"backward_prefetch", "prefetch_lists"};
  // Other units before the root: what is said of all shows there first.
  for (std::size_t n = 1; n <= given->size(); ++n) {
    const std::size_t i = n % given->size();
    const UnitPlan& a = (*given)[i];
    const UnitPlan& b = (*found)[i];
    if (inference_.recorded[i].gather.block > 0) FORESHARD_TRY(reshard(a, b));
    if (a.forward_prefetch != b.forward_prefetch) FORESHARD_TRY(differ(kForward));
    if (a.backward_prefetch != b.backward_prefetch) FORESHARD_TRY(differ(kBackward));
  }
  FORESHARD_TRY(equal("units_per_group", settings_.units_per_group == inference_.settings.units_per_group));
  return equal("accumulate_with_sync", settings_.accumulate_with_sync == inference_.settings.accumulate_with_sync);
}

Result<void> GivenCheck::buffers() {
  const Settings& found = inference_.settings;
  if (settings_.gather_alloc == GatherAlloc::copy_in)
    FORESHARD_TRY(equal("unshard_async", settings_.unshard_async == found.unshard_async));
  else
    FORESHARD_TRY(equal("gather_alloc", found.unshard_async, "unshard_async"));
  const auto late = [](const Settings& s) {
    return std::pair{s.release == Release::record_stream, s.reduce_scatter_release == Release::record_stream};
  };
  FORESHARD_TRY(equal("release", late(settings_) == late(found)));
  FORESHARD_TRY(equal("all_gather", settings_.all_gather == found.all_gather));
  return equal("reduce_scatter", settings_.reduce_scatter == found.reduce_scatter);
}

/// Which blocks make their forward again, and whether all of it.
Result<void> GivenCheck::program() {
  const std::vector<bool>& found = inference_.checkpointed;
  bool same = (settings_.checkpoint == Checkpoint::selective_op) ==
              (inference_.settings.checkpoint == Checkpoint::selective_op);
  for (std::uint32_t i = 0; i < found.size(); ++i) same &= settings_.checkpoints_block(i) == found[i];
  FORESHARD_TRY(equal("checkpoint", same));
  const bool shares = settings_.checkpoint == Checkpoint::selective_layer;
  return equal("checkpoint_share", same || !shares, "checkpoint");
}

/// Without a settled batch: inputs hold batch times sequence length, or one token more a sequence, of something.
Result<void> GivenCheck::inputs() {
  FORESHARD_TRY(equal("batch", settings_.batch == inference_.settings.batch));
  FORESHARD_TRY(equal("seq", settings_.seq == inference_.settings.seq));
  const InferredItem* seq = inference_.item("seq");
  if ((seq != nullptr && seq->settled) || inference_.inputs.empty() || !gives(given_, "batch") ||
      settings_.batch.value_or(0) == 0 || settings_.seq == 0U)
    return {};
  const std::uint64_t batch = *settings_.batch;
  const std::uint64_t sequence = settings_.seq.value_or(1);
  const auto holds = [&](Bytes bytes) {
    return bytes % (batch * sequence) == 0 || bytes % (batch * (sequence + 1)) == 0;
  };
  if (std::any_of(inference_.inputs.begin(), inference_.inputs.end(), holds)) return {};
  return fail(ErrorKind::mismatch,
              fmt::format("says batch {} and seq {}, but the inputs in {} have {} bytes", batch,
                          settings_.seq ? std::to_string(sequence) : "null", recording_, inference_.inputs.front()),
              about_, kHint);
}

}  // namespace

Result<Settings> given_mesh(const About& given, const Inference& inference, std::optional<std::uint64_t> world,
                            const std::string& about_file, const std::string& recording) {
  Settings mesh = inference.settings;
  if (!gives(given, "tensor_parallel")) return mesh;
  const std::uint32_t said = given.settings.tensor_parallel;
  if (inference.neighbours_apart > 0 && said != inference.neighbours_apart)
    return fail(ErrorKind::mismatch,
                fmt::format("says tensor_parallel {}, but the ranks over which {} shards lie {} apart in its trace",
                            said, recording, inference.neighbours_apart),
                about_file, kHint);
  const std::uint64_t others = std::uint64_t{mesh.shard_ranks()} * mesh.replicate;
  const std::uint64_t ranks = others * said;
  if (ranks > kMaxWorld || (world && *world % ranks != 0))
    return fail(ErrorKind::mismatch,
                fmt::format("says tensor_parallel {}, but {} shards over {} ranks{}", said, recording, others,
                            world ? fmt::format(" of {}", *world) : std::string()),
                about_file, world ? kHint : "correct it: without a trace it is not in the recording");
  mesh.tensor_parallel = said;
  mesh.gpus = static_cast<std::uint32_t>(ranks);
  mesh.nodes = 1;
  return mesh;
}

Result<About> completed(About given, const Inference& inference, const std::string& about_file,
                        const std::string& recording) {
  Settings settings = inference.settings;
  for (const auto& [key, value] : setting_options(given.settings))
    if (gives(given, key)) FORESHARD_TRY(set_setting(settings, key, value));
  const auto given_any = [&](auto... keys) { return (gives(given, keys) || ...); };
  if (given_any("replicate", "tensor_parallel") && !given_any("gpus", "nodes")) {
    const std::uint64_t world = std::uint64_t{inference.settings.shard_ranks()} *
                                std::min(settings.replicate, kMaxWorld) * std::min(settings.tensor_parallel, kMaxWorld);
    if (world != settings.world()) {
      settings.gpus = static_cast<std::uint32_t>(std::min<std::uint64_t>(world, UINT32_MAX));
      settings.nodes = 1;
    }
  }
  // On the compute stream either way: the recording was read as async.
  if (settings.gather_alloc == GatherAlloc::compute && !given_any("unshard_async")) settings.unshard_async = false;
  if (auto done = check(settings); !done) {
    Error error = done.error();
    error.kind = ErrorKind::mismatch;
    error.where = about_file.empty() ? recording : about_file;
    return tl::unexpected(std::move(error));
  }
  FORESHARD_TRY(GivenCheck(given, settings, inference, about_file, recording).run());
  given.settings = settings;
  if (given.units.empty()) given.units = inference.units;
  if (given.sm_count == 0) given.sm_count = inference.sm_count;
  return given;
}

std::vector<ImportStat> assumptions(const About& given, const Inference& inference) {
  std::vector<ImportStat> stats;
  const auto is_given = [&](const std::string& key) {
    if (key == "units" || key == "parameters") return !given.units.empty();
    if (key == "nodes") return gives(given, key) || gives(given, "gpus");
    return key == "sm_count" ? given.sm_count != 0 : gives(given, key);
  };
  for (const InferredItem& item : inference.items) {
    if (item.settled) continue;
    if (!is_given(item.key)) {
      stats.push_back({"assumed_" + item.key, ImportStat::Severity::info, 1,
                       fmt::format("{} {} is assumed: {}", item.key, item.value, item.from)});
      continue;
    }
    const std::string said = value_of(given.settings, item.key);
    if (gives(given, item.key) && said != item.value)
      stats.push_back({"given_" + item.key, ImportStat::Severity::info, 1,
                       fmt::format("{} {} is given: the recording does not settle it, and would as "
                                   "well be one with {} ({})",
                                   item.key, said, item.value, item.from)});
  }
  if (inference.item("batch") == nullptr && gives(given, "batch"))
    stats.push_back({"given_batch", ImportStat::Severity::info, 1,
                     given.settings.seq ? fmt::format("batch {} and seq {} are given: the recording settles neither",
                                                      value_of(given.settings, "batch"), *given.settings.seq)
                                        : fmt::format("batch {} is given: the recording does not settle it",
                                                      value_of(given.settings, "batch"))});
  if (!given.units.empty()) return stats;
  for (const std::string& question : inference.unsettled)
    stats.push_back({"not_settled", ImportStat::Severity::info, 1, question});
  return stats;
}

Result<void> check_given_buffers(const About& about, const Settings& given, const Settings& found,
                                 const std::string& about_file, const std::string& recording) {
  for (const char* key : {"gather_alloc", "offload", "unshard_async"}) {
    const std::string said = value_of(given, key);
    const std::string shown = value_of(found, key);
    if (gives(about, key) && said != shown)
      return fail(
          ErrorKind::mismatch,
          fmt::format("says {} {}, but the requests in {} are those of {} {}", key, said, recording, key, shown),
          about_file, kHint);
  }
  return {};
}

Result<void> check_given_optimizer(Optimizer given, const Inference& inference, const std::string& about_file,
                                   const std::string& recording) {
  const InferredItem* item = inference.item("optimizer");
  if (item == nullptr || !item->settled || inference.settings.optimizer == given) return {};
  return fail(ErrorKind::mismatch,
              fmt::format("says optimizer {}, but {} has {} ({})", json_quoted(name(given)), recording, item->value,
                          item->from),
              about_file, kHint);
}

}  // namespace foreshard::traces
