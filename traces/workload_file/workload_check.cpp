#include "traces/workload_file/workload_check.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "core/settings/settings_table.hpp"
#include "core/workload/workload_names.hpp"
#include "traces/workload_file/kernel_place_check.hpp"

namespace foreshard::traces {
namespace {

constexpr std::size_t kSetup = ~std::size_t{0};  // in place of a step's number

bool names_a_unit(Hook hook) {
  return hook == Hook::pre_forward || hook == Hook::post_forward || hook == Hook::pre_backward ||
         hook == Hook::post_backward;
}

/// The names given so far in a program, below kMaxTensors, and whether each is still allocated.
class States {
 public:
  enum class State : std::uint8_t { none = 0, allocated = 1, freed = 2 };

  [[nodiscard]] State of(TensorId tensor) const {
    return tensor.value < states_.size() ? states_[tensor.value] : State::none;
  }
  void set(TensorId tensor, State state) {
    if (tensor.value >= states_.size()) states_.resize(std::size_t{tensor.value} + 1);
    states_[tensor.value] = state;
  }

 private:
  std::vector<State> states_;
};

class Checker {
 public:
  Checker(const Workload& workload, std::string_view where) : workload_(workload), where_(where) {
    for (const Unit& unit : workload.units) parameters_ += unit.parameters.size();
  }

  Result<void> run() {
    if (const auto settings = check(workload_.settings); !settings)
      fail("settings", settings.error().what, settings.error().hint);
    if (workload_.sm_count == 0) fail("sm_count", "a GPU has at least one SM");
    check_lists();
    check_units();
    check_process_groups();
    check_sections();
    if (error_) return tl::unexpected(*error_);
    note_allocations();
    KernelPlaces places(workload_);
    places.begin_setup();
    check_program(workload_.setup, kSetup, places);
    for (std::size_t i = 0; i < workload_.steps.size(); ++i) {
      places.begin_step(i);
      check_program(workload_.steps[i], i, places);
      if (error_) break;
      if (std::string fault = places.loss_fault(); !fault.empty()) fail(fmt::format("losses[{}]", i), std::move(fault));
    }
    if (!error_) return {};
    return tl::unexpected(*error_);
  }

 private:
  void fail(std::string path, std::string what, std::string hint = {}) {
    if (!error_) error_ = Error{ErrorKind::input, std::move(what), where_ + ": $." + path, std::move(hint)};
  }

  /// An id that is given names one of `count` things.
  template <class Tag, class Path>
  void check_id(Id<Tag> id, std::string_view what, std::size_t count, Path&& path) {
    if (id.valid() && id.value >= count) fail(path(), fmt::format("there is no {} {}, only {}", what, id.value, count));
  }
  template <class Path>
  void check_time(Nanoseconds time, Path&& path) {
    if (time.count < 0 || time.count > kMaxOpTime)
      fail(path(), fmt::format("a time of {} ns is outside 0 to {}", time.count, kMaxOpTime));
  }

  void check_lists() {
    if (workload_.units.empty()) fail("units", "there is no unit; the first is the root");
    if (workload_.steps.empty()) fail("steps", "there is no step");
    if (workload_.cycle == 0 || workload_.cycle > workload_.steps.size())
      fail("cycle", fmt::format("{} of {} steps cannot repeat", workload_.cycle, workload_.steps.size()));
    if (workload_.measured && workload_.measured->cycle != workload_.cycle)
      fail("measured.cycle",
           fmt::format("{}, where the steps repeat after {}", workload_.measured->cycle, workload_.cycle));
    for (std::size_t i = 0; i < workload_.rank_shapes.size(); ++i) {
      const RankShape& shape = workload_.rank_shapes[i];
      if (shape.batch == 0 || shape.seq == 0 || (i > 0 && shape.rank <= workload_.rank_shapes[i - 1].rank))
        fail("rank_shapes", fmt::format("item {}: ranks ascend, and their batches and lengths are known", i));
    }
    if (workload_.recorded.size() > kMaxRecordedSteps)
      fail("recorded_steps", fmt::format("{} steps are more than {}", workload_.recorded.size(), kMaxRecordedSteps));
    if (!workload_.recorded.empty() && workload_.recorded.size() < workload_.steps.size())
      fail("recorded_steps", fmt::format("{} for {} steps", workload_.recorded.size(), workload_.steps.size()));
    if (workload_.segment_addresses.size() != workload_.segment_sizes.size())
      fail("segment_sizes", fmt::format("{} sizes for {} addresses", workload_.segment_sizes.size(),
                                        workload_.segment_addresses.size()));
    for (std::size_t i = 0; i < workload_.returns.late.size(); ++i) {
      const std::uint64_t free = workload_.returns.late[i].free;
      if (free >= workload_.returns.frees || (i > 0 && free <= workload_.returns.late[i - 1].free))
        fail(fmt::format("late_returns[{}]", i),
             fmt::format("frees ascend and lie below recorded_frees ({})", workload_.returns.frees));
    }
    for (std::size_t i = 0; i < workload_.parameters_order.size(); ++i) {
      const auto path = [&] { return fmt::format("parameters_order[{}]", i); };
      check_id(workload_.parameters_order[i], "parameter", parameters_, path);
      if (!workload_.parameters_order[i].valid()) fail(path(), "a parameter is wanted here");
    }
    check_param_groups();
  }

  void check_param_groups() {
    const std::vector<std::uint32_t>& groups = workload_.optimizer_param_groups;
    if (groups.empty()) return;
    const std::size_t count = workload_.parameters_order.size();
    if (std::find(groups.begin(), groups.end(), 0U) != groups.end() ||
        std::accumulate(groups.begin(), groups.end(), std::size_t{0}) != count)
      fail("optimizer_param_groups",
           fmt::format("every group has parameters, and together they have the {} of parameters_order", count));
  }

  void check_units() {
    for (std::size_t i = 0; i < workload_.units.size(); ++i) {
      const std::vector<std::uint32_t>& groups = workload_.units[i].groups;
      if (groups.empty()) continue;
      const bool some = std::find(groups.begin(), groups.end(), 0U) == groups.end();
      if (!some ||
          std::accumulate(groups.begin(), groups.end(), std::size_t{0}) != workload_.units[i].parameters.size())
        return fail(fmt::format("units[{}].groups", i),
                    "every group has parameters, and together they have the unit's");
    }
    for (std::size_t i = 0; i < workload_.units.size(); ++i)
      for (std::size_t j = 0; j < workload_.units[i].parameters.size(); ++j) {
        Bytes elements = 1;
        for (const std::int64_t size : workload_.units[i].parameters[j].shape) {
          const bool fits = size >= 0 && (size == 0 || elements <= kMaxAllocation / static_cast<Bytes>(size));
          if (!fits) fail(fmt::format("units[{}].parameters[{}][1]", i, j), "no parameter has this shape");
          if (!fits) return;
          elements *= static_cast<Bytes>(size);
        }
        const Parameter& parameter = workload_.units[i].parameters[j];
        if (parameter.shard_dim > 0 && parameter.shard_dim >= parameter.shape.size())
          return fail(fmt::format("units[{}].parameters[{}][6]", i, j),
                      fmt::format("'{}' has {} dimensions", parameter.name, parameter.shape.size()));
      }
  }

  void check_process_groups() {
    constexpr std::uint32_t kMaxGroupRanks = 1U << 20;  // as many as a world may have (settings_check.cpp)
    for (std::size_t i = 0; i < workload_.process_groups.size(); ++i) {
      const ProcessGroup& group = workload_.process_groups[i];
      if (group.ranks == 0 || group.stride == 0 || group.ranks > kMaxGroupRanks || group.stride > kMaxGroupRanks)
        fail(fmt::format("process_groups[{}]", i),
             fmt::format("ranks and stride of a process group are 1 to {}", kMaxGroupRanks));
    }
  }

  template <class Path>
  void check_collective(const Op& op, Path&& path) {
    if (op.collective.group >= workload_.process_groups.size())
      return fail(path(), fmt::format("there is no process group {}, only {}", op.collective.group,
                                      workload_.process_groups.size()));
    if (op.collective.bytes > kMaxAllocation)
      fail(path(), fmt::format("{} bytes are more than {}", op.collective.bytes, kMaxAllocation));
  }

  void check_sections() {
    for (std::size_t i = 0; i < workload_.sections.size(); ++i) {
      const SectionCost& cost = workload_.sections[i];
      const auto path = [&] { return fmt::format("sections[{}]", i); };
      check_id(cost.unit, "unit", workload_.units.size(), path);
      check_time(cost.host_after, path);
      for (std::size_t j = 0; j < cost.items.size(); ++j) {
        const auto item_path = [&] { return fmt::format("sections[{}].items[{}]", i, j); };
        check_time(cost.items[j].host_before, item_path);
        check_time(cost.items[j].work, item_path);
      }
    }
  }

  /// Which names each program gives, sorted, for frees from later programs.
  void note_allocations() {
    const auto names = [](const Program& program) {
      std::vector<TensorId> out;
      for (const Op& op : program.ops)
        if (op.kind == OpKind::alloc && op.tensor.valid()) out.push_back(op.tensor);
      std::sort(out.begin(), out.end());
      return out;
    };
    setup_names_ = names(workload_.setup);
    for (const Program& step : workload_.steps) step_names_.push_back(names(step));
  }

  [[nodiscard]] static bool has(const std::vector<TensorId>& names, TensorId tensor) {
    return std::binary_search(names.begin(), names.end(), tensor);
  }

  /// Whether a free in program `step` can mean a tensor of an earlier one. The programs of the cycle run again and
  /// again, so what they free may come from each of the programs that they follow.
  [[nodiscard]] bool allocated_earlier(const Op& op, std::size_t step) const {
    if (op.from_setup || op.steps_ago == step + 1) return has(setup_names_, op.tensor);
    if (op.steps_ago > step) return false;
    const std::size_t count = workload_.steps.size();
    const std::size_t last = step + workload_.cycle >= count ? count - 1 : step - op.steps_ago;
    for (std::size_t i = step - op.steps_ago; i <= last; ++i)
      if (has(step_names_[i], op.tensor)) return true;
    return false;
  }

  template <class Path>
  void check_alloc(const Op& op, States& states, Path&& path) {
    if (!op.tensor.valid() && op.gradient_of.valid()) return;  // FSDP frees it: no other op names it
    if (!op.tensor.valid()) return fail(path(), "an alloc names its tensor");
    if (op.tensor.value >= kMaxTensors)
      return fail(path(), fmt::format("tensor {} is not below {}", op.tensor.value, kMaxTensors),
                  "number the tensors of a program from 0");
    if (states.of(op.tensor) != States::State::none)
      return fail(path(), fmt::format("tensor {} is allocated twice in this program", op.tensor.value));
    states.set(op.tensor, States::State::allocated);
    if (op.size.kind != AllocationSize::Kind::fixed && !op.size.parameter.valid())
      return fail(path(), fmt::format("a {} names its parameter", name(op.size.kind)));
    if (op.size.bytes > kMaxAllocation)
      fail(path(), fmt::format("{} bytes are more than {}", op.size.bytes, kMaxAllocation));
  }

  template <class Path>
  void check_free(const Op& op, std::size_t step, States& states, Path&& path) {
    if (op.before_recording) return;
    if (!op.tensor.valid()) return fail(path(), "a free names its tensor");
    if (step == kSetup && (op.from_setup || op.steps_ago > 0))
      return fail(path(), "a free in setup can only mean setup's own tensors");
    if (op.from_setup || op.steps_ago > 0) {
      if (!allocated_earlier(op, step))
        fail(path(), fmt::format("tensor {} is not allocated in {}", op.tensor.value,
                                 op.from_setup ? "setup" : fmt::format("the step {} before", op.steps_ago)));
      return;
    }
    if (states.of(op.tensor) == States::State::none)
      return fail(path(), fmt::format("tensor {} is not allocated before this free", op.tensor.value),
                  "a tensor of an earlier step needs \"steps_ago\", one of setup \"from_setup\"");
    if (states.of(op.tensor) == States::State::freed)
      return fail(path(), fmt::format("tensor {} is freed twice", op.tensor.value));
    states.set(op.tensor, States::State::freed);
  }

  void check_program(const Program& program, std::size_t step, KernelPlaces& places) {
    States states;
    for (std::size_t i = 0; i < program.ops.size() && !error_; ++i) {
      const Op& op = program.ops[i];
      const auto path = [&] {
        return step == kSetup ? fmt::format("setup[{}]", i) : fmt::format("steps[{}][{}]", step, i);
      };
      check_id(op.unit, "unit", workload_.units.size(), path);
      check_id(op.size.parameter, "parameter", parameters_, path);
      check_id(op.gradient_of, "parameter", parameters_, path);
      check_time(op.host_before, path);
      check_time(op.kernel.work, path);
      check_time(op.copy.work, path);
      if (op.kernel.ring_slowdown < 0) fail(path(), "a ring_slowdown is not negative");
      if (op.kind == OpKind::alloc) check_alloc(op, states, path);
      if (op.kind == OpKind::free) check_free(op, step, states, path);
      if (op.kind == OpKind::collective) check_collective(op, path);
      if (op.kind == OpKind::hook && names_a_unit(op.hook) && !op.unit.valid())
        fail(path(), fmt::format("{} names its unit", name(op.hook)));
      if (error_) return;
      if (std::string fault = places.fault_of(op); !fault.empty()) fail(path(), std::move(fault));
    }
  }

  const Workload& workload_;
  std::string where_;
  std::size_t parameters_ = 0;
  std::vector<TensorId> setup_names_;
  std::vector<std::vector<TensorId>> step_names_;
  std::optional<Error> error_;
};

}  // namespace

Result<void> check_workload(const Workload& workload, std::string_view where) {
  return Checker(workload, where).run();
}

}  // namespace foreshard::traces
