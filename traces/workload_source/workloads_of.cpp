#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <mutex>
#include <span>

#include "core/adapt/adapt.hpp"
#include "core/models/embedding_and_head.hpp"
#include "core/models/fsdp_section_costs.hpp"
#include "core/models/generate.hpp"
#include "core/settings/carried_out.hpp"
#include "core/settings/settings_table.hpp"
#include "sim/predict/predict.hpp"
#include "traces/workload_file/workload_file.hpp"
#include "traces/workload_source/kept.hpp"
#include "traces/workload_source/workload_source.hpp"

namespace foreshard::traces {
namespace {

// Programs kept at once: of large models one takes some 10 MB.
constexpr std::size_t kMaxKept = 16;
// And their steps, before embedding and head become units of their own, kept for other units and transports.
constexpr std::size_t kMaxSteps = 8;
// Copies of programs that nobody has any more: points of a search mostly ask for the program of the one before.
constexpr std::size_t kMaxCopies = 4;

/// Copies of programs at other settings, which are given back: the next point writes its settings over them.
class Copies {
 public:
  /// A copy of `of`, whose settings are any.
  std::unique_ptr<Workload> take(const std::shared_ptr<const Workload>& of) {
    {
      const std::lock_guard lock(mutex_);
      const auto at = std::find_if(idle_.begin(), idle_.end(), [&](const Idle& one) { return one.of == of; });
      if (at != idle_.end()) {
        std::unique_ptr<Workload> copy = std::move(at->copy);
        idle_.erase(at);
        return copy;
      }
    }
    return std::make_unique<Workload>(*of);
  }
  void give(std::shared_ptr<const Workload> of, std::unique_ptr<Workload> copy) {
    const std::lock_guard lock(mutex_);
    idle_.push_back({std::move(of), std::move(copy)});
    if (idle_.size() > kMaxCopies) idle_.pop_front();
  }

 private:
  struct Idle {
    std::shared_ptr<const Workload> of;
    std::unique_ptr<Workload> copy;
  };
  std::mutex mutex_;
  std::deque<Idle> idle_;  // the one that was given back longest ago first
};

class Generated final : public sim::WorkloadSource {
 public:
  Generated(const Source& source, const sim::MachineProfile& machine) : source_(source), machine_(machine) {}

  Result<std::shared_ptr<const Workload>> at(const Settings& wanted) override {
    if (!machine_.host_calls_known)
      return fail(ErrorKind::usage,
                  fmt::format("the machine profile {} does not say what calls cost the host", machine_.name), {},
                  "a model needs /host/calls: extend a profile that has them (docs/machines.md)");
    const Settings settings = carried_out(source_.lowering, wanted);
    auto made = shape(settings);
    if (!made || (*made)->settings == settings) return made;
    std::unique_ptr<Workload> copy = copies_->take(*made);
    copy->settings = settings;
    copy->settings.batch = (*made)->settings.batch;
    copy->settings.seq = (*made)->settings.seq;
    return std::shared_ptr<Workload>(copy.release(), [copies = copies_, of = *made](Workload* done) {
      copies->give(of, std::unique_ptr<Workload>(done));
    });
  }
  [[nodiscard]] bool one_for_all() const override { return false; }

 private:
  using Made = Result<std::shared_ptr<const Workload>>;
  using Steps = std::shared_ptr<const ModelSteps>;

  static bool shapes(std::string_view name) { return names(kShapingSettings, name); }
  static bool names(std::span<const std::string_view> list, std::string_view name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  }

  /// What shapes a program, but for `without`, as text.
  static std::string key_of(const Settings& settings, std::span<const std::string_view> without) {
    std::string key;
    for (const auto& [name, value] : setting_options(settings))
      if (shapes(name) && !names(without, name)) key += value + ' ';
    return key;
  }

  /// The same whichever point asks first: what does not shape a program has its default.
  static Settings canonical(const Settings& settings) {
    Settings out;
    for (const auto& [name, value] : setting_options(settings))
      if (shapes(name) && !set_setting(out, name, value)) return settings;
    return out;
  }

  /// The program for what shapes it.
  Made shape(const Settings& settings) {
    return programs_.get(key_of(settings, {}), [&] { return make(canonical(settings)); });
  }

  [[nodiscard]] Made make(const Settings& settings) {
    const Steps steps = steps_.get(key_of(settings, kLeaveSteps), [&] { return make_steps(settings); });
    auto workload =
        generate(*source_.model, settings, machine_.host_calls, machine_.gpu(), keeps_kernels(), steps.get());
    FORESHARD_TRY(workload);
    workload->lowering = source_.lowering;
    return std::make_shared<const Workload>(std::move(*workload));
  }

  /// Null where they fail: so does the program.
  [[nodiscard]] Steps make_steps(const Settings& settings) const {
    auto steps = generate_steps(*source_.model, settings, machine_.host_calls, machine_.gpu(), keeps_kernels());
    return steps ? std::make_shared<const ModelSteps>(std::move(*steps)) : nullptr;
  }

  [[nodiscard]] bool keeps_kernels() const { return source_.lowering == Lowering::foreshard; }

  const Source& source_;
  const sim::MachineProfile& machine_;
  std::shared_ptr<Copies> copies_ = std::make_shared<Copies>();  // which points may outlive this with
  Kept<Made> programs_{kMaxKept};
  Kept<Steps> steps_{kMaxSteps};
};

/// A workload that was not captured, of which FSDP2's and the optimizer's own work has no times: the machine's, for the
/// settings that are planned.
class WithSections final : public sim::WorkloadSource {
 public:
  WithSections(std::shared_ptr<const Workload> workload, const sim::MachineProfile& machine)
      : workload_(std::move(workload)), machine_(machine) {}

  Result<std::shared_ptr<const Workload>> at(const Settings& wanted) override {
    auto workload = std::make_shared<Workload>(*workload_);
    workload->settings = carried_out(workload_->lowering, wanted);
    workload->settings.units_per_group = workload_->settings.units_per_group;  // units are merged later, with these
    auto sections = model::section_costs(*workload, machine_.host_calls);
    FORESHARD_TRY(sections);
    workload->sections = std::move(*sections);
    workload->settings = workload_->settings;
    return std::shared_ptr<const Workload>(std::move(workload));
  }
  [[nodiscard]] bool one_for_all() const override { return false; }

 private:
  std::shared_ptr<const Workload> workload_;
  const sim::MachineProfile& machine_;
};

/// Of kShapingSettings those that change the ops of a generated program; the others change its units and what
/// section_costs() says.
constexpr std::array<std::string_view, 12> kOpsOf{
    "tensor_parallel", "expert_parallel", "router_imbalance", "batch",   "seq",    "param_dtype",
    "accumulate",      "checkpoint",      "checkpoint_share", "kernels", "float8", "float8_all_gather"};

/// A model's workload that was stored: where a preset makes it, that makes those of other settings, too. Else the ops
/// of its program are given, what FSDP2 and the optimizer add to them is made anew for the settings that are planned,
/// as Generated makes it.
class StoredModel final : public sim::WorkloadSource {
 public:
  StoredModel(const Source& source, const sim::MachineProfile& machine)
      : workload_(source.workload),
        machine_(machine),
        stored_lowering_(source.stored_lowering.value_or(workload_->lowering)),
        generated_(preset_, machine) {
    preset_.model = source.preset;
    preset_.lowering = workload_->lowering;
  }

  Result<std::shared_ptr<const Workload>> at(const Settings& asked) override {
    const Settings wanted = carried_out(workload_->lowering, asked);
    if (wanted == workload_->settings && workload_->lowering == stored_lowering_) return workload_;
    if (is_of_preset()) return generated_.at(asked);
    Settings remade = wanted;
    for (const auto& [name, value] : setting_options(workload_->settings))
      if (std::find(kOpsOf.begin(), kOpsOf.end(), name) != kOpsOf.end())
        FORESHARD_TRY(set_setting(remade, name, value));
    if (workload_->settings.offload) remade.offload = true;  // its setup makes no shards on the device
    if (remade == workload_->settings) return workload_;
    auto workload = std::make_shared<Workload>(*workload_);
    FORESHARD_TRY(wrap(remade, *workload));
    // Sections follow all that is wanted (microbatches); the program is still the stored one's.
    workload->settings = wanted;
    workload->settings.units_per_group = remade.units_per_group;
    auto sections = model::section_costs(*workload, machine_.host_calls);
    FORESHARD_TRY(sections);
    workload->sections = std::move(*sections);
    workload->settings = std::move(remade);
    return std::shared_ptr<const Workload>(std::move(workload));
  }
  [[nodiscard]] bool one_for_all() const override { return false; }

 private:
  /// Whether the preset makes the stored program.
  [[nodiscard]] bool is_of_preset() {
    if (!preset_.model) return false;
    std::call_once(compared_, [this] {
      Source as_stored;
      as_stored.model = preset_.model;
      as_stored.lowering = stored_lowering_;
      const auto made = Generated(as_stored, machine_).at(workload_->settings);
      Workload stored = *workload_;
      stored.lowering = stored_lowering_;
      of_preset_ = made && to_json(**made) == to_json(stored);
    });
    return of_preset_;
  }

  /// Units as in `wanted`, where they can be made of the stored ones; else they stay, and so does what `wanted` says.
  [[nodiscard]] Result<void> wrap(Settings& wanted, Workload& workload) const {
    const Settings& have = workload_->settings;
    if (wanted.units_per_group != have.units_per_group) {
      if (have.units_per_group == 1)
        FORESHARD_TRY(merge_units(workload, wanted.units_per_group));
      else
        wanted.units_per_group = have.units_per_group;
    }
    if (have.fully_shard_embedding_and_head) wanted.fully_shard_embedding_and_head = true;
    if (wanted.fully_shard_embedding_and_head && !have.fully_shard_embedding_and_head)
      FORESHARD_TRY(model::wrap_embedding_and_head(workload, machine_.host_calls));
    return {};
  }

  std::shared_ptr<const Workload> workload_;
  const sim::MachineProfile& machine_;
  Lowering stored_lowering_;
  Source preset_;  // that generated_ is of
  Generated generated_;
  std::once_flag compared_;
  bool of_preset_ = false;
};

bool equal(const SectionItem& a, const SectionItem& b) {
  return a.role == b.role && a.host_before == b.host_before && a.work == b.work && a.bytes == b.bytes;
}

bool equal(const SectionCost& a, const SectionCost& b) {
  return a.section == b.section && a.unit == b.unit && a.group == b.group && a.pass == b.pass &&
         a.host_after == b.host_after &&
         std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(),
                    [](const SectionItem& x, const SectionItem& y) { return equal(x, y); });
}

/// Whether it is a model's, made with the host costs that the machine has: then others can be made like it.
bool made_with(const Workload& workload, const sim::MachineProfile& machine) {
  if (!sim::from_model(workload) || !workload.optimizer_known || !machine.host_calls_known) return false;
  Workload again = workload;
  const auto sections = model::section_costs(again, machine.host_calls);
  return sections && std::equal(sections->begin(), sections->end(), workload.sections.begin(), workload.sections.end(),
                                [](const SectionCost& a, const SectionCost& b) { return equal(a, b); });
}

bool lacks_sections(const Workload& workload) {
  return workload.has_timing && workload.optimizer_known && workload.sections.empty() &&
         workload.lowering == Lowering::pytorch;
}

}  // namespace

std::unique_ptr<sim::WorkloadSource> workloads_of(const Source& source, const sim::MachineProfile& machine) {
  if (source.workload && lacks_sections(*source.workload) && machine.host_calls_known)
    return std::make_unique<WithSections>(source.workload, machine);
  if (source.workload && made_with(*source.workload, machine)) return std::make_unique<StoredModel>(source, machine);
  if (source.workload) return std::make_unique<sim::OneWorkload>(source.workload, source.host_scale);
  return std::make_unique<Generated>(source, machine);
}

}  // namespace foreshard::traces
