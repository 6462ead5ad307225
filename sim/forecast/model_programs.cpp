// ProgramSource of a model: its program is generated at every length.

#include <fmt/format.h>

#include <algorithm>

#include "core/adapt/adapt.hpp"
#include "sim/forecast/length_programs.hpp"
#include "sim/parallel/for_each.hpp"

namespace foreshard::sim {
namespace {

/// Programs of most lengths have one shape: those that do share it.
class Shapes {
 public:
  void share(AllocationProgram& program) {
    for (const auto& known : known_) {
      if (!known->same_order(*program.shape)) continue;
      program.shape = known;
      return;
    }
    known_.push_back(program.shape);
  }

 private:
  std::vector<std::shared_ptr<const ProgramShape>> known_;
};

class ModelPrograms final : public ProgramSource {
 public:
  ModelPrograms(WorkloadSource& source, const Settings& settings) : source_(source), settings_(settings) {}

  using ProgramSource::prepare;
  Result<void> prepare(const std::vector<std::uint32_t>& lengths, unsigned threads,
                       const std::function<void(std::size_t, std::size_t)>& on_made) override {
    std::vector<std::uint32_t> missing;
    for (const std::uint32_t length : lengths)
      if (!programs_.contains(length)) missing.push_back(length);
    std::vector<Result<DerivedSteps>> made(missing.size(), fail(ErrorKind::usage, "not derived"));
    const auto tell = [&](std::size_t done) {
      if (on_made) on_made(done, missing.size());
    };
    for_each(
        missing.size(), threads, [&](std::size_t i) { made[i] = derive(missing[i]); }, tell);
    for (std::size_t i = 0; i < missing.size(); ++i) {
      if (!made[i]) {
        Error error = made[i].error();
        error.what = fmt::format("sequence length {}: {}", missing[i], error.what);
        return tl::unexpected(std::move(error));
      }
      FORESHARD_TRY(add(missing[i], std::move(*made[i])));
    }
    return {};
  }
  [[nodiscard]] const LengthPrograms& at(std::uint32_t length) const override { return programs_.at(length); }
  [[nodiscard]] const ProcessStart& start() const override { return start_; }

 private:
  [[nodiscard]] Result<DerivedSteps> derive(std::uint32_t length) const {
    Settings settings = settings_;
    settings.seq = length;
    const auto workload = source_.at(settings);
    FORESHARD_TRY(workload);
    const auto adapted = adapt(**workload, settings);
    FORESHARD_TRY(adapted);
    return derive_steps(adapted->workload, settings, 2);
  }

  /// Setup is the longest length's: what it keeps by position (tables of angles) is made for the longest.
  Result<void> add(std::uint32_t length, DerivedSteps&& made) {
    if (!start_.setup.shape || length > programs_.rbegin()->first) {
      if (start_.setup.shape && !start_.setup.shape->same_order(*made.start.setup.shape))
        return fail(ErrorKind::usage,
                    fmt::format("what is made before the first step depends on the length, {}", length));
      start_ = std::move(made.start);
    }
    for (AllocationProgram& program : made.steps) shapes_.share(program);
    const std::size_t carried =
        programs_.empty() ? made.steps[1].shape->carried.size() : programs_.begin()->second.later.shape->carried.size();
    for (const AllocationProgram& program : made.steps)
      if (program.shape->carried.size() != carried)
        return fail(ErrorKind::usage, fmt::format("length {} leaves {} blocks to the next step, others {}", length,
                                                  program.shape->carried.size(), carried));
    programs_.emplace(length, LengthPrograms{std::move(made.steps[0]), std::move(made.steps[1])});
    return {};
  }

  WorkloadSource& source_;
  Settings settings_;
  std::map<std::uint32_t, LengthPrograms> programs_;
  ProcessStart start_;
  Shapes shapes_;
};

}  // namespace

std::unique_ptr<ProgramSource> model_programs(WorkloadSource& source, const Settings& settings) {
  return std::make_unique<ModelPrograms>(source, settings);
}

}  // namespace foreshard::sim
