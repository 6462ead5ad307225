#include "sim/sweep/largest_fit.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/base/check.hpp"
#include "core/settings/settings_table.hpp"
#include "sim/sweep/outcome.hpp"

namespace foreshard::sim {
namespace {

constexpr std::array<std::string_view, 2> kSizes{"batch", "seq"};
constexpr std::array<std::string_view, 2> kSizeWords{"batch size", "sequence length"};

SizeFits fits_of(const Prediction& p) {
  if (p.out_of_memory || runs_out_later(p) || p.deadlock) return SizeFits::no;
  if (p.may_run_out_of_memory) return SizeFits::maybe;
  return keeps_retrying(p) ? SizeFits::with_retries : SizeFits::yes;
}

class SizeSearch {
 public:
  SizeSearch(const Simulated& how, const LargestFitRequest& request) : how_(how), request_(request) {
    if (request.below > 0) tried_[request.below] = {request.below, SizeFits::no, 0, {}};
  }

  LargestFit find() {
    probe(request_.from);
    std::uint32_t fits = largest(SizeFits::with_retries);
    if (fits == 0) fits = largest(SizeFits::maybe);
    const std::uint32_t calm = fits > 0 ? largest(SizeFits::yes) : 0;
    LargestFit out{request_.size, calm > 0 ? calm : fits, calm > 0 && fits > calm ? fits : 0, {}};
    for (auto& [value, one] : tried_) out.tried.push_back(std::move(one));
    return out;
  }

 private:
  /// The largest that fits so well at least, of all that were tried: one more was tried and does not. 0: none.
  std::uint32_t largest(SizeFits least) {
    for (;;) {
      std::uint32_t low = 0, high = 0;
      for (const auto& [value, one] : tried_) {
        if (one.fits >= least)
          low = value, high = 0;
        else if (high == 0)
          high = value;
      }
      if (low == 0 || high == low + 1) return low;
      if (high == 0 && low >= request_.most) return low;
      probe(high > 0 ? low + (high - low) / 2 : std::min(2 * low, request_.most));
    }
  }

  void probe(std::uint32_t value) {
    SizeProbe& out = tried_[value];
    out.value = value;
    PredictRequest wanted{request_.settings, how_.memory_limit};
    wanted.host_scale = how_.host_scale;
    wanted.memory_only = true;
    (request_.size == SizeSetting::batch ? wanted.settings.batch : wanted.settings.seq) = value;
    const auto refuse = [&](const Error& error) { out.refusal = error.what; };
    if (const auto possible = check(wanted.settings); !possible) return refuse(possible.error());
    const auto workload = how_.source.at(wanted.settings);
    if (!workload) return refuse(workload.error());
    const auto p = predict(**workload, how_.machine, wanted);
    if (!p) return refuse(p.error());
    out.fits = fits_of(*p);
    out.reserved = most_reserved(*p);
  }

  const Simulated& how_;
  const LargestFitRequest& request_;
  std::map<std::uint32_t, SizeProbe> tried_;
};

}  // namespace

std::string_view name(SizeSetting size) {
  return kSizes[static_cast<std::size_t>(size)];
}

const SizeProbe& LargestFit::found() const {
  const auto at =
      std::find_if(tried.begin(), tried.end(), [&](const SizeProbe& probe) { return probe.value == value; });
  FORESHARD_CHECK(at != tried.end(), "the largest size that fits was tried");
  return *at;
}

std::string words_of(const LargestFit& found) {
  const std::uint32_t most = std::max(found.value, found.with_retries);
  std::string words;
  if (found.with_retries > 0)
    words += fmt::format("{} fits only with retries in the steady step; ", found.with_retries);
  const auto next =
      std::find_if(found.tried.begin(), found.tried.end(), [&](const SizeProbe& probe) { return probe.value > most; });
  if (next != found.tried.end())
    words += next->refusal.empty()
                 ? fmt::format("{} {} fit; ", next->value, next->fits == SizeFits::maybe ? "may not" : "does not")
                 : fmt::format("{} was refused, not tried ({}); ", next->value, next->refusal);
  const auto count = std::count_if(found.tried.begin(), found.tried.end(),
                                   [](const SizeProbe& probe) { return probe.refusal.empty(); });
  return words + fmt::format("{} {}{} simulated", count, kSizeWords[static_cast<std::size_t>(found.size)],
                             count == 1 ? " was" : "s were");
}

LargestFit largest_fit(const Simulated& how, const LargestFitRequest& request) {
  return SizeSearch(how, request).find();
}

Result<LargestFit> find_largest_fit(WorkloadSource& source, const MachineProfile& machine,
                                    const LargestFitRequest& request) {
  const auto host_scale = common_host_scale(source, machine, request.settings);
  FORESHARD_TRY(host_scale);
  return largest_fit({source, machine, request.memory_limit, *host_scale}, request);
}

}  // namespace foreshard::sim
