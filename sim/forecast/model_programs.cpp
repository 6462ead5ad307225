// ProgramSource of a model: its program is generated at every length.

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "core/adapt/adapt.hpp"
#include "sim/forecast/length_programs.hpp"
#include "sim/parallel/for_each.hpp"
#include "sim/predict/memory_doubts.hpp"

namespace foreshard::sim {
namespace {

/// Lengths whose programs are made before any is shared: what a length has of its own is a small part of its program.
constexpr std::size_t kAtOnce = 64;

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
    for (std::size_t from = 0; from < missing.size(); from += kAtOnce) {
      const std::span<const std::uint32_t> part(missing.data() + from, std::min(kAtOnce, missing.size() - from));
      FORESHARD_TRY(prepare_part(part, threads, [&](std::size_t done) {
        if (on_made) on_made(from + done, missing.size());
      }));
    }
    return {};
  }
  [[nodiscard]] bool costs_to_prepare() const override { return true; }
  [[nodiscard]] const LengthPrograms& at(std::uint32_t length) const override { return programs_.at(length); }
  [[nodiscard]] const ProcessStart& start() const override { return start_; }
  [[nodiscard]] std::vector<std::string> doubts() const override { return doubts_; }

 private:
  struct Made {
    DerivedSteps steps;
    std::vector<std::string> doubts;
  };

  Result<void> prepare_part(std::span<const std::uint32_t> lengths, unsigned threads,
                            const std::function<void(std::size_t)>& tell) {
    std::vector<Result<Made>> made(lengths.size(), fail(ErrorKind::usage, "not derived"));
    for_each(
        lengths.size(), threads, [&](std::size_t i) { made[i] = derive(lengths[i]); }, tell);
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      if (!made[i]) {
        Error error = made[i].error();
        error.what = fmt::format("sequence length {}: {}", lengths[i], error.what);
        return tl::unexpected(std::move(error));
      }
      FORESHARD_TRY(add(lengths[i], std::move(made[i]->steps)));
      for (std::string& doubt : made[i]->doubts)
        if (std::find(doubts_.begin(), doubts_.end(), doubt) == doubts_.end()) doubts_.push_back(std::move(doubt));
    }
    return {};
  }

  [[nodiscard]] Result<Made> derive(std::uint32_t length) const {
    Settings settings = settings_;
    settings.seq = length;
    const auto workload = source_.at(settings);
    FORESHARD_TRY(workload);
    const auto adapted = adapt(**workload, settings);
    FORESHARD_TRY(adapted);
    auto steps = derive_steps(adapted->workload, settings, 2);
    FORESHARD_TRY(steps);
    return Made{std::move(*steps), memory_doubts(**workload, settings)};
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
  std::vector<std::string> doubts_;  // of all lengths, each once
  ProcessStart start_;
  Shapes shapes_;
};

}  // namespace

std::unique_ptr<ProgramSource> model_programs(WorkloadSource& source, const Settings& settings) {
  return std::make_unique<ModelPrograms>(source, settings);
}

}  // namespace foreshard::sim
