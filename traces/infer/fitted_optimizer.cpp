#include "traces/infer/fitted_optimizer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>
#include <vector>

#include "core/base/json_io.hpp"
#include "core/settings/settings_names.hpp"

namespace foreshard::traces {
namespace {

constexpr std::string_view kStep = "Optimizer.step#";

/// "Adam" of "Optimizer.step#Adam.step"; empty: no such range.
std::string_view optimizer_class(std::span<const Range> ranges) {
  for (const Range& range : ranges) {
    if (!range.name.starts_with(kStep)) continue;
    const std::string_view rest = range.name.substr(kStep.size());
    return rest.substr(0, rest.find('.'));
  }
  return {};
}

std::vector<Optimizer> candidates_of(std::string_view name) {
  if (name == "Adam" || name == "AdamW") return {Optimizer::adam, Optimizer::adam_fused, Optimizer::adam_single};
  if (name == "SGD") return {Optimizer::sgd};
  return {};
}

std::string tried(const std::vector<Optimizer>& candidates) {
  if (candidates.empty()) return "an optimizer that is known";
  std::vector<std::string_view> names;
  for (const Optimizer candidate : candidates)
    names.push_back(candidate == Optimizer::sgd ? "sgd, which has no momentum" : name(candidate));
  return fmt::format("{}", fmt::join(names, ", "));
}

}  // namespace

void fit_optimizer(const CaptureInput& input, std::span<const Range> ranges, Inference& inference) {
  const std::string_view name = optimizer_class(ranges);
  const auto say = [&](std::string from, bool settled) {
    inference.set({"optimizer", json_quoted(foreshard::name(inference.settings.optimizer)), std::move(from), settled});
  };
  const std::vector<Optimizer> candidates = candidates_of(name);
  for (const Optimizer candidate : candidates) {
    inference.settings.optimizer = candidate;
    Settings settings = input.settings;
    settings.optimizer = candidate;
    const auto capture = capture_at(input, settings);
    if (!capture) {  // whatever the optimizer is
      inference.settings.optimizer = Settings{}.optimizer;
      return say("the step could not be taken apart: " + capture.error().what, false);
    }
    if (capture->workload.optimizer_known)
      return say(fmt::format("ranges of {}, and its requests in every step", name), true);
    if (capture->optimizer_began_before)
      return say(fmt::format("ranges of {}, and its requests but for the states, made before the recording", name),
                 true);
  }
  inference.settings.optimizer = Settings{}.optimizer;
  say(name.empty() ? std::string("there is no Optimizer.step range")
                   : fmt::format("ranges of {}, whose requests are not those of {}", name, tried(candidates)),
      false);
}

}  // namespace foreshard::traces
