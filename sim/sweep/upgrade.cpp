#include "sim/sweep/upgrade.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "core/settings/pytorch_version.hpp"
#include "sim/parallel/for_each.hpp"
#include "sim/predict/bound_by.hpp"

namespace foreshard::sim {
namespace {

std::int64_t less(Bytes after, Bytes before) {
  return static_cast<std::int64_t>(after) - static_cast<std::int64_t>(before);
}

VersionChange change_of(const Prediction& after, const Prediction& before) {
  const MemoryPeaks a = largest_peaks(after);
  const MemoryPeaks b = largest_peaks(before);
  return {less(a.requested, b.requested), less(a.allocated, b.allocated), less(a.active, b.active),
          less(a.reserved, b.reserved), after.step_ms - before.step_ms};
}

VersionChange reversed(const VersionChange& c) {
  return {-c.requested, -c.allocated, -c.active, -c.reserved, -c.step_ms};
}

/// Whether a plan under these settings may differ by the rule on that GPU.
bool is_followed(const VersionRule& rule, const Settings& settings, const TargetGpu& gpu) {
  if (rule.area == RuleArea::libraries) return gpu.cublas_rule() == rule.id;
  if (rule.planned == RulePlanned::yes) return rule.moves != RuleEffect::nothing;
  return rule.id == RuleId::reduce_input_cap && settings.reduce_scatter_max_input_buffers > 1;
}

/// Whether invented addresses alone may have made it, which break ties between equal blocks either way.
bool within_ties(const VersionChange& change, const Prediction& after, const Prediction& before) {
  if (!after.addresses_invented && !before.addresses_invented) return false;
  const MemoryPeaks peaks = largest_peaks(before);
  const auto known = [](std::int64_t bytes, Bytes of) {
    return std::abs(static_cast<double>(bytes)) <= kInventedTies * static_cast<double>(of);
  };
  return change.requested == 0 && std::abs(change.step_ms) < kShownMs && known(change.allocated, peaks.allocated) &&
         known(change.active, peaks.active) && known(change.reserved, peaks.reserved);
}

/// Of versions of one number, the one that has the rules is the newer: the other leaves them out.
bool is_newer(const std::string& to, const std::string& from, const std::vector<const VersionRule*>& followed) {
  const auto minor = pytorch_minor(to);
  const auto other = pytorch_minor(from);
  return minor == other ? followed.empty() || holds(followed.front()->id, to) : minor > other;
}

/// `version` without what it leaves out, but for rules that are not among `followed`.
std::string with_all(const std::string& version, const std::vector<const VersionRule*>& followed) {
  std::string out = version.substr(0, version.find('~'));
  for (std::size_t at = version.find('~'); at != std::string::npos;) {
    const std::size_t next = version.find('~', at + 1);
    const VersionRule* rule = find_rule(std::string_view(version).substr(at + 1, next - at - 1));
    if (rule != nullptr && std::find(followed.begin(), followed.end(), rule) == followed.end())
      out = without_rule(out, *rule);
    at = next;
  }
  return out;
}

}  // namespace

bool VersionChange::moves() const {
  return requested != 0 || allocated != 0 || active != 0 || reserved != 0 || std::abs(step_ms) >= kShownMs;
}

Result<Upgrade> find_upgrade(const Workload& workload, const MachineProfile& machine, const PredictRequest& request,
                             const std::string& from, const Prediction& planned) {
  PredictRequest ask{request.settings, request.memory_limit, request.steps, planned.host_scale};
  ask.ops_alone = true;
  ask.follow_recording = false;  // no other version can
  const auto under = [&](const std::string& pytorch) -> Result<Prediction> {
    PredictRequest other = ask;
    other.settings.pytorch = pytorch;
    auto p = predict(workload, machine, other);
    FORESHARD_TRY(p);
    if (p->out_of_memory || p->deadlock)
      return fail(ErrorKind::usage, fmt::format("under PyTorch {} the same settings {}", pytorch,
                                                p->deadlock ? "deadlock" : "run out of memory"));
    return p;
  };
  const auto before = under(from);
  FORESHARD_TRY(before);
  Upgrade out{from,
              request.settings.pytorch,
              largest_peaks(*before),
              largest_peaks(planned),
              planned.has_time,
              before->step_ms,
              planned.step_ms,
              change_of(planned, *before),
              {},
              {},
              {},
              {}};
  PredictRequest recorded = ask;
  recorded.settings.pytorch = from;
  recorded.follow_recording = true;
  if (recorded.settings == workload.settings) {
    const auto itself = predict(workload, machine, recorded);
    FORESHARD_TRY(itself);
    if (change_of(*itself, *before).moves()) out.recorded = {largest_peaks(*itself), itself->step_ms};
  }
  std::vector<const VersionRule*> followed;
  for (const VersionRule* rule : differing_rules(from, out.to))
    (is_followed(*rule, request.settings, machine.gpu()) ? followed : out.not_planned).push_back(rule);
  const bool newer = is_newer(out.to, from, followed);
  // The newer version with the first k rules as it has them and the others as the older one: all of them is the newer
  // version itself, and none the older one. Either may leave out what the other follows.
  const std::string& newest = newer ? out.to : from;
  const std::string& oldest = newer ? from : out.to;
  const std::string whole_rules = with_all(newest, followed);
  std::vector<std::optional<Result<Prediction>>> with(followed.size());
  for_each(followed.size(), request.threads, [&](std::size_t k) {
    std::string pytorch = whole_rules;
    for (std::size_t i = 0; i < followed.size(); ++i)
      if (!holds(followed[i]->id, i < k ? newest : oldest)) pytorch = without_rule(pytorch, *followed[i]);
    with[k] = under(pytorch);
  });
  for (std::size_t k = 0; k < followed.size(); ++k) {
    FORESHARD_TRY(*with[k]);
    const bool last = k + 1 == followed.size();
    if (!last) FORESHARD_TRY(*with[k + 1]);
    const Prediction& whole = newer ? planned : *before;
    const Prediction& next = last ? whole : **with[k + 1];
    const VersionChange part = change_of(next, **with[k]);
    if (part.moves())
      out.rules.push_back({followed[k], newer ? part : reversed(part), within_ties(part, next, **with[k])});
    else
      out.unmoved.push_back(followed[k]);
  }
  return out;
}

}  // namespace foreshard::sim
