#include "traces/infer/check_given.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/json_io.hpp"
#include "core/fsdp/unit_plan.hpp"
#include "core/settings/settings_names.hpp"
#include "core/settings/settings_table.hpp"

namespace foreshard::traces {
namespace {

constexpr std::uint32_t kMaxReplicate = 32'768;  // keeps the world within 32 bits
constexpr const char* kHint = "correct it, or leave it out: it is read off the recording";

class GivenCheck {
 public:
  GivenCheck(const About& given, const Settings& settings, const Inference& inference, const std::string& about_file,
             const std::string& recording)
      : given_(given), settings_(settings), inference_(inference), about_(about_file), recording_(recording) {}

  Result<void> run() {
    for (const auto part : {&GivenCheck::world, &GivenCheck::dtypes, &GivenCheck::units, &GivenCheck::schedule,
                            &GivenCheck::buffers, &GivenCheck::inputs})
      FORESHARD_TRY((this->*part)());
    return {};
  }

 private:
  [[nodiscard]] tl::unexpected<Error> contradiction(std::string_view key) const {
    std::string said;
    for (const auto& [name, value] : setting_options(settings_))
      if (name == key) said = value;
    const InferredItem* item = inference_.item(key);
    return fail(ErrorKind::mismatch,
                fmt::format("says {} {}, but {} has {} ({})", key, said, recording_, item == nullptr ? "" : item->value,
                            item == nullptr ? "" : item->from),
                about_, kHint);
  }
  /// Fails where the file gives the key, the recording settles it, and they are not equal.
  [[nodiscard]] Result<void> equal(std::string_view key, bool same) const {
    const InferredItem* item = inference_.item(key);
    if (same || !gives(given_, key) || item == nullptr || !item->settled) return {};
    return contradiction(key);
  }

  Result<void> world();
  Result<void> dtypes();
  Result<void> units();
  Result<void> unit(std::size_t index, const UnitPlan& plan);
  Result<void> schedule();
  Result<void> buffers();
  Result<void> inputs();

  const About& given_;
  const Settings& settings_;
  const Inference& inference_;
  const std::string& about_;
  const std::string& recording_;
};

Result<void> GivenCheck::world() {
  FORESHARD_TRY(equal("replicate", settings_.replicate == inference_.settings.replicate));
  const std::uint32_t ranks = inference_.settings.shard_ranks();
  const std::uint64_t world = std::uint64_t{inference_.settings.world()} * inference_.other_ranks;
  if (settings_.shard_ranks() == ranks || settings_.world() == world) return {};
  return fail(ErrorKind::mismatch,
              fmt::format("says {} nodes of {} GPUs and replicate {}, but {} shards over {} ranks", settings_.nodes,
                          settings_.gpus, settings_.replicate, recording_, ranks),
              about_, kHint);
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

/// What is resharded and prefetched, unit by unit: other words can ask for the same.
Result<void> GivenCheck::schedule() {
  const auto given = plan_units(settings_, inference_.units, 1);
  const auto found = plan_units(inference_.settings, inference_.units, 1);
  if (!given || !found) return {};
  for (std::size_t i = 0; i < given->size(); ++i) {
    const UnitPlan& a = (*given)[i];
    const UnitPlan& b = (*found)[i];
    if (inference_.recorded[i].gather.block > 0 && !(a.reshard == b.reshard))
      for (const char* key : {"reshard_of_unit", "root_reshard_explicit", "reshard_after_forward"})
        FORESHARD_TRY(equal(key, false));
    for (const char* key : {"forward_prefetch", "prefetch_lists"})
      FORESHARD_TRY(equal(key, a.forward_prefetch == b.forward_prefetch));
    for (const char* key : {"backward_prefetch", "prefetch_lists"})
      FORESHARD_TRY(equal(key, a.backward_prefetch == b.backward_prefetch));
  }
  return equal("accumulate_with_sync", settings_.accumulate_with_sync == inference_.settings.accumulate_with_sync);
}

Result<void> GivenCheck::buffers() {
  const Settings& found = inference_.settings;
  if (settings_.gather_alloc == GatherAlloc::copy_in)
    FORESHARD_TRY(equal("unshard_async", settings_.unshard_async == found.unshard_async));
  const auto late = [](const Settings& s) { return s.release == Release::record_stream; };
  FORESHARD_TRY(equal("release", late(settings_) == late(found)));
  FORESHARD_TRY(equal("all_gather", settings_.all_gather == found.all_gather));
  return equal("reduce_scatter", settings_.reduce_scatter == found.reduce_scatter);
}

/// Without a settled batch: inputs hold batch times sequence length, or one token more a sequence, of something.
Result<void> GivenCheck::inputs() {
  FORESHARD_TRY(equal("batch", settings_.batch == inference_.settings.batch));
  FORESHARD_TRY(equal("seq", settings_.seq == inference_.settings.seq));
  if (inference_.item("batch") != nullptr || inference_.inputs.empty() || !gives(given_, "batch") ||
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

Result<About> completed(About given, const Inference& inference, const std::string& about_file,
                        const std::string& recording) {
  Settings settings = inference.settings;
  for (const auto& [key, value] : setting_options(given.settings))
    if (gives(given, key)) FORESHARD_TRY(set_setting(settings, key, value));
  if (gives(given, "replicate") && !gives(given, "gpus") && !gives(given, "nodes")) {
    settings.gpus = inference.settings.shard_ranks() * std::min(settings.replicate, kMaxReplicate);
    settings.nodes = 1;
  }
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
  for (const InferredItem& item : inference.items)
    if (!item.settled && !is_given(item.key))
      stats.push_back({"assumed_" + item.key, ImportStat::Severity::info, 1,
                       fmt::format("{} {} is assumed: {}", item.key, item.value, item.from)});
  if (!given.units.empty()) return stats;
  for (const std::string& question : inference.closed)
    stats.push_back({"closed", ImportStat::Severity::info, 1, question});
  return stats;
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
